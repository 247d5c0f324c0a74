//! What can be typed. These files only declare, by group; `dispatch` acts.

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

/// The commands as `gua --help` groups them. A test holds that every command is in one group.
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
    about = "Says who holds which GPU, since when, and whether it was used.",
    infer_long_args = true,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = crate::manual::WIDEST,
    disable_help_subcommand = true,
    after_help = "Begin with `gua doctor`: it looks at this machine and changes nothing.\n\
                  `gua help COMMAND` explains a command and shows examples."
)]
pub struct Cli {
    /// When to use colour. The default follows the terminal and `NO_COLOR`.
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

    /// Run the collector as a systemd service.
    #[command(
        subcommand_required = true,
        arg_required_else_help = true,
        disable_help_subcommand = true,
        after_help = "As root it is the host's service, for everyone else their own; --system and --user say which.\n\n\
                      Examples:\n  \
                      gua service install            collect from now on, and after every boot\n  \
                      gua service install --print    show the unit, and change nothing\n  \
                      gua service status             is it installed, does it run\n  \
                      gua service uninstall          stop and remove it; the history stays"
    )]
    Service {
        #[command(subcommand)]
        command: ServiceCommand,
    },

    /// Show and give back leases on cards.
    #[command(
        subcommand_required = true,
        arg_required_else_help = true,
        disable_help_subcommand = true,
        after_help = "`gua available --claim 10m` makes them.\n\n\
                      Examples:\n  \
                      gua claim list                which card is leased to whom, and who waits\n  \
                      gua claim release 1c9d03fe    give the cards of a claim back\n  \
                      gua claim release --all-mine  give all of my own back"
    )]
    Claim {
        #[command(subcommand)]
        command: ClaimCommand,
    },

    Run(RunArgs),

    /// List, show and compare runs that were watched.
    #[command(
        subcommand_required = true,
        arg_required_else_help = true,
        disable_help_subcommand = true,
        after_help = "`gua run` makes them; a running collector keeps them in the history.\n\n\
                      Examples:\n  \
                      gua runs list                the last twenty, of everybody on this host\n  \
                      gua runs show last           what the last one used\n  \
                      gua runs compare A B         two of them side by side"
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

    /// Limit what people may have of the cards, and say who has used how much.
    #[command(
        subcommand_required = true,
        arg_required_else_help = true,
        disable_help_subcommand = true,
        after_help = "Limits are settings: `set` and `remove` edit the configuration and keep its comments.\n\
                      They stop nobody by themselves: `gua available --respect-quota` asks for them, and a script can\n\
                      ask `gua quota check`.\n\n\
                      Examples:\n  \
                      gua quota set --everyone --idle-held 10h --per week\n  \
                      gua quota set --user ada --charged 200h --per month\n  \
                      gua quota show                 used, left, and where it leads at the current pace\n  \
                      gua quota check || echo over   for cron: exit code 1 when someone is over"
    )]
    Quota {
        #[command(subcommand)]
        command: QuotaCommand,
    },

    /// Write the daily CSV of gpu_stats.
    #[command(
        subcommand_required = true,
        arg_required_else_help = true,
        disable_help_subcommand = true,
        after_help = "The daemon can write it too: `gua daemon --csv-dir ~/gpu_stats`.\n\
                      `gua import --gpu-stats DIR` takes old days into the history.\n\n\
                      Examples:\n  \
                      gua csv sample                  one set of rows into ~/gpu_stats, now\n  \
                      gua csv install                 the same every 5 minutes, without root and without a daemon\n  \
                      gua csv uninstall               no more; the files stay"
    )]
    Csv {
        #[command(subcommand)]
        command: CsvCommand,
    },

    Enroll(EnrollArgs),

    Unenroll(UnenrollArgs),

    SyncOnce(SyncOnceArgs),

    SyncArchive(SyncArchiveArgs),

    /// Look after the history file.
    #[command(
        subcommand_required = true,
        arg_required_else_help = true,
        disable_help_subcommand = true,
        after_help = "Examples:\n  \
                      gua db check                    is the file whole, do its totals agree with its ticks\n  \
                      gua db stats                    what takes how much room\n  \
                      gua db backup copy.db           a copy, also while a collector writes\n  \
                      gua db forget ada               erase a person"
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
        after_help = "Flags win over the environment (GUA_*), that over ~/.gua/config.toml, that over\n\
                      /etc/gua/config.toml. GUA_CONFIG names another file instead of ~/.gua/config.toml.\n\n\
                      Examples:\n  \
                      gua config check  find every mistake, with its line\n  \
                      gua config show   what counts now, and where it came from\n  \
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

    /// Print the version number and nothing else.
    #[command(after_help = "Example:\n  gua version")]
    Version,

    /// Explain gua, or one of its commands.
    #[command(after_help = "Examples:\n  gua help\n  gua help doctor\n  gua help config check")]
    Help(HelpArgs),

    /// Print or write the manual pages.
    #[command(hide = true)]
    Man(ManArgs),
}

impl Command {
    /// The flags of this command that stand for settings.
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

    /// The command as error messages name it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Command::List(_) => "gua list",
            Command::Available(args) => args.speaker(),
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
