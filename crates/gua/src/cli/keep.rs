//! Commands that maintain the history and the configuration, and commands about the program itself.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use gua_model::demo::Script;

use super::report::ReportArgs;
use super::{HistoryArgs, ListingArgs, PlotArgs, TopArgs, named};

/// Measure the cost of a tick, a day of history and a report on this host.
///
/// Reads the driver, writes one day of ticks to a temporary directory, reports on it and deletes it. This takes a few
/// seconds. Without a driver, the benchmark uses simulated telemetry and says so.
///
/// # Examples
///
/// - `gua bench`
/// - `gua bench --fake`: use simulated telemetry
/// - `gua bench --json`
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Use simulated telemetry instead of the driver.
    #[arg(long)]
    pub fake: bool,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum DbCommand {
    /// Check the whole file and compare its totals with its ticks; exit with 1 on any error.
    ///
    /// # Examples
    ///
    /// - `gua db check`
    /// - `gua db check --json`
    Check(ListingArgs),

    /// Rebuild what is derived from the ticks: totals, sessions, and the time at which each GPU was first seen.
    ///
    /// # Notes
    ///
    /// No collector may be writing. No tick is changed or deleted.
    ///
    /// # Examples
    ///
    /// - `gua db repair`
    /// - `gua db repair --db all.db`
    Repair(HistoryArgs),

    /// Show how much space each table uses and how fast the file grows.
    ///
    /// # Examples
    ///
    /// - `gua db stats`
    /// - `gua db stats --csv`
    Stats(ListingArgs),

    /// Rewrite the file without its free space. No collector may be writing.
    ///
    /// # Examples
    ///
    /// - `gua db vacuum`
    Vacuum(HistoryArgs),

    /// Copy the history, even while a collector is writing to it.
    ///
    /// # Examples
    ///
    /// - `gua db backup /backup/gua.db`
    Backup {
        #[command(flatten)]
        history: HistoryArgs,
        /// Path of the copy; the file must not exist.
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: PathBuf,
    },

    /// Erase a user's identity; their hours are kept under an anonymous user.
    ///
    /// # Notes
    ///
    /// No collector may be writing. Source files of earlier imports are not changed.
    ///
    /// # Examples
    ///
    /// - `gua db forget ada`
    /// - `gua db forget 1007 --yes`
    Forget {
        #[command(flatten)]
        history: HistoryArgs,
        /// User name, or UID if the user has no name.
        #[arg(value_name = "USER")]
        user: String,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
    },

    /// Rename a damaged history so that a collector can start a new one.
    ///
    /// # Notes
    ///
    /// No collector may be writing. Nothing is deleted or overwritten: the file and its journal are renamed to
    /// gua.db.damaged-DATE-TIME in the same directory.
    ///
    /// # Examples
    ///
    /// - `gua db set-aside`
    /// - `gua db set-aside --db all.db --yes`
    SetAside {
        #[command(flatten)]
        history: HistoryArgs,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the effective settings, each with its source.
    ///
    /// # Notes
    ///
    /// The output is itself a valid configuration file.
    ///
    /// # Examples
    ///
    /// - `gua config show`
    /// - `GUA_ACTIVE_UTIL=5 gua config show`
    /// - `gua config show --json`
    Show {
        /// Print the settings as JSON.
        #[arg(long)]
        json: bool,
    },

    /// Check the configuration files and the environment; exit with 1 on any error.
    ///
    /// # Examples
    ///
    /// - `gua config check`
    /// - `gua config check ./config.toml`
    Check {
        /// Check only this file instead of the files and variables in use.
        #[arg(value_name = "PATH", value_hint = ValueHint::FilePath)]
        path: Option<PathBuf>,
    },

    /// Print a commented configuration file with every setting and its default.
    ///
    /// # Examples
    ///
    /// - `mkdir -p ~/.gua && gua config default > ~/.gua/config.toml`
    Default,

    /// Print the configuration files in the order they are read, and whether they exist.
    ///
    /// # Examples
    ///
    /// - `gua config path`
    Path,
}

/// Print a shell completion script.
///
/// # Examples
///
/// - `source <(gua completions bash)`: current shell only
/// - `gua completions zsh > "${fpath[1]}/_gua"`: all zsh sessions
/// - `gua completions fish > ~/.config/fish/completions/gua.fish`: all fish sessions
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell of the script.
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub struct HelpArgs {
    /// Command, such as `config check`.
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Command whose page to print, such as `config check`.
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,

    /// Write the pages of all commands to this directory.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "command")]
    pub dir: Option<PathBuf>,
}

/// Show a simulated month of eight GPUs and seven people.
///
/// Needs no GPU and no driver, and leaves no file behind. The month ends on 2026-10-30 15:00 UTC and is the same for
/// everyone. --db, --ticks, --interval, --script and --real-time record the demo of gpu-usage-audit instead, with three GPUs.
///
/// # Examples
///
/// - `gua demo`: who used the GPUs, and who only held them
/// - `gua demo top`: the live view
/// - `gua demo report --by user`: the report, with all its options
/// - `gua demo html`: the report as a page, in gua-demo.html
/// - `gua demo plot heat --by gpu`: a chart
/// - `gua demo --db demo.db && gua report --db demo.db --since 1m`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DemoArgs {
    #[command(subcommand)]
    pub view: Option<DemoView>,

    #[command(flatten)]
    pub recording: RecordDemoArgs,
}

/// View of the simulated month.
#[derive(Debug, Subcommand)]
pub enum DemoView {
    /// Show the live view of the simulated GPUs.
    ///
    /// # Examples
    ///
    /// - `gua demo top`
    /// - `gua demo top --once`
    Top(TopArgs),

    /// Report the simulated month.
    ///
    /// # Examples
    ///
    /// - `gua demo report`
    /// - `gua demo report --by user`
    /// - `gua demo report --user bob --json`
    #[command(mut_arg("since", |since| since.default_value("30d")))]
    Report(ReportArgs),

    /// Write the report of the simulated month as a page.
    ///
    /// # Examples
    ///
    /// - `gua demo html`
    /// - `gua demo html -o - | less`
    Html {
        /// Output file; `-` is stdout.
        #[arg(short, long, value_name = "FILE", default_value = "gua-demo.html", value_hint = ValueHint::FilePath)]
        output: PathBuf,
        /// Overwrite an existing file.
        #[arg(long)]
        overwrite: bool,
    },

    /// Draw a chart of the simulated month.
    ///
    /// # Examples
    ///
    /// - `gua demo plot`
    /// - `gua demo plot hours --by user`
    /// - `gua demo plot sessions -o sessions.svg`
    #[command(mut_arg("since", |since| since.default_value("30d")))]
    Plot(PlotArgs),
}

/// Record and report simulated telemetry of three GPUs, as in gpu-usage-audit.
///
/// Without --db, the history is kept in a temporary directory, whose path is printed.
#[derive(Debug, Args)]
pub struct RecordDemoArgs {
    /// History file to write; it may exist [default: a new file in a temporary directory].
    #[arg(id = "history.db", long = "db", value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,

    /// Number of ticks to record [default: 30].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..=1_000_000))]
    pub ticks: Option<i32>,

    /// Interval between ticks [default: 1s].
    #[arg(long, value_name = "DURATION", value_parser = gua_model::duration::parse)]
    pub interval: Option<std::time::Duration>,

    /// Telemetry to play: that of gpu-usage-audit 1.1 or 1.8 [default: 1.1].
    #[arg(long, value_name = "RELEASE", value_parser = named(SCRIPTS))]
    pub script: Option<Script>,

    /// Record in real time instead of all ticks at once.
    #[arg(long)]
    pub real_time: bool,

    /// Width of the bar in columns.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub width: u16,

    /// Time zone of displayed times [default: UTC; with --db or --real-time, the local time zone].
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,
}

impl RecordDemoArgs {
    /// Whether an option asks for the demo of gpu-usage-audit.
    pub fn is_wanted(&self) -> bool {
        let has_shape = self.ticks.is_some() || self.interval.is_some() || self.script.is_some();
        has_shape || self.db.is_some() || self.real_time
    }
}

/// Releases of gpu-usage-audit whose demo telemetry is played.
const SCRIPTS: [(&str, Script); 2] = [("1.1", Script::V1_1), ("1.8", Script::V1_8)];
