//! The contract of the two traits as tests. An engine calls [`registry`] and [`ledger`] from its own tests, each with a
//! function that opens a new, empty store.

mod tests;

pub use tests::{ledger, registry};
