//! Reads GPUs and the processes on them: the driver, `/proc`, cgroups, passwd and the clock.
//!
//! This crate never keeps a command line, never reads an environment, never stores anything, and never parses another
//! program's output, except that [`doctor`] and [`verify`] run `nvidia-smi`. One process owns the driver: [`reader::Reader`] runs it
//! in a child that can be replaced when it hangs. The driver is behind a `backend` trait; NVML is its first
//! implementation.

mod backend;
pub mod backoff;
pub mod clock;
pub mod clocks;
pub mod doctor;
pub mod fault;
pub mod host;
pub mod keeper;
mod kernel_log;
mod nvml;
pub mod own_code;
pub mod probe;
pub mod process;
pub mod reader;
pub mod verify;
