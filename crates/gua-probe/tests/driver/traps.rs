//! One test, or a few, for each entry of the list of driver traps in docs/traps.md. Each fails without the handling that it
//! names.

mod buffers;
mod cards;
mod driver;
mod lists;
