//! The collecting loop: a tick on schedule, read by the reader child, delivered to the history and whoever else wants it.
//!
//! Nothing that happens outside ends the loop but a signal: a sick driver and a full disk cost ticks, which are counted
//! and told. The loop knows no file, prints nothing and reads no settings: it is given a [`Runtime`] (clock, driver,
//! signals), [`Sink`]s and an [`Observer`], so a test can play all three.

pub mod board;
pub mod chain;
pub mod clocks;
pub mod collector;
pub mod csv;
pub mod events;
mod failure_log;
pub mod history;
pub mod host_runtime;
pub mod managed;
pub mod observer;
pub mod open_outage;
pub mod pid_file;
mod problem_log;
pub mod python_collector;
pub mod runtime;
pub mod schedule;
pub mod sink;
mod sink_state;
pub mod systemd;

pub use clocks::Clocks;
pub use collector::{Collector, Summary};
pub use host_runtime::HostRuntime;
pub use observer::{Observer, Options};
pub use open_outage::OpenOutage;
pub use runtime::{Runtime, Wake};
pub use schedule::Schedule;
pub use sink::{Sink, SinkError};
