//! What can be typed. This file only declares; `dispatch` acts.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ColorChoice, Parser, Subcommand, ValueEnum, ValueHint};

use crate::config::FlagValue;
use crate::daemon;

/// The commands as `gua --help` groups them. A test holds that every command is in one group.
pub const GROUPS: &[(&str, &[&str])] = &[
    (
        "Collect",
        &["doctor", "daemon", "start", "status", "stop", "service"],
    ),
    ("Report", &["export", "import"]),
    ("Keep", &["db", "config", "completions", "version", "help"]),
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

    Export(ExportArgs),

    Import(ImportArgs),

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

/// Look at this machine and say what gua can see, and what stands in its way.
///
/// Read-only: it changes nothing on the system and opens no history for writing.
#[derive(Debug, Args)]
#[command(
    after_help = "The output names local paths and GPU UUIDs: look at it before you share it.\n\n\
                        Examples:\n  \
                        gua doctor                        look at this machine\n  \
                        gua doctor --json                 the same for a program\n  \
                        gua doctor --sample > cards.json  one sample of every card, for a bug report\n  \
                        gua doctor --strict || exit 1     stop a script when a check fails"
)]
pub struct DoctorArgs {
    /// Print the findings as JSON.
    #[arg(long)]
    pub json: bool,

    /// The history file to look at [default: ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,

    /// Print one sample of every card as JSON, for a bug report.
    #[arg(long)]
    pub sample: bool,

    /// Exit 1 when a check has status error or the host is unsupported; warnings do not count.
    #[arg(long)]
    pub strict: bool,
}

#[derive(Debug, Subcommand)]
pub enum ServiceCommand {
    /// Write the unit, enable it and start it. Again to change or update it.
    #[command(
        after_help = "Examples:\n  sudo gua service install --interval 10s\n  sudo gua service install --readable-by group:gpu\n  gua service install --user"
    )]
    Install(ServiceInstallArgs),

    /// Stop the service and remove its unit. The history stays.
    #[command(after_help = "Example:\n  sudo gua service uninstall")]
    Uninstall(ServiceScopeArgs),

    /// Say whether the service is installed and runs.
    #[command(after_help = "Example:\n  gua service status --user")]
    Status(ServiceScopeArgs),
}

#[derive(Debug, Args)]
pub struct ServiceScopeArgs {
    /// The host's service (the default for root).
    #[arg(long, conflicts_with = "user")]
    pub system: bool,

    /// A service of your own (the default for everyone but root).
    #[arg(long)]
    pub user: bool,

    /// Prepare an image below this directory instead of changing this system.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ServiceInstallArgs {
    #[command(flatten)]
    pub scope: ServiceScopeArgs,

    /// How often to look; otherwise as configured.
    #[arg(long, value_name = "DURATION", value_parser = crate::duration::parse)]
    pub interval: Option<std::time::Duration>,

    /// Who may read the host's history: everyone, group:NAME or root [default: everyone; under hidepid the group that
    /// sees all processes].
    #[arg(long, value_name = "WHO")]
    pub readable_by: Option<String>,

    /// Enable it for the next boot and do not start it now.
    #[arg(long)]
    pub no_start: bool,

    /// Replace units of these names that gua did not write.
    #[arg(long)]
    pub force: bool,

    /// Print the unit and change nothing.
    #[arg(long)]
    pub print: bool,
}

/// Collect in the background: read every card at each interval and keep what was seen.
///
/// It needs no root. A sick driver or a full disk costs ticks, which are counted, and never the daemon.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  gua daemon                              every 30 s into ~/.gua/gua.db\n  \
                  gua daemon --interval 10s               more often\n  \
                  gua daemon --db /data/gpus.db --append  go on with a history elsewhere\n  \
                  gua daemon --foreground                 for systemd, a container or a look at it")]
pub struct DaemonArgs {
    #[command(flatten)]
    pub collect: CollectArgs,

    #[command(flatten)]
    pub files: FileArgs,

    /// Stay in the foreground: ticks on stdout, talk on stderr, no pid file.
    #[arg(long)]
    pub foreground: bool,
}

/// The same as `gua daemon` in the background.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gua start --interval 10s")]
pub struct StartArgs {
    #[command(flatten)]
    pub collect: CollectArgs,

    #[command(flatten)]
    pub files: FileArgs,
}

/// Say whether a daemon runs in the background, and how it is doing.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gua status")]
pub struct StatusArgs {
    #[command(flatten)]
    pub files: FileArgs,
}

/// End the daemon in the background.
///
/// It ends a collector that the Python tool started, too, and no other process.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gua stop")]
pub struct StopArgs {
    #[command(flatten)]
    pub files: FileArgs,
}

/// What every collector is told.
#[derive(Debug, Args)]
pub struct CollectArgs {
    /// The history file to write [default: ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,

    /// The time from one tick to the next [default: 30s].
    #[arg(long, value_name = "DURATION")]
    pub interval: Option<OsString>,

    /// How long single ticks are kept [default: 90d].
    #[arg(long, value_name = "DURATION")]
    pub keep_raw: Option<OsString>,

    /// Go on with a history that exists at --db.
    #[arg(long)]
    pub append: bool,
}

/// Where the daemon in the background leaves its traces.
#[derive(Debug, Args)]
pub struct FileArgs {
    /// The pid file [default: ~/.gua/gua.pid].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub pid_file: Option<PathBuf>,

    /// The log file [default: ~/.gua/gua.log].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub log_file: Option<PathBuf>,
}

/// `daemon` under the name of the tool that it replaces: always in the foreground.
#[derive(Debug, Parser)]
#[command(
    name = "gpu-usage-audit daemon",
    about = "Collect in the foreground: ticks on stdout, talk on stderr.",
    infer_long_args = true,
    max_term_width = 100,
    disable_version_flag = true
)]
pub struct AuditDaemonArgs {
    #[command(flatten)]
    pub collect: CollectArgs,
}

/// The collector in the background, as `gua daemon` starts it.
#[derive(Debug, Parser)]
#[command(name = "gua daemon", disable_version_flag = true)]
pub struct BackgroundArgs {
    #[command(flatten)]
    pub collect: CollectArgs,

    #[command(flatten)]
    pub files: FileArgs,
}

/// Take the rows of an old history into ours.
///
/// Reads files of gpu-usage-audit 1.0.2 to 1.8.0 and never changes them. What was imported before is not imported again,
/// so a file that has grown can be imported anew. An old file at the path of the history itself is set aside afterwards.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                        gua import /tmp/gua.db                  an old history of gpu-usage-audit 1.0.2\n  \
                        gua import backup/gua.db --db all.db    into a history of its own")]
pub struct ImportArgs {
    /// The old history.
    #[arg(value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub path: PathBuf,

    /// The history to import into [default: ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,
}

/// Write a history in a form that other programs read.
#[derive(Debug, Args)]
#[command(
    after_help = "gpu-usage-audit: a file as its release 1.8.0 writes it, for that tool and what was built around it.\n\
                  It holds names of users and programs: look at it before you share it.\n\n\
                  Example:\n  \
                  gua export --format gpu-usage-audit --output old.db"
)]
pub struct ExportArgs {
    /// The form to write.
    #[arg(long, value_name = "FORM", value_enum)]
    pub format: ExportFormat,

    /// The file to write; it must not exist.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// The history to export [default: ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,
}

/// The forms that a history can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// A history file of gpu-usage-audit 1.8.0.
    GpuUsageAudit,
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
    fn db(&self) -> &Option<PathBuf> {
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

/// How a table is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    #[default]
    Text,
    Json,
    Csv,
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

impl Command {
    /// The flags of this command that stand for settings.
    #[must_use]
    pub fn settings(&self) -> Vec<FlagValue> {
        let db = |path: &Option<PathBuf>| FlagValue::of("--db", "history", "db", path.as_ref());
        match self {
            Command::Doctor(args) => db(&args.db).into_iter().collect(),
            Command::Export(args) => db(&args.db).into_iter().collect(),
            Command::Import(args) => db(&args.db).into_iter().collect(),
            Command::Db { command } => db(command.db()).into_iter().collect(),
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
            Command::Export(_) => "gua export",
            Command::Import(_) => "gua import",
            Command::Db { command } => match command {
                DbCommand::Check { .. } => "gua db check",
                DbCommand::Stats { .. } => "gua db stats",
                DbCommand::Vacuum { .. } => "gua db vacuum",
                DbCommand::Backup { .. } => "gua db backup",
                DbCommand::Forget { .. } => "gua db forget",
                DbCommand::SetAside { .. } => "gua db set-aside",
            },
            Command::Completions(_) => "gua completions",
            Command::Version => "gua version",
            Command::Help(_) => "gua help",
            Command::Man(_) => "gua man",
        }
    }
}

impl CollectArgs {
    /// Those of these flags that stand for settings.
    #[must_use]
    pub fn settings(&self) -> Vec<FlagValue> {
        let db = FlagValue::of("--db", "history", "db", self.db.as_ref());
        let interval = self.interval.as_ref();
        let interval = FlagValue::of("--interval", "collect", "interval", interval);
        let keep_raw = self.keep_raw.as_ref();
        let keep_raw = FlagValue::of("--keep-raw", "collect", "keep_raw", keep_raw);
        [db, interval, keep_raw].into_iter().flatten().collect()
    }
}

impl FileArgs {
    #[must_use]
    pub fn settings(&self) -> Vec<FlagValue> {
        let pid_file = self.pid_file.as_ref();
        let log_file = self.log_file.as_ref();
        [
            FlagValue::of("--pid-file", "collect", "pid_file", pid_file),
            FlagValue::of("--log-file", "collect", "log_file", log_file),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
