//! The library as a program uses it, compared with the original and with a simulated driver.
#![cfg(test)]

mod day;
mod monitor;
mod original;
