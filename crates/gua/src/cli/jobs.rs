//! Commands of the group Jobs: run a program on GPUs, record its use, and manage leases.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Subcommand, ValueHint};
use gua_claim::ClaimId;
use serde_json::Value;

use super::{FormatArgs, HistoryArgs, ListingArgs};

/// Run a command and record its GPU, CPU and memory use.
///
/// The command runs exactly as it would without gua: same terminal, same signals, same exit code. Only the command's
/// own GPUs and processes are sampled. At the end, a summary shows what was used and what was wasted.
///
/// # Notes
///
/// The GPUs of a job are those in CUDA_VISIBLE_DEVICES and those on which its processes are found.
///
/// --out writes run.jsonl (one line per event, as it happens), hw_metrics.csv, hw_dmon.csv, cpu_metrics.csv and, at the
/// end, summary.json. docs/run.md describes their fields.
///
/// Inside the job, `gua phase NAME` marks the start of a phase.
///
/// Exit codes: that of the command; 126 or 127 if it cannot be started; 2 for a usage error; with --claim, 3 if no GPU is
/// free and 1 if the driver cannot be read.
///
/// A signal sent to gua alone is forwarded to the command. A signal sent to the whole process group (kill -TERM -PGID, some
/// batch systems) reaches the command twice; Ctrl-C reaches it once.
///
/// # Examples
///
/// - `gua run -- python train.py`
/// - `gua run --out runs/7 -- python train.py`: write the metrics to files
/// - `gua run --claim 2 --wait -- python train.py`: wait for two GPUs and lease them
/// - `gua run --claim 1 --wait=1h -- ./job`: wait at most one hour for a GPU
/// - `gua run --interval 200ms -- ./short`
/// - `tail -f runs/7/run.jsonl | jq 'select(.type == "sample") | .gpus'`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Lease N free GPUs, make only these visible to the command, and release them at the end.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "gpus")]
    pub claim: Option<u32>,

    /// Wait for free GPUs, first come, first served, for at most TIMEOUT [default: no limit].
    #[arg(long, value_name = "TIMEOUT", value_parser = gua_model::duration::parse, num_args = 0..=1, require_equals = true, requires = "claim")]
    pub wait: Option<Option<Duration>>,

    /// Write the files of the run to this directory; it is created if missing.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,

    /// Sampling interval.
    #[arg(long, value_name = "DURATION", value_parser = gua_model::duration::parse, default_value = "2s")]
    pub interval: Duration,

    /// GPUs to sample: auto, all, or a comma-separated list of indexes and UUIDs.
    #[arg(long, value_name = "GPUS", default_value = "auto")]
    pub gpus: String,

    /// Name of the run [default: the program's name].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Do not print the summary at the end.
    #[arg(short, long)]
    pub quiet: bool,

    /// Command to run, with its arguments.
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

impl RunArgs {
    /// The timeout of `--wait` and the command. `--wait 1h -- CMD` is `--wait=1h -- CMD`, although `1h` is parsed as the
    /// first word of the command.
    pub fn parts(&self) -> (Option<Option<Duration>>, &[OsString]) {
        let spaced = match self.command.as_slice() {
            [first, dashes, command @ ..] if self.wait == Some(None) && dashes == "--" => {
                timeout(first).map(|limit| (Some(Some(limit)), command))
            }
            _ => None,
        };
        spaced.unwrap_or((self.wait, &self.command))
    }
}

/// The duration that a word is, if it is one.
pub fn timeout(word: &OsStr) -> Option<Duration> {
    gua_model::duration::parse(word.to_str()?).ok()
}

/// Mark a phase or an event in the current `gua run`.
///
/// A phase lasts until the next one or until the job ends. Outside `gua run` the command does nothing and succeeds, so
/// that a script works with and without `gua run`.
///
/// # Notes
///
/// A program can also write lines to the file descriptor in GUA_RUN_FD. Each line is the name of a phase or JSON such as
/// {"phase": "train"}, {"event": "saved", "data": {"epoch": 3}}, {"set": {"jax_peak_bytes_mb": 812}}.
///
/// # Examples
///
/// - `gua phase load`
/// - `gua phase train --set batch=64`
/// - `gua phase --event checkpoint --set epoch=3`
/// - `gua phase --set jax_peak_bytes_mb=812.5`
/// - `echo train >&$GUA_RUN_FD`
#[derive(Debug, Args)]
pub struct PhaseArgs {
    /// Name of the phase that starts now.
    #[arg(value_name = "NAME", conflicts_with = "event", required_unless_present_any = ["event", "set"])]
    pub name: Option<String>,

    /// Record an event; --set adds its data.
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,

    /// Add a value to the summary; numbers are stored as numbers. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE", action = ArgAction::Append, value_parser = assignment)]
    pub set: Vec<(String, Value)>,

    /// Print no warning if there is no `gua run` to record the mark.
    #[arg(short, long)]
    pub quiet: bool,
}

/// Summarize the metric files of a run.
///
/// Reads files of `gua run` and of pytyche's run_monitor, and prints the ten values of ResourceSummary. The column of
/// the memory utilisation in hw_dmon.csv is found by its name. A line with a missing value is left out, as the original
/// does; in files of `gua run`, its other values count.
///
/// # Examples
///
/// - `gua summarize runs/7`
/// - `gua summarize runs/7 --json | jq .peak_vram_mb`
/// - `gua summarize hw_metrics.csv cpu_metrics.csv hw_dmon.csv`
#[derive(Debug, Args)]
pub struct SummarizeArgs {
    /// Directory of a run, or its metric files.
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,

    /// Count the other values of a line with a missing one, also in files of run_monitor.
    #[arg(long)]
    pub per_field: bool,

    /// Print the ResourceSummary dictionary as JSON.
    #[arg(long)]
    pub json: bool,
}

fn assignment(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text
        .split_once('=')
        .filter(|(key, _)| !key.trim().is_empty())
        .ok_or_else(|| "write it like key=value".to_owned())?;
    let value = match serde_json::from_str(value) {
        Ok(value @ (Value::Number(_) | Value::Bool(_) | Value::Null)) => value,
        _ => Value::String(value.to_owned()),
    };
    Ok((key.trim().to_owned(), value))
}

/// Subcommands of `gua runs`.
#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// List the runs of this host, newest first.
    ///
    /// Includes runs in the history and runs that a collector has not imported yet.
    ///
    /// # Examples
    ///
    /// - `gua runs list`
    /// - `gua runs list --since 30d --user ada`
    /// - `gua runs list --format csv > runs.csv`
    List {
        /// List only runs that started after this: a duration before now (30d, 1w), a date, or `today` or `last-month`.
        #[arg(long, value_name = "WHEN")]
        since: Option<String>,

        /// List only the runs of this user (name or UID).
        #[arg(long, value_name = "USER")]
        user: Option<String>,

        /// List at most N runs.
        #[arg(short, long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,

        #[command(flatten)]
        listing: ListingArgs,
    },
    /// Show what one run used.
    ///
    /// # Examples
    ///
    /// - `gua runs show 20261101T030000-1f4`
    /// - `gua runs show last`
    /// - `gua runs show last --json | jq .summary.gpus`
    Show {
        /// ID of the run in `gua runs list`, or a prefix of it; `last` is the most recent run.
        #[arg(value_name = "RUN")]
        run: String,

        /// Print JSON.
        #[arg(long)]
        json: bool,

        #[command(flatten)]
        history: HistoryArgs,
    },
    /// Compare runs side by side.
    ///
    /// # Examples
    ///
    /// - `gua runs compare 20261101T030000-1f4 last`
    /// - `gua runs compare RUN RUN RUN --format csv`
    Compare {
        /// IDs of the runs in `gua runs list`.
        #[arg(value_name = "RUN", num_args = 2.., required = true)]
        runs: Vec<String>,

        #[command(flatten)]
        listing: ListingArgs,
    },
}

/// Subcommands of `gua claim`.
#[derive(Debug, Subcommand)]
pub enum ClaimCommand {
    /// List leased GPUs, their holders and deadlines, and the waiting processes.
    ///
    /// A lease ends when its process exits, at its deadline, or when it is released. After that, a GPU stays claimed
    /// while that process or one of its descendants uses it.
    ///
    /// # Examples
    ///
    /// - `gua claim list`
    /// - `gua claim list --json | jq '.claims[].id'`
    /// - `gua claim list --csv > claims.csv`
    List {
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Release GPUs before their claims end.
    ///
    /// Users can release their own claims; root can release all claims.
    ///
    /// # Examples
    ///
    /// - `gua claim release 1c9d03fe`
    /// - `gua claim release --all-mine`
    #[command(override_usage = "gua claim release <ID>...\n       gua claim release --all-mine")]
    Release {
        /// IDs of the claims in `gua claim list`.
        #[arg(value_name = "ID", value_parser = claim_id, required_unless_present = "all_mine", conflicts_with = "all_mine")]
        ids: Vec<ClaimId>,

        /// Release all of your claims.
        #[arg(long)]
        all_mine: bool,
    },
}

fn claim_id(text: &str) -> Result<ClaimId, String> {
    text.parse()
        .map_err(|_| "a claim ID has eight hexadecimal digits".to_owned())
}

/// Say that you still need the GPUs that you hold and do not use now.
///
/// `gua list`, `gua explain` and `gua me` show the reason. Until the time is over, alerts do not report these GPUs as
/// idle, and nobody can nudge you about them. A keep is not a lease. It covers the GPUs that you hold when you run the command, while you hold them.
///
/// # Examples
///
/// - `gua keep 2h --why "evaluation after the download"`
/// - `gua keep --end`: end the keep when you no longer need the GPUs
#[derive(Debug, Args)]
#[command(override_usage = "gua keep <DURATION> --why <TEXT>\n       gua keep --end")]
pub struct KeepArgs {
    /// Time for which you still need the GPUs, at most 7d.
    #[arg(value_name = "DURATION", value_parser = gua_model::duration::parse, required_unless_present = "end")]
    pub length: Option<Duration>,

    /// Why, for everyone to read.
    #[arg(long, value_name = "TEXT", required_unless_present = "end")]
    pub why: Option<String>,

    /// End the keep.
    #[arg(long, conflicts_with_all = ["length", "why"])]
    pub end: bool,
}

/// Ask a person politely whether they still need GPUs that they hold and do not use.
///
/// The message has the evidence and explains how to answer (`gua keep`). It appears on the person's terminal if they accept
/// messages (mesg), in `gua me`, at their next log-in (`gua me --motd`), and where `[[alert]]` tables with "nudge" send it. A person is nudged at most once a day, and only
/// about GPUs that have been idle for 10 minutes, or for the shortest longer_than of the alerts with "idle-held" or "nudge".
///
/// # Examples
///
/// - `gua nudge ada`
#[derive(Debug, Args)]
pub struct NudgeArgs {
    /// Name or UID of the person.
    #[arg(value_name = "USER")]
    pub user: String,

    #[command(flatten)]
    pub history: HistoryArgs,
}
