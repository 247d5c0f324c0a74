//! The library as a program uses it: beside the original, and against a simulated driver.
#![cfg(test)]

mod day;
mod monitor;
mod original;
