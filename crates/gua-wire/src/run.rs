//! The files of a watched job: the run log, the three metric files, and the summary computed from them.
//!
//! The formats are those of `pytyche.diagnostics.run_monitor` 0.2.1: its readers (tail, jq, pandas, its own
//! `build_resource_summary`) can read our files, and gua can read its files. Its bugs are not copied: the column of
//! memory utilisation is found by name, and a missing value invalidates only itself instead of its line.
//!
//! - [`json`]: values as that program writes them
//! - [`kind`]: detection of a file's type
//! - [`log`]: the lines of `run.jsonl`
//! - [`metrics`]: the lines of `hw_metrics.csv`, `hw_dmon.csv` and `cpu_metrics.csv`
//! - [`summary`]: [`summary::ResourceSummary`], and the [`summary::Tally`] that computes it

pub mod json;
pub mod kind;
pub mod log;
pub mod metrics;
pub mod summary;

/// Name of the summary in the directory of a run.
pub const SUMMARY: &str = "summary.json";
