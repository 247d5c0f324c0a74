//! Command-line interface of `gua`, declared with clap: one file per group of commands.
//!
//! The doc comments of these types are the help texts. Nothing runs here: `dispatch` executes the parsed command.

mod account;
mod collect;
mod jobs;
mod keep;
mod look;
mod many_hosts;
mod plot;
mod report;

use std::path::PathBuf;

use clap::{ColorChoice, Parser, Subcommand};

pub use self::account::*;
pub use self::collect::*;
pub use self::jobs::*;
pub use self::keep::*;
pub use self::look::*;
pub use self::many_hosts::*;
pub use self::plot::*;
pub use self::report::*;

use crate::config::FlagValue;
use crate::daemon;

/// Groups of commands in `gua --help`. A test checks that every visible command is in exactly one group.
pub const GROUPS: &[(&str, &[&str])] = &[
    ("Look", &["list", "available", "top", "explain"]),
    (
        "Collect",
        &["doctor", "daemon", "start", "status", "stop", "service"],
    ),
    ("Jobs", &["run", "runs", "phase", "summarize", "claim"]),
    (
        "Report",
        &["report", "plot", "statement", "export", "import"],
    ),
    ("Account", &["quota", "csv"]),
    (
        "Many hosts",
        &["enroll", "unenroll", "sync-once", "sync-archive"],
    ),
    (
        "Keep",
        &[
            "db",
            "config",
            "demo",
            "bench",
            "completions",
            "version",
            "help",
        ],
    ),
];

#[derive(Debug, Parser)]
#[command(
    name = "gua",
    version,
    about = "Record and report who holds which GPU, since when, and whether it is used.",
    infer_long_args = true,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = crate::manual::WIDEST,
    disable_help_subcommand = true,
    after_help = "Start with `gua doctor`: it checks this host and changes nothing.\n\
                  `gua help COMMAND` explains a command and shows examples."
)]
pub struct Cli {
    /// When to use color. By default, color is used on a terminal unless `NO_COLOR` is set.
    #[arg(long, global = true, display_order = 900, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    List(ListArgs),

    Available(AvailableArgs),

    Explain(ExplainArgs),

    Top(TopArgs),

    Doctor(DoctorArgs),

    Daemon(DaemonArgs),

    Start(StartArgs),

    Status(StatusArgs),

    Stop(StopArgs),

    /// Install and manage the collector as a systemd service.
    #[command(
        subcommand_required = true,
        arg_required_else_help = true,
        disable_help_subcommand = true,
        after_help = "For root, the default is a system service; for other users, a user service. --system and --user choose explicitly.\n\n\
                      Examples:\n  \
                      gua service install            start collecting now and after every boot\n  \
                      gua service install --print    print the unit without changing anything\n  \
                      gua service status             show whether it is installed and running\n  \
                      gua service uninstall          stop and remove it; the history is kept"
    )]
    Service {
        #[command(subcommand)]
        command: ServiceCommand,
    },

    /// List and release leases on GPUs.
    #[command(
        subcommand_required = true,
        arg_required_else_help = true,
        disable_help_subcommand = true,
        after_help = "`gua available --claim 10m` and `gua run --claim N` create leases.\n\n\
                      Examples:\n  \
                      gua claim list                show leased GPUs, their holders and the queue\n  \
                      gua claim release 1c9d03fe    release the GPUs of one claim\n  \
                      gua claim release --all-mine  release all of your claims"
    )]
    Claim {
        #[command(subcommand)]
        command: ClaimCommand,
    },

    Run(RunArgs),

    /// List, show and compare runs recorded by `gua run`.
    #[command(
        subcommand_required = true,
        arg_required_else_help = true,
        disable_help_subcommand = true,
        after_help = "`gua run` records runs; a running collector adds them to the history.\n\n\
                      Examples:\n  \
                      gua runs list                list the last 20 runs of all users on this host\n  \
                      gua runs show last           show what the most recent run used\n  \
                      gua runs compare A B         show two runs side by side"
    )]
    Runs {
        #[command(subcommand)]
        command: RunsCommand,
    },

    Phase(PhaseArgs),

    Summarize(SummarizeArgs),

    Report(ReportArgs),

    Plot(PlotArgs),

    Statement(StatementArgs),

    Export(ExportArgs),

    Import(ImportArgs),

    /// Set limits on GPU use and show how much of them is used.
    #[command(
        subcommand_required = true,
        arg_required_else_help = true,
        disable_help_subcommand = true,
        after_help = "Limits are settings: `set` and `remove` edit the configuration file and keep its comments.\n\
                      Limits are not enforced by default. `gua available --respect-quota` applies them, and scripts can\n\
                      run `gua quota check`.\n\n\
                      Examples:\n  \
                      gua quota set --everyone --idle-held 10h --per week\n  \
                      gua quota set --user ada --charged 200h --per month\n  \
                      gua quota show                 show used, remaining and forecast amounts\n  \
                      gua quota check || echo over   for cron: exit with 1 if anyone is over a limit"
    )]
    Quota {
        #[command(subcommand)]
        command: QuotaCommand,
    },

    /// Write daily CSV files in the format of gpu_stats.
    #[command(
        subcommand_required = true,
        arg_required_else_help = true,
        disable_help_subcommand = true,
        after_help = "The daemon can write these files too: `gua daemon --csv-dir ~/gpu_stats`.\n\
                      `gua import --gpu-stats DIR` imports existing files into the history.\n\n\
                      Examples:\n  \
                      gua csv sample                  write one sample to ~/gpu_stats now\n  \
                      gua csv install                 write one every 5 minutes, without root or a daemon\n  \
                      gua csv uninstall               stop the timer; the files are kept"
    )]
    Csv {
        #[command(subcommand)]
        command: CsvCommand,
    },

    Enroll(EnrollArgs),

    Unenroll(UnenrollArgs),

    SyncOnce(SyncOnceArgs),

    SyncArchive(SyncArchiveArgs),

    /// Check, copy and maintain the history file.
    #[command(
        subcommand_required = true,
        arg_required_else_help = true,
        disable_help_subcommand = true,
        after_help = "Examples:\n  \
                      gua db check                    check the file and compare its totals with its ticks\n  \
                      gua db stats                    show how much space each table uses\n  \
                      gua db backup copy.db           copy the file, even while a collector is writing\n  \
                      gua db forget ada               erase a user's identity"
    )]
    Db {
        #[command(subcommand)]
        command: DbCommand,
    },

    /// Show, check and explain the configuration.
    #[command(
        subcommand_required = true,
        arg_required_else_help = true,
        disable_help_subcommand = true,
        after_help = "Precedence, highest first: flags, environment variables (GUA_*), ~/.gua/config.toml,\n\
                      /etc/gua/config.toml. GUA_CONFIG replaces ~/.gua/config.toml with another file.\n\n\
                      Examples:\n  \
                      gua config check  report every error with its line number\n  \
                      gua config show   print the effective settings and their sources\n  \
                      mkdir -p ~/.gua && gua config default > ~/.gua/config.toml\n                    \
                      start from the commented defaults"
    )]
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },

    Demo(DemoArgs),

    Bench(BenchArgs),

    Completions(CompletionsArgs),

    /// Print the version number.
    #[command(after_help = "Example:\n  gua version")]
    Version,

    /// Show help for gua or one of its commands.
    #[command(after_help = "Examples:\n  gua help\n  gua help doctor\n  gua help config check")]
    Help(HelpArgs),

    /// Print or write the manual pages.
    #[command(hide = true)]
    Man(ManArgs),
}

impl Command {
    /// Flags of this command that override settings.
    #[must_use]
    pub fn settings(&self) -> Vec<FlagValue> {
        let db = |path: &Option<PathBuf>| FlagValue::of("--db", "history", "db", path.as_ref());
        match self {
            Command::List(args) => db(&args.db).into_iter().collect(),
            Command::Available(args) => db(&args.db).into_iter().collect(),
            Command::Explain(args) => db(&args.db).into_iter().collect(),
            Command::Top(args) => db(&args.db).into_iter().collect(),
            Command::Doctor(args) => db(&args.db).into_iter().collect(),
            Command::Report(args) => args.settings(),
            Command::Plot(args) => args.settings(),
            Command::Demo(args) => args.settings(),
            Command::Statement(args) => db(&args.db).into_iter().collect(),
            Command::Export(args) => db(&args.db).into_iter().collect(),
            Command::Import(args) => db(&args.db).into_iter().collect(),
            Command::Quota { command } => db(command.db()).into_iter().collect(),
            Command::Csv { command } => command.settings(),
            Command::Enroll(args) => args.settings(),
            Command::Unenroll(args) => args.enrolment.settings(),
            Command::SyncOnce(args) => args.settings(),
            Command::SyncArchive(args) => args.settings(),
            Command::Db { command } => db(command.db()).into_iter().collect(),
            Command::Runs { command } => db(command.db()).into_iter().collect(),
            Command::Daemon(DaemonArgs { collect, files, .. })
            | Command::Start(StartArgs { collect, files }) => {
                [collect.settings(), files.settings()].concat()
            }
            Command::Status(StatusArgs { files }) | Command::Stop(StopArgs { files }) => {
                files.settings()
            }
            _ => Vec::new(),
        }
    }

    /// Command name used as the prefix of error messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Command::List(_) => "gua list",
            Command::Available(_) => AvailableArgs::NAME,
            Command::Explain(_) => "gua explain",
            Command::Top(_) => "gua top",
            Command::Doctor(_) => "gua doctor",
            Command::Daemon(args) if args.foreground => daemon::FOREGROUND,
            Command::Daemon(_) => daemon::BACKGROUND,
            Command::Start(_) => "gua start",
            Command::Status(_) => "gua status",
            Command::Stop(_) => "gua stop",
            Command::Config { command } => match command {
                ConfigCommand::Show { .. } => "gua config show",
                ConfigCommand::Check { .. } => "gua config check",
                ConfigCommand::Default => "gua config default",
                ConfigCommand::Path => "gua config path",
            },
            Command::Service { .. } => "gua service",
            Command::Claim { command } => match command {
                ClaimCommand::List { .. } => "gua claim list",
                ClaimCommand::Release { .. } => "gua claim release",
            },
            Command::Run(_) => "gua run",
            Command::Runs { command } => match command {
                RunsCommand::List { .. } => "gua runs list",
                RunsCommand::Show { .. } => "gua runs show",
                RunsCommand::Compare { .. } => "gua runs compare",
            },
            Command::Phase(_) => "gua phase",
            Command::Summarize(_) => "gua summarize",
            Command::Report(_) => "gua report",
            Command::Plot(_) => "gua plot",
            Command::Statement(_) => "gua statement",
            Command::Export(_) => "gua export",
            Command::Import(_) => "gua import",
            Command::Quota { command } => match command {
                QuotaCommand::Set(_) => "gua quota set",
                QuotaCommand::Remove(_) => "gua quota remove",
                QuotaCommand::Show(_) => "gua quota show",
                QuotaCommand::Check { .. } => "gua quota check",
            },
            Command::Csv { command } => match command {
                CsvCommand::Sample(_) => "gua csv sample",
                CsvCommand::Install(_) => "gua csv install",
                CsvCommand::Uninstall(_) => "gua csv uninstall",
            },
            Command::Enroll(_) => "gua enroll",
            Command::Unenroll(_) => "gua unenroll",
            Command::SyncOnce(_) => "gua sync-once",
            Command::SyncArchive(_) => "gua sync-archive",
            Command::Db { command } => match command {
                DbCommand::Check { .. } => "gua db check",
                DbCommand::Stats { .. } => "gua db stats",
                DbCommand::Vacuum { .. } => "gua db vacuum",
                DbCommand::Backup { .. } => "gua db backup",
                DbCommand::Forget { .. } => "gua db forget",
                DbCommand::SetAside { .. } => "gua db set-aside",
            },
            Command::Demo(_) => "gua demo",
            Command::Bench(_) => "gua bench",
            Command::Completions(_) => "gua completions",
            Command::Version => "gua version",
            Command::Help(_) => "gua help",
            Command::Man(_) => "gua man",
        }
    }
}
