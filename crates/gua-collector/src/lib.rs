//! The collecting loop: a tick on schedule, read by the reader child, delivered to the history and whoever else wants it.
//!
//! Nothing that happens outside ends the loop but a signal: a sick driver and a full disk cost ticks, which are counted
//! and told. The loop knows no file, prints nothing and reads no settings: it is given a [`World`] (clock, driver,
//! signals), [`Sink`]s and an [`Attendant`], so a test can play all three.

pub mod attendant;
pub mod board;
pub mod chain;
pub mod clocks;
pub mod collector;
mod complaint;
pub mod csv;
pub mod events;
pub mod history;
pub mod machine;
pub mod managed;
mod outlet;
pub mod pid_file;
pub mod rival;
pub mod schedule;
pub mod sink;
pub mod systemd;
mod trouble;
pub mod world;

pub use attendant::{Attendant, Ongoing, Options};
pub use clocks::Clocks;
pub use collector::{Collector, Summary};
pub use machine::Machine;
pub use schedule::Schedule;
pub use sink::{Sink, SinkError};
pub use world::{Wake, World};
