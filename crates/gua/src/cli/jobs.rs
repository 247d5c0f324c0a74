//! The group Jobs: what stands around a program that uses cards.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Subcommand, ValueHint};
use gua_claim::ClaimId;
use serde_json::Value;

use super::FormatArgs;

/// Run a command and watch it: what it used of its cards, of processors and memory, and what it wasted.
///
/// The command runs as it would without gua: same terminal, same signals, same exit code. Only its own cards and processes
/// are looked at, not the neighbours'.
#[derive(Debug, Args)]
#[command(
    after_help = "The cards of a job are those of CUDA_VISIBLE_DEVICES and those on which its processes are seen.\n\
                  With --out the directory holds run.jsonl (a line for everything, as it happens), hw_metrics.csv,\n\
                  hw_dmon.csv, cpu_metrics.csv and at the end summary.json; docs/run.md tells their fields.\n\
                  Inside, `gua phase NAME` marks what the job is doing.\n\n\
                  Exit codes: the command's own; 126 and 127 where it cannot be started; 2 for wrong use;\n\
                  with --claim 3 where no card is free and 1 where the driver cannot be asked.\n\
                  A signal that is sent to gua alone is passed on to the command; one that is sent to the whole\n\
                  process group (kill -TERM -PGID, some batch systems) reaches it twice, one that is typed once.\n\n\
                  Examples:\n  \
                  gua run -- python train.py\n  \
                  gua run --out runs/7 -- python train.py    and keep the numbers\n  \
                  gua run --claim 2 --wait -- python train.py    on two cards that nobody else is given\n  \
                  gua run --claim 1 --wait=1h -- ./job           and no longer than an hour for the card\n  \
                  gua run --interval 200ms -- ./short\n  \
                  tail -f runs/7/run.jsonl | jq 'select(.type == \"sample\") | .gpus'"
)]
pub struct RunArgs {
    /// Lease N free cards for the run, show the command these alone, and give them back at the end.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "gpus")]
    pub claim: Option<u32>,

    /// Wait for the cards, in order of arrival, at most so long [default: as long as it takes].
    #[arg(long, value_name = "TIMEOUT", value_parser = crate::duration::parse, num_args = 0..=1, require_equals = true, requires = "claim")]
    pub wait: Option<Option<Duration>>,

    /// Write the files of the run into this directory, which is made if need be.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,

    /// The time from one look to the next.
    #[arg(long, value_name = "DURATION", value_parser = crate::duration::parse, default_value = "2s")]
    pub interval: Duration,

    /// Which cards to watch: auto, all, or numbers and UUIDs with commas.
    #[arg(long, value_name = "CARDS", default_value = "auto")]
    pub gpus: String,

    /// What the run is called [default: the program's name].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Do not say at the end what was used.
    #[arg(short, long)]
    pub quiet: bool,

    /// The command and its arguments.
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// Tell the `gua run` around this process what the job is doing.
///
/// A phase lasts until the next one, or until the job ends. Outside of `gua run` nothing happens, and that is no error: a
/// script needs not know whether it is watched.
#[derive(Debug, Args)]
#[command(
    after_help = "A program can write to the descriptor that GUA_RUN_FD names, a line for each mark: the name of a\n\
                  phase, or JSON such as {\"phase\": \"train\"}, {\"event\": \"saved\", \"data\": {\"epoch\": 3}},\n\
                  {\"set\": {\"jax_peak_bytes_mb\": 812}}.\n\n\
                  Examples:\n  \
                  gua phase load\n  \
                  gua phase train --set batch=64\n  \
                  gua phase --event checkpoint --set epoch=3\n  \
                  gua phase --set jax_peak_bytes_mb=812.5\n  \
                  echo train >&$GUA_RUN_FD"
)]
pub struct PhaseArgs {
    /// The phase that begins now.
    #[arg(value_name = "NAME", conflicts_with = "event", required_unless_present_any = ["event", "set"])]
    pub name: Option<String>,

    /// Something that happens now; --set gives its data.
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,

    /// A value for the summary; a number where it is one. Can be given several times.
    #[arg(long, value_name = "KEY=VALUE", action = ArgAction::Append, value_parser = assignment)]
    pub set: Vec<(String, Value)>,

    /// Say nothing when there is no run around, or none that listens.
    #[arg(short, long)]
    pub quiet: bool,
}

/// Sum up the metric files of a run, of gua or of pytyche's run_monitor.
///
/// Prints the ten numbers of ResourceSummary. Memory utilisation is found in hw_dmon.csv by the name of its column.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  gua summarize runs/7\n  \
                  gua summarize runs/7 --json | jq .peak_vram_mb\n  \
                  gua summarize hw_metrics.csv cpu_metrics.csv hw_dmon.csv")]
pub struct SummarizeArgs {
    /// The directory of a run, or its metric files.
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,

    /// Print the dictionary of ResourceSummary as JSON.
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

/// What can be asked about runs.
#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// List the runs of this host, the last first.
    ///
    /// Those that a collector has taken into the history, and those that it has not seen yet.
    #[command(
        after_help = "Examples:\n  gua runs list\n  gua runs list --since 30d --user ada\n  gua runs list --format csv > runs.csv"
    )]
    List {
        /// Only runs that began within this time.
        #[arg(long, value_name = "DURATION", value_parser = crate::duration::parse)]
        since: Option<Duration>,

        /// Only the runs of this user, by name or number.
        #[arg(long, value_name = "USER")]
        user: Option<String>,

        /// Print at most N runs.
        #[arg(short, long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,

        #[command(flatten)]
        format: FormatArgs,

        #[command(flatten)]
        history: RunsHistory,
    },
    /// Show what one run used.
    #[command(
        after_help = "Examples:\n  gua runs show 20261101T030000-1f4\n  gua runs show last\n  gua runs show last --json | jq .summary.gpus"
    )]
    Show {
        /// The run, as `gua runs list` calls it, or the beginning of that; `last` is the last of all.
        #[arg(value_name = "RUN")]
        run: String,

        /// Print it as JSON.
        #[arg(long)]
        json: bool,

        #[command(flatten)]
        history: RunsHistory,
    },
    /// Put runs side by side.
    #[command(
        after_help = "Examples:\n  gua runs compare 20261101T030000-1f4 last\n  gua runs compare RUN RUN RUN --format csv"
    )]
    Compare {
        /// The runs, as `gua runs list` calls them.
        #[arg(value_name = "RUN", num_args = 2.., required = true)]
        runs: Vec<String>,

        #[command(flatten)]
        format: FormatArgs,

        #[command(flatten)]
        history: RunsHistory,
    },
}

/// Which history to ask.
#[derive(Debug, Args)]
pub struct RunsHistory {
    /// The history to ask [default: that of your running daemon, else /var/lib/gua/gua.db, else ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,
}

impl RunsCommand {
    #[must_use]
    pub fn db(&self) -> &Option<PathBuf> {
        let (RunsCommand::List { history, .. }
        | RunsCommand::Show { history, .. }
        | RunsCommand::Compare { history, .. }) = self;
        &history.db
    }
}

/// What can be done with claims.
#[derive(Debug, Subcommand)]
pub enum ClaimCommand {
    /// Show which cards are leased to whom until when, and who waits.
    ///
    /// A lease ends with the process that it is for, at its deadline, or when it is released. After that a card stays claimed
    /// as long as that process, or one that it started, is on it.
    #[command(
        after_help = "Examples:\n  gua claim list\n  gua claim list --json | jq '.claims[].id'\n  \
                      gua claim list --csv > claims.csv"
    )]
    List {
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Give cards back before the claim ends by itself.
    ///
    /// One's own claims; root may give back anyone's.
    #[command(
        after_help = "Examples:\n  gua claim release 1c9d03fe\n  gua claim release --all-mine"
    )]
    Release {
        /// The claims, as `gua claim list` calls them.
        #[arg(value_name = "ID", value_parser = claim_id, required_unless_present = "all_mine", conflicts_with = "all_mine")]
        ids: Vec<ClaimId>,

        /// All of one's own.
        #[arg(long)]
        all_mine: bool,
    },
}

fn claim_id(text: &str) -> Result<ClaimId, String> {
    text.parse()
        .map_err(|_| "a claim is called by eight digits and letters from a to f".to_owned())
}
