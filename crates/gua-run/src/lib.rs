//! One watched job: what it reports about itself, what its GPUs and processors did meanwhile, and the files of the run.
//!
//! A program that watches itself uses three items, which replace those of the same names in
//! `pytyche.diagnostics.run_monitor`:
//!
//! - [`RunLog`]: phases and events, in memory and appended to a file at once
//! - [`HwMonitor`]: samples GPUs and processors into three files until it is stopped
//! - [`build_resource_summary`]: ten numbers from those files, written by us or by the original
//!
//! ```
//! use std::time::Duration;
//! use gua_probe::clock;
//! use gua_probe::keeper::Keeper;
//! use gua_probe::probe::ProbeOptions;
//! use gua_run::{Fields, HwMonitor, RunLog, build_resource_summary};
//!
//! # let folder = tempfile::tempdir()?;
//! # let out = folder.path();
//! let mut log = RunLog::in_file(&out.join("run.jsonl"))?;
//! let driver = Keeper::start(ProbeOptions::default(), Duration::from_secs(5))?;
//! let monitor = HwMonitor::start(out, Duration::from_millis(100), driver, None)?;
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
//! readings and never delays the job.

mod energy;
mod gpu_use;
mod job;
mod lines;
mod log;
mod mark_pipe;
mod marks;
mod means;
mod monitor;
mod own;
mod phases;
mod record;
mod recorder;
mod run_summary;
mod summary;
mod supervise;
mod tree_use;
pub mod verdict;
mod watch;
pub mod watcher;

pub use gua_wire::run::json::{Fields, NoJson};
pub use gua_wire::run::kind::RunFile;
pub use gua_wire::run::log::Seconds;
pub use gua_wire::run::summary::{LineRule, ResourceSummary};

pub use gpu_use::GpuSummary;
pub use job::{End, Job, end_by};
pub use lines::LineFile;
pub use log::RunLog;
pub use mark_pipe::MarkPipe;
pub use marks::{DESCRIPTOR_VARIABLE, MAX_MARK_LENGTH, Mark, Marks, PIPE_VARIABLE, RUN_VARIABLE};
pub use monitor::{HwMonitor, MonitorFiles};
pub use phases::PhaseSummary;
pub use record::Record;
pub use recorder::{record_end, record_start};
pub use run_summary::{JAX_PEAK, RunFacts, RunName, RunSummary};
pub use summary::{Summarized, build_resource_summary, summarize, summarize_paths};
pub use supervise::{Options, Outcome, supervise};
pub use tree_use::TreeSummary;
pub use watch::{GpuLines, Scope, Watch, sample_fields};
