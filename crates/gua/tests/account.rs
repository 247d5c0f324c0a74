//! Keeping accounts, as people do it: the real binary, a simulated driver, real files.

mod csv;
mod import;
mod quota;
mod statement;
