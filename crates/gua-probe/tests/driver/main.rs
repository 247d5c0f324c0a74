//! The probe against the simulated driver library, loaded exactly as the real one is.
#![cfg(test)]

mod host;
mod keeper;
mod readings;
mod sickness;
mod traps;
