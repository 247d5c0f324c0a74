//! What can be typed to look after the history, the configuration and the program itself.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

use super::report::TableFormat;
use crate::config::FlagValue;

/// Measure what one tick, one day of history and one report cost on this machine.
///
/// Looks at the driver, writes a day of ticks into a temporary directory, reports it and removes it again; it takes a few
/// seconds. Without a driver it measures with made-up telemetry, and says so.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gua bench\n  gua bench --fake    without asking the driver\n  gua bench --json"
)]
pub struct BenchArgs {
    /// Measure with made-up telemetry, and do not ask the driver.
    #[arg(long)]
    pub fake: bool,

    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum DbCommand {
    /// Read everything and compare the totals with the ticks; exit 1 if anything is wrong.
    #[command(after_help = "Examples:\n  gua db check\n  gua db check --format json")]
    Check {
        #[command(flatten)]
        file: DbArgs,
        /// How to print what was found.
        #[arg(long, value_name = "FORM", value_enum, default_value_t)]
        format: TableFormat,
    },

    /// Print what takes how much room, and how fast it grows.
    #[command(after_help = "Examples:\n  gua db stats\n  gua db stats --format csv")]
    Stats {
        #[command(flatten)]
        file: DbArgs,
        /// How to print it.
        #[arg(long, value_name = "FORM", value_enum, default_value_t)]
        format: TableFormat,
    },

    /// Write the file anew without its free room. No collector may be writing.
    #[command(after_help = "Example:\n  gua db vacuum")]
    Vacuum {
        #[command(flatten)]
        file: DbArgs,
    },

    /// Copy the history, also while a collector writes to it.
    #[command(after_help = "Example:\n  gua db backup /backup/gua.db")]
    Backup {
        #[command(flatten)]
        file: DbArgs,
        /// The copy; it must not exist.
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: PathBuf,
    },

    /// Erase a person: their time stays, as that of somebody whom nobody can name.
    #[command(
        after_help = "No collector may be writing. Old files that were imported are not changed by this.\n\n\
                            Examples:\n  gua db forget ada\n  gua db forget 1007 --yes"
    )]
    Forget {
        #[command(flatten)]
        file: DbArgs,
        /// The user's name, or number where there is no name.
        #[arg(value_name = "USER")]
        user: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },

    /// Rename a damaged history out of the way, so that a collector can begin a new one.
    #[command(
        after_help = "No collector may be writing. Nothing is removed or overwritten: the file and its journal stay \
                      beside it, as gua.db.damaged-DATE-TIME.\n\n\
                            Examples:\n  gua db set-aside\n  gua db set-aside --db all.db --yes"
    )]
    SetAside {
        #[command(flatten)]
        file: DbArgs,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

/// Which history a command is about.
#[derive(Debug, Args)]
pub struct DbArgs {
    /// The history file [default: ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,
}

impl DbCommand {
    pub fn db(&self) -> &Option<PathBuf> {
        match self {
            DbCommand::Check { file, .. }
            | DbCommand::Stats { file, .. }
            | DbCommand::Vacuum { file }
            | DbCommand::Backup { file, .. }
            | DbCommand::Forget { file, .. }
            | DbCommand::SetAside { file, .. } => &file.db,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the settings that count now, each with its source.
    #[command(after_help = "The output is itself a valid configuration file.\n\n\
                            Examples:\n  gua config show\n  GUA_ACTIVE_UTIL=5 gua config show\n  gua config show --json")]
    Show {
        /// Print the settings as JSON.
        #[arg(long)]
        json: bool,
    },

    /// Check the configuration files and the environment; exit 1 if anything is wrong.
    #[command(after_help = "Examples:\n  gua config check\n  gua config check ./config.toml")]
    Check {
        /// Check this file alone, instead of the files and variables in use.
        #[arg(value_name = "PATH", value_hint = ValueHint::FilePath)]
        path: Option<PathBuf>,
    },

    /// Print a configuration file with every setting, its default and its meaning.
    #[command(
        after_help = "Example:\n  mkdir -p ~/.gua && gua config default > ~/.gua/config.toml"
    )]
    Default,

    /// Print the files that are looked at, in order, and whether they exist.
    #[command(after_help = "Example:\n  gua config path")]
    Path,
}

/// Print a script that completes gua's commands and flags in a shell.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                        source <(gua completions bash)                              in this shell only\n  \
                        gua completions zsh > \"${fpath[1]}/_gua\"                    for good, in zsh\n  \
                        gua completions fish > ~/.config/fish/completions/gua.fish  for good, in fish")]
pub struct CompletionsArgs {
    /// The shell to write for.
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub struct HelpArgs {
    /// The command to explain, such as `config check`.
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// The command whose page to print, such as `config check`.
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,

    /// Write the pages of all commands into this directory.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "command")]
    pub dir: Option<PathBuf>,
}

/// Show what gua does, with made-up telemetry: three cards, recorded and reported at once.
///
/// It needs no GPU and no driver. The history that it writes stays in a temporary directory, whose path is printed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                        gua demo                       record and report in an instant\n  \
                        gua demo --script 1.8          with a desktop on the third card\n  \
                        gua demo --real-time           one tick a second, as time passes\n  \
                        gua demo --db demo.db && gua report --db demo.db --since 1m")]
pub struct DemoArgs {
    /// The history to write, which may exist [default: a new one in a temporary directory].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,

    /// How many ticks to record.
    #[arg(long, value_name = "N", default_value_t = 30, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..=1_000_000))]
    pub ticks: i32,

    /// The time from one tick to the next.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = crate::duration::parse)]
    pub interval: std::time::Duration,

    /// Whose telemetry to play: that of gpu-usage-audit 1.1, or that of 1.8.
    #[arg(long, value_name = "RELEASE", value_enum, default_value_t)]
    pub script: DemoScript,

    /// Let the time pass instead of playing all ticks at once.
    #[arg(long)]
    pub real_time: bool,

    /// The columns of the bar.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub width: u16,

    /// The time zone to show times in [default: UTC; with --db or --real-time the local one].
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,
}

impl DemoArgs {
    /// Those of these flags that stand for settings.
    #[must_use]
    pub fn settings(&self) -> Vec<FlagValue> {
        let db = FlagValue::of("--db", "history", "db", self.db.as_ref());
        db.into_iter().collect()
    }
}

/// The telemetry of a release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DemoScript {
    #[default]
    #[value(name = "1.1")]
    V1_1,
    #[value(name = "1.8")]
    V1_8,
}

/// `demo` under the name of the tool that it replaces.
#[derive(Debug, Parser)]
#[command(
    name = "gpu-usage-audit demo",
    infer_long_args = true,
    max_term_width = 100,
    disable_version_flag = true
)]
pub struct AuditDemoArgs {
    #[command(flatten)]
    pub demo: DemoArgs,
}
