//! The collecting loop.
