//! Commands of the group Collect: doctor, the daemon and its systemd service.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueHint};
use gua_collector::metrics::DEFAULT_ADDRESS;
use gua_collector::service::Install;
use gua_render::metrics::Form;

use super::{EnrolmentArgs, WayArgs, named};

/// Check what gua can read on this host and report problems.
///
/// Read-only: changes nothing on the system and opens no history for writing.
///
/// # Notes
///
/// The output contains local paths and GPU UUIDs: review it before you share it.
///
/// # Examples
///
/// - `gua doctor`: check this host
/// - `gua doctor --json`: print the findings as JSON
/// - `gua doctor --sample > gpus.json`: one sample of every GPU, for a bug report
/// - `gua doctor --bundle`: write gua-bundle.tar.gz without private data
/// - `gua doctor --strict || exit 1`: stop a script when a check fails
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print the findings as JSON.
    #[arg(long)]
    pub json: bool,

    /// History file to check [default: ~/.gua/gua.db].
    #[arg(id = "history.db", long = "db", value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,

    /// Print one sample of every GPU as JSON, for a bug report.
    #[arg(long)]
    pub sample: bool,

    /// Write a scrubbed archive for a bug report, and list its files [without FILE: gua-bundle.tar.gz].
    ///
    /// It contains the findings, a sample, numeric settings, facts about the history and the end of the log, without names of
    /// users and hosts, paths, addresses and tokens.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "gua-bundle.tar.gz", conflicts_with_all = ["json", "sample"], value_hint = ValueHint::FilePath)]
    pub bundle: Option<PathBuf>,

    /// Exit with 1 if a check has status error or the host is unsupported; warnings do not count.
    #[arg(long)]
    pub strict: bool,
}

/// Compare the readings of gua with those of nvidia-smi on this host.
///
/// Prints which readings agree within a stated tolerance, differ, or are missing on one side, without names, UUIDs and process
/// IDs. Exits with 1 if something differs.
///
/// # Examples
///
/// - `gua verify > verify.txt`: compare for two minutes, for a report to share
/// - `gua verify --for 10s`: a short check
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Length of the comparison.
    #[arg(long = "for", value_name = "DURATION", default_value = "2m", value_parser = gua_model::duration::parse)]
    pub length: Duration,

    /// Interval between two comparisons.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = gua_model::duration::parse)]
    pub interval: Duration,
}

#[derive(Debug, Subcommand)]
pub enum ServiceCommand {
    /// Install, enable and start the service. Run again to change or update it.
    ///
    /// # Examples
    ///
    /// - `sudo gua service install --interval 10s`
    /// - `sudo gua service install --readable-by group:gpu`
    /// - `gua service install --user`
    /// - `sudo gua service install --cloud`: push each tick to the board (after `gua enroll`)
    /// - `gua service install --sync-once --every 5m`: push to the board every 5 minutes with a timer
    Install(ServiceInstallArgs),

    /// Stop the service and remove its unit. The history is kept.
    ///
    /// # Examples
    ///
    /// - `sudo gua service uninstall`
    /// - `gua service uninstall --sync-once`
    Uninstall(ServiceUninstallArgs),

    /// Show whether the service is installed and running.
    ///
    /// # Examples
    ///
    /// - `gua service status --user`
    Status(ServiceScopeArgs),
}

#[derive(Debug, Args)]
pub struct ServiceScopeArgs {
    /// Use the system service (default for root).
    #[arg(long, conflicts_with = "user")]
    pub system: bool,

    /// Use a user service (default for other users).
    #[arg(long)]
    pub user: bool,

    /// Use the image below this directory instead of the running system.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ServiceUninstallArgs {
    #[command(flatten)]
    pub scope: ServiceScopeArgs,

    /// Remove the timer of `gua sync-once` instead of the collector.
    #[arg(long)]
    pub sync_once: bool,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("board").args(["sync_once", "cloud"]))]
pub struct ServiceInstallArgs {
    #[command(flatten)]
    pub scope: ServiceScopeArgs,

    /// Interval between ticks [default: as configured].
    #[arg(long, value_name = "DURATION", value_parser = gua_model::duration::parse)]
    pub interval: Option<Duration>,

    /// History file to write [default: as installed before; else /var/lib/gua/gua.db, for a user ~/.gua/gua.db].
    #[arg(id = "history.db", long = "db", value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,

    /// Users who may query the host's history: everyone, group:NAME or root [default: as installed before; else
    /// everyone, or with hidepid the group that can see all processes].
    #[arg(long, value_name = "WHO", conflicts_with = "sync_once")]
    pub readable_by: Option<String>,

    /// Serve metrics for Prometheus on this address [without ADDR: 127.0.0.1:19400].
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = DEFAULT_ADDRESS, conflicts_with = "sync_once")]
    pub metrics: Option<SocketAddr>,

    /// Install a timer for `gua sync-once` instead of the collector. The host must be enrolled.
    #[arg(long, conflicts_with = "interval")]
    pub sync_once: bool,

    /// Push each tick to the board at which this host is enrolled.
    ///
    /// Environment variables for the connection (GUA_CLOUD_*, GUA_CA_FILE, proxies) are copied into the unit.
    #[arg(long, conflicts_with = "sync_once")]
    pub cloud: bool,

    /// Interval between pushes of the timer [default: 5m].
    #[arg(long, value_name = "DURATION", value_parser = gua_model::duration::parse, requires = "sync_once")]
    pub every: Option<Duration>,

    /// Also upload closed days to the board's archive, once a day.
    #[arg(long, requires = "board")]
    pub archive: bool,

    #[command(flatten)]
    pub unit: UnitArgs,
}

/// System that a unit is installed into.
#[derive(Debug, Args)]
pub struct ImageArgs {
    /// Use the image below this directory instead of the running system.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: Option<PathBuf>,
}

/// Options of an installed unit.
#[derive(Clone, Copy, Debug, Args)]
pub struct UnitArgs {
    /// Enable the unit for the next boot without starting it now.
    #[arg(long)]
    pub no_start: bool,

    /// Replace existing units with the same names that gua did not write.
    #[arg(long)]
    pub force: bool,

    /// Print the unit without changing anything.
    #[arg(long)]
    pub print: bool,
}

impl From<UnitArgs> for Install {
    fn from(args: UnitArgs) -> Self {
        Self {
            no_start: args.no_start,
            force: args.force,
            print: args.print,
            ..Self::default()
        }
    }
}

/// Start the collector in the background.
///
/// The collector samples every GPU at each interval and stores the samples in the history. Needs no root. Driver errors
/// and a full disk lose ticks, which are counted, but never stop the daemon.
///
/// # Examples
///
/// - `gua daemon`: sample every 30 s into ~/.gua/gua.db
/// - `gua daemon --interval 10s`: sample more often
/// - `gua daemon --db /data/gpus.db --append`: continue another history
/// - `gua daemon --csv-dir ~/gpu_stats`: also write daily CSV files like gpu_stats
/// - `gua daemon --cloud`: also push each tick to the board (after `gua enroll`)
/// - `gua daemon --metrics`: also serve metrics at http://127.0.0.1:19400/metrics
/// - `gua daemon --foreground`: for systemd, containers and debugging
/// - `gua daemon --health`: check a running daemon, for a probe of Kubernetes
#[derive(Debug, Args)]
pub struct DaemonArgs {
    #[command(flatten)]
    pub collect: CollectArgs,

    #[command(flatten)]
    pub files: FileArgs,

    /// Stay in the foreground: print ticks to stdout and messages to stderr; write no PID file.
    #[arg(long)]
    pub foreground: bool,

    /// Print whether the running daemon stores ticks, and exit with 0 if it does, else with 1. For probes.
    #[arg(long, conflicts_with = "foreground")]
    pub health: bool,
}

/// Start the collector in the background; same as `gua daemon`.
///
/// # Examples
///
/// - `gua start --interval 10s`
#[derive(Debug, Args)]
pub struct StartArgs {
    #[command(flatten)]
    pub collect: CollectArgs,

    #[command(flatten)]
    pub files: FileArgs,
}

/// Print metrics of this host for Prometheus.
///
/// Reads the GPUs and the history once. `gua daemon --metrics` serves the same metrics, with those of the collector.
///
/// # Examples
///
/// - `gua metrics`: print the metrics
/// - `gua metrics -o /var/lib/node_exporter/gua.prom`: for the textfile collector of node_exporter
/// - `gua metrics --dashboard > gua.json`: a dashboard for Grafana
#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// Write to this file, which is replaced as a whole.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Text format; `text` is version 0.0.4, which every program reads.
    #[arg(long, value_parser = named(METRICS_FORMS), default_value = "text")]
    pub format: Form,

    /// Print a Grafana dashboard for these metrics (JSON).
    #[arg(long, conflicts_with = "format")]
    pub dashboard: bool,
}

/// Text formats of metrics.
const METRICS_FORMS: [(&str, Form); 2] = [("text", Form::Text), ("openmetrics", Form::OpenMetrics)];

/// Options of every collector.
#[derive(Debug, Args)]
pub struct CollectArgs {
    /// History file to write [default: ~/.gua/gua.db].
    #[arg(id = "history.db", long = "db", value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,

    /// Interval between ticks [default: 30s].
    #[arg(id = "collect.interval", long = "interval", value_name = "DURATION")]
    pub interval: Option<OsString>,

    /// Retention of single ticks [default: 90d].
    #[arg(id = "collect.keep_raw", long = "keep-raw", value_name = "DURATION")]
    pub keep_raw: Option<OsString>,

    /// Also write daily CSV files like those of gpu_stats to this directory.
    #[arg(id = "csv.dir", long = "csv-dir", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub csv_dir: Option<PathBuf>,

    /// Interval between CSV samples [default: 5m].
    #[arg(id = "csv.every", long = "csv-every", value_name = "DURATION")]
    pub csv_every: Option<OsString>,

    /// CSV format: classic (as gpu_stats writes it) or full (every process and GPU) [default: classic].
    #[arg(id = "csv.format", long = "csv-format", value_name = "FORM")]
    pub csv_format: Option<OsString>,

    /// Serve metrics for Prometheus on this address [without ADDR: 127.0.0.1:19400].
    #[arg(id = "metrics.listen", long = "metrics", value_name = "ADDR", num_args = 0..=1, default_missing_value = DEFAULT_ADDRESS)]
    pub metrics: Option<OsString>,

    /// Format of the log: text, json or auto [default: auto].
    #[arg(id = "collect.log_format", long = "log-format", value_name = "FORMAT")]
    pub log_format: Option<OsString>,

    /// Continue an existing history at --db.
    #[arg(long)]
    pub append: bool,

    /// Push each tick, and the GPU load every second, to the board at which this host is enrolled.
    #[arg(long)]
    pub cloud: bool,

    /// Also upload closed days to the board's archive, once a day.
    #[arg(long, requires = "cloud")]
    pub archive: bool,

    #[command(flatten)]
    pub enrolment: EnrolmentArgs,

    #[command(flatten)]
    pub way: WayArgs,
}

/// Files of the background daemon.
#[derive(Debug, Args)]
pub struct FileArgs {
    /// PID file [default: ~/.gua/gua.pid].
    #[arg(id = "collect.pid_file", long = "pid-file", value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub pid_file: Option<PathBuf>,

    /// Log file [default: ~/.gua/gua.log].
    #[arg(id = "collect.log_file", long = "log-file", value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub log_file: Option<PathBuf>,
}
