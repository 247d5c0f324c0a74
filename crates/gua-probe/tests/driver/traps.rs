//! One or more tests for each entry of the list of driver traps in docs/traps.md. Each fails without the handling that
//! it names.

mod buffers;
mod driver;
mod gpus;
mod lists;
