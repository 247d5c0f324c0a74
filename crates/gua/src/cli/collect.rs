//! What can be typed to collect: doctor, the daemon and its service.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueHint};

use super::{EnrolmentArgs, WayArgs};
use crate::config::FlagValue;

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
        after_help = "Examples:\n  sudo gua service install --interval 10s\n  sudo gua service install --readable-by group:gpu\n  gua service install --user\n  sudo gua service install --cloud               and each tick to the board (after `gua enroll`)\n  gua service install --sync-once --every 5m    a push to the board every 5 minutes, by a timer"
    )]
    Install(ServiceInstallArgs),

    /// Stop the service and remove its unit. The history stays.
    #[command(
        after_help = "Examples:\n  sudo gua service uninstall\n  gua service uninstall --sync-once"
    )]
    Uninstall(ServiceUninstallArgs),

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
pub struct ServiceUninstallArgs {
    #[command(flatten)]
    pub scope: ServiceScopeArgs,

    /// The timer of `gua sync-once` instead of the collector.
    #[arg(long)]
    pub sync_once: bool,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("board").args(["sync_once", "cloud"]))]
pub struct ServiceInstallArgs {
    #[command(flatten)]
    pub scope: ServiceScopeArgs,

    /// How often to look; otherwise as configured.
    #[arg(long, value_name = "DURATION", value_parser = crate::duration::parse)]
    pub interval: Option<std::time::Duration>,

    /// Who may read the host's history: everyone, group:NAME or root [default: as installed before; else everyone, under
    /// hidepid the group that sees all processes].
    #[arg(long, value_name = "WHO")]
    pub readable_by: Option<String>,

    /// Install the timer of `gua sync-once` instead of the collector: this host has to be enrolled.
    #[arg(long, conflicts_with = "interval")]
    pub sync_once: bool,

    /// Let the collector push each tick to the board at which this host is enrolled.
    ///
    /// Settings of this environment (GUA_CLOUD_*, GUA_CA_FILE, proxies) go into the unit.
    #[arg(long, conflicts_with = "sync_once")]
    pub cloud: bool,

    /// How often the timer looks and pushes [default: 5m].
    #[arg(long, value_name = "DURATION", value_parser = crate::duration::parse, requires = "sync_once")]
    pub every: Option<std::time::Duration>,

    /// Let it send closed days to the board's archive too, once a day.
    #[arg(long, requires = "board")]
    pub archive: bool,

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
                  gua daemon --csv-dir ~/gpu_stats        and the daily CSV of gpu_stats beside it\n  \
                  gua daemon --cloud                      and each tick to the board (after `gua enroll`)\n  \
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

    /// Write the daily CSV of gpu_stats into this directory too.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub csv_dir: Option<PathBuf>,

    /// The time from one set of its rows to the next [default: 5m].
    #[arg(long, value_name = "DURATION")]
    pub csv_every: Option<OsString>,

    /// Its form: classic, as gpu_stats writes it, or full, with every process and card [default: classic].
    #[arg(long, value_name = "FORM")]
    pub csv_format: Option<OsString>,

    /// Go on with a history that exists at --db.
    #[arg(long)]
    pub append: bool,

    /// Send each tick to the board at which this host is enrolled, and the load of the cards each second.
    #[arg(long)]
    pub cloud: bool,

    /// Send the closed days of the history to the board's archive too, once a day.
    #[arg(long, requires = "cloud")]
    pub archive: bool,

    #[command(flatten)]
    pub enrolment: EnrolmentArgs,

    #[command(flatten)]
    pub way: WayArgs,
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

impl CollectArgs {
    /// Those of these flags that stand for settings.
    #[must_use]
    pub fn settings(&self) -> Vec<FlagValue> {
        let db = FlagValue::of("--db", "history", "db", self.db.as_ref());
        let interval = self.interval.as_ref();
        let interval = FlagValue::of("--interval", "collect", "interval", interval);
        let keep_raw = self.keep_raw.as_ref();
        let keep_raw = FlagValue::of("--keep-raw", "collect", "keep_raw", keep_raw);
        let csv_dir = FlagValue::of("--csv-dir", "csv", "dir", self.csv_dir.as_ref());
        let every = self.csv_every.as_ref();
        let csv_every = FlagValue::of("--csv-every", "csv", "every", every);
        let form = self.csv_format.as_ref();
        let csv_format = FlagValue::of("--csv-format", "csv", "format", form);
        let own = [db, interval, keep_raw, csv_dir, csv_every, csv_format];
        let link = [self.enrolment.settings(), self.way.settings()].concat();
        own.into_iter().flatten().chain(link).collect()
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
