//! Our reports compared with those of real releases of gpu-usage-audit, on the same files.

mod action;
