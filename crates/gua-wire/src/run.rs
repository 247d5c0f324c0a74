//! The files of a watched job: the run log, the three metric files, and the summary that is made of them.
//!
//! They are those of `pytyche.diagnostics.run_monitor` 0.2.1, whose readers (tail, jq, pandas, its own
//! `build_resource_summary`) read ours, and the other way round. What that program gets wrong is not copied: the column of
//! memory utilisation is found by its name, and a value that is missing costs itself and not the line that it stands in.
//!
//! - [`json`]: values as that program writes them
//! - [`kind`]: which of the files a file is
//! - [`log`]: the lines of `run.jsonl`
//! - [`metrics`]: the lines of `hw_metrics.csv`, `hw_dmon.csv` and `cpu_metrics.csv`
//! - [`summary`]: [`summary::ResourceSummary`], and the [`summary::Tally`] that it is made of

pub mod json;
pub mod kind;
pub mod log;
pub mod metrics;
pub mod summary;

/// The names of the files in the directory of a run.
pub mod file {
    pub const LOG: &str = "run.jsonl";
    pub const GPU: &str = "hw_metrics.csv";
    pub const DMON: &str = "hw_dmon.csv";
    pub const CPU: &str = "cpu_metrics.csv";
    pub const SUMMARY: &str = "summary.json";
}
