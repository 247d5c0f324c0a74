//! Accounting commands, run as users run them: the real binary, a simulated driver, real files.

mod csv;
mod import;
mod quota;
mod statement;
