//! `gua doctor` as people run it: the real program, the simulated driver, an empty home. Whatever the driver does, the
//! page is complete, the sentence is clear, the exit code is the promised one, and nothing is left behind.
#![cfg(test)]

mod driver;
mod host;
mod page;
