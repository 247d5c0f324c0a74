//! Our reports beside those of the real releases of gpu-usage-audit, on the same files.

mod action;
