//! The daemon as users run it: the real binary, a simulated driver, real signals, files and sockets.

mod cycle;
mod faults;
mod history;
mod pid_files;
mod python;
mod sandbox;
mod soak;
mod systemd;
mod takeover;
