//! One watched job: what it says of itself, what its cards and processors did meanwhile, and the files that keep it.
//!
//! A program that watches itself uses three things, which stand in for those of the same names in
//! `pytyche.diagnostics.run_monitor`:
//!
//! - [`RunLog`]: phases and events, in memory and in a file that grows as it happens
//! - [`HwMonitor`]: samples cards and processors into three files until it is stopped
//! - [`build_resource_summary`]: ten numbers from those files, ours or the original's
//!
//! ```
//! use std::time::Duration;
//! use gua_probe::clock;
//! use gua_run::{Fields, HwMonitor, MonitorOptions, RunLog, build_resource_summary};
//!
//! # let folder = tempfile::tempdir()?;
//! # let out = folder.path();
//! let mut log = RunLog::in_file(&out.join("run.jsonl"))?;
//! let options = MonitorOptions { interval: Duration::from_millis(100), ..MonitorOptions::default() };
//! let monitor = HwMonitor::start(out, options)?;
//!
//! let began = clock::monotonic();
//! // ... the work ...
//! let seconds = (clock::monotonic() - began).as_secs_f64();
//! log.phase(clock::now(), "work", seconds, &Fields::new().with("epochs", 3));
//!
//! let files = monitor.stop();
//! let summary = build_resource_summary(files.gpu.as_deref(), files.cpu.as_deref(), files.dmon.as_deref())?;
//! for (name, value) in summary.entries() {
//!     println!("{name} {value}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate reads no environment and prints nothing. The driver is read by [`gua_probe`]; a driver that hangs costs
//! readings and never the job.

mod attend;
mod card_use;
mod digest;
mod energy;
mod job;
mod lines;
mod log;
mod marks;
mod means;
mod monitor;
mod own;
mod phases;
mod record;
mod rolled_up;
mod stretch;
mod summary;
mod tree_use;
mod watch;

pub use gua_wire::run::file;
pub use gua_wire::run::json::{Fields, NoJson};
pub use gua_wire::run::kind::RunFile;
pub use gua_wire::run::log::Seconds;
pub use gua_wire::run::summary::ResourceSummary;

pub use attend::{Options, Outcome, StartError, attend};
pub use card_use::CardSummary;
pub use digest::{JAX_PEAK, RunFacts, RunName, RunSummary};
pub use job::{End, Job, JobCommand, end_by};
pub use lines::LineFile;
pub use log::RunLog;
pub use marks::{DESCRIPTOR_VARIABLE, LONGEST_MARK, Mark, Marks, PIPE_VARIABLE, RUN_VARIABLE};
pub use monitor::{Cards, GpuSource, HwMonitor, MonitorFiles, MonitorOptions};
pub use phases::PhaseSummary;
pub use record::{OutputError, Record};
pub use rolled_up::RolledUp;
pub use summary::{Summarized, UnreadableFile, build_resource_summary, summarize};
pub use tree_use::TreeSummary;
pub use watch::{CardLines, Scope, Watch, sample_fields};
