//! Commands of the group Account, and `gua statement`: daily CSV files, quotas, alerts and monthly statements.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use gua_model::quota::Measure;

use super::{FormatArgs, HistoryArgs, ImageArgs, ListingArgs, PageFileArgs, StrictArgs, one_of};
use crate::failure::Failure;

/// Subcommands of `gua alert`.
#[derive(Debug, Subcommand)]
pub enum AlertCommand {
    /// List the configured alerts, when each last sent a message, and what is wrong with its destination.
    ///
    /// # Examples
    ///
    /// - `gua alert list`
    /// - `gua alert list --json`
    List(ListingArgs),

    /// Send test messages now and report whether each destination accepted its message; exit with 1 if one did not.
    ///
    /// # Examples
    ///
    /// - `gua alert test`: send one message of every alert
    /// - `sudo gua alert test lab`: one alert; root can read the secrets of the service
    Test {
        /// Name of one alert [default: all].
        #[arg(value_name = "ALERT")]
        name: Option<String>,
    },

    /// Show the messages that were sent, are waiting or were given up, the latest first.
    ///
    /// # Notes
    ///
    /// Messages of the host's service are readable by root and by the service.
    ///
    /// # Examples
    ///
    /// - `gua alert history`
    /// - `sudo gua alert history --limit 10 --csv`
    History {
        /// Show at most N messages.
        #[arg(short, long, value_name = "N", default_value_t = 50, value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
        limit: usize,
        #[command(flatten)]
        listing: ListingArgs,
    },
}

/// Subcommands of `gua csv`.
#[derive(Debug, Subcommand)]
pub enum CsvCommand {
    /// Sample all GPUs once and append the rows to the file of the day.
    ///
    /// The file is YYYYMMDD_gpu_stats.csv, named after the local date, with the header timestamp,user,pid,gpu,usage.
    /// Each row holds the first process of a GPU; if no GPU has a process, one row of dashes is written. Each minute is
    /// written once.
    ///
    /// # Examples
    ///
    /// - `gua csv sample`
    /// - `gua csv sample --dir /data/gpu_stats`
    /// - `gua csv sample --csv-format full`: every process, with its GPU's state, memory and owner
    Sample(CsvSampleArgs),

    /// Install a systemd user timer that takes samples. Run again to change or update it.
    ///
    /// Needs no root. systemd stops the timers of a user when their last session ends unless lingering is enabled; the
    /// command prints a warning if it is disabled.
    ///
    /// # Examples
    ///
    /// - `gua csv install`
    /// - `gua csv install --every 1m --dir ~/stats`
    /// - `gua csv install --print`: print the units without changing anything
    Install(CsvInstallArgs),

    /// Stop the timer and remove its units. The CSV files are kept.
    ///
    /// # Examples
    ///
    /// - `gua csv uninstall`
    Uninstall(ImageArgs),
}

/// Directory and format of the samples.
#[derive(Debug, Args)]
pub struct CsvSampleArgs {
    /// Directory of the CSV files; it is created if missing [default: ~/gpu_stats].
    #[arg(id = "csv.dir", long = "dir", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,

    /// CSV format: classic (as gpu_stats writes it) or full (every process and GPU, in separate files).
    #[arg(id = "csv.format", long = "csv-format", value_name = "FORM")]
    pub csv_format: Option<OsString>,
}

#[derive(Debug, Args)]
pub struct CsvInstallArgs {
    #[command(flatten)]
    pub sample: CsvSampleArgs,

    /// Interval between samples.
    #[arg(
        id = "csv.every",
        long = "every",
        value_name = "DURATION",
        default_value = "5m"
    )]
    pub every: OsString,

    /// Install into an image below this directory instead of the running system.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: Option<PathBuf>,

    /// Replace existing units with the same names that gua did not write.
    #[arg(long)]
    pub force: bool,

    /// Print the units without changing anything.
    #[arg(long)]
    pub print: bool,
}

/// Subcommands of `gua quota`.
#[derive(Debug, Subcommand)]
pub enum QuotaCommand {
    /// Set or change a limit.
    ///
    /// A limit applies to a user, to a Unix group (shared by its members unless --each is given) or to everyone (per
    /// person unless --together is given). A limit for a user takes precedence over one for a group, and that over one
    /// for everyone. Limits of the host (--system) always apply; a user's own configuration file can only make them
    /// stricter.
    ///
    /// # Examples
    ///
    /// - `gua quota set --everyone --idle-held 10h --per week`: for each person
    /// - `gua quota set --user ada --charged 200h --per month`: for one user
    /// - `gua quota set --group students --held 500h --per 30d`: shared, over a rolling window
    /// - `gua quota set --user ada --energy 50kWh --per month`
    /// - `sudo gua quota set --system --everyone --held 20h --per day`: for all users of this host
    Set(QuotaSetArgs),

    /// Remove limits.
    ///
    /// # Examples
    ///
    /// - `gua quota remove --user ada`: all limits of this user
    /// - `gua quota remove --everyone --per week`: only the weekly limits
    /// - `gua quota remove --user ada --measure charged`
    Remove(QuotaRemoveArgs),

    /// Show the used, remaining and forecast amounts of each limit.
    ///
    /// # Notes
    ///
    /// The forecast extrapolates from observed time; it needs at least one hour and 1 % of the term.
    ///
    /// Weeks start on Monday.
    ///
    /// # Examples
    ///
    /// - `gua quota show`
    /// - `gua quota show --user ada --json`
    /// - `gua quota show --formula percent`: percentages as defined in the notes of gpu_stats
    Show(QuotaShowArgs),

    /// List users over a limit; exit with 1 if there are any.
    ///
    /// A limit that cannot be evaluated because measurements are missing is listed too, and also exits with 1.
    ///
    /// # Examples
    ///
    /// - `gua quota check || mail -s quota admins`: in a script or a crontab
    /// - `gua quota check --forecast`: include users forecast to exceed a limit
    Check {
        #[command(flatten)]
        show: QuotaShowArgs,

        /// Include users who will exceed a limit at their current rate.
        #[arg(long)]
        forecast: bool,
    },
}

/// Subject of a limit.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct QuotaSubjectArgs {
    /// Apply to this user.
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Username)]
    pub user: Option<String>,

    /// Apply to the members of this Unix group.
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,

    /// Apply to everyone.
    #[arg(long)]
    pub everyone: bool,
}

/// Limited quantities.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct QuotaAmountArgs {
    /// Held GPU hours, such as 100h; each person on a shared GPU is counted in full.
    #[arg(long, value_name = "HOURS")]
    pub held: Option<String>,

    /// Held GPU hours in which the GPU was idle.
    #[arg(long, value_name = "HOURS")]
    pub idle_held: Option<String>,

    /// Charged GPU hours; hours on a shared GPU are split among its users.
    #[arg(long, value_name = "HOURS")]
    pub charged: Option<String>,

    /// Energy, such as 50kWh; split like charged hours.
    #[arg(long, value_name = "ENERGY")]
    pub energy: Option<String>,
}

#[derive(Debug, Args)]
pub struct QuotaSetArgs {
    #[command(flatten)]
    pub subject: QuotaSubjectArgs,

    #[command(flatten)]
    pub amounts: QuotaAmountArgs,

    /// Period of the limit: day, week, month, or a rolling window such as 30d.
    #[arg(long, value_name = "TERM")]
    pub per: String,

    /// Apply the limit to each person separately.
    #[arg(long, conflicts_with = "together")]
    pub each: bool,

    /// Apply the limit to all of them together.
    #[arg(long)]
    pub together: bool,

    /// Set the limit even if neither the host nor the history has this user or group.
    #[arg(long)]
    pub force: bool,

    /// Edit /etc/gua/config.toml, which applies to all users of this host.
    #[arg(long)]
    pub system: bool,

    /// History file in which to look up user names [default: as for gua report].
    #[arg(id = "history.db", long = "db", value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct QuotaRemoveArgs {
    #[command(flatten)]
    pub subject: QuotaSubjectArgs,

    /// Remove only limits on this quantity.
    #[arg(long, value_name = "WHAT", value_parser = one_of(&Measure::ALL, Measure::as_str))]
    pub measure: Option<Measure>,

    /// Remove only limits with this period.
    #[arg(long, value_name = "TERM")]
    pub per: Option<String>,

    /// Edit /etc/gua/config.toml, which applies to all users of this host.
    #[arg(long)]
    pub system: bool,
}

#[derive(Debug, Args)]
pub struct QuotaShowArgs {
    /// Show only the limits that apply to this user.
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Username)]
    pub user: Option<String>,

    /// Calculation: amounts against limits, or percentages as in the notes of gpu_stats.
    #[arg(long, value_name = "FORMULA", value_enum, default_value_t)]
    pub formula: QuotaFormula,

    /// With `--formula percent`: show the period this many periods ago: 1 is yesterday, last week and last month.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub ago: u32,

    #[command(flatten)]
    pub history: HistoryArgs,

    /// Time zone in which days start, such as UTC or Asia/Seoul [default: local time zone].
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,

    #[command(flatten)]
    pub format: FormatArgs,

    #[command(flatten)]
    pub strict: StrictArgs,
}

/// Formula for counting use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum QuotaFormula {
    #[default]
    Amounts,
    Percent,
}

/// Write a monthly statement with one printable page per user.
///
/// Each page lists held, used, idle-held and charged hours, energy, the longest sessions and the quota. The numbers
/// equal those of `gua report` for the same month. Each page also shows how the total GPU time is divided and that it
/// adds up.
///
/// # Examples
///
/// - `gua statement`: all users, last month
/// - `gua statement --month 2026-10 --user ada`
/// - `gua statement --month 2026-10 --format html > october.html`
#[derive(Debug, Args)]
pub struct StatementArgs {
    /// Month, such as 2026-10; for the current month, the statement covers the days so far [default: last month].
    #[arg(long, value_name = "MONTH")]
    pub month: Option<String>,

    /// Write only the page of this user.
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Username)]
    pub user: Option<String>,

    /// Output format [default: by the extension of the file, else text].
    #[arg(long, value_name = "FORM", value_enum)]
    pub format: Option<StatementFormat>,

    /// Same as --format json.
    #[arg(long, conflicts_with = "format")]
    pub json: bool,

    #[command(flatten)]
    pub file: PageFileArgs,

    #[command(flatten)]
    pub history: HistoryArgs,

    /// Time zone in which the month starts, such as UTC or Asia/Seoul [default: local time zone].
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,

    #[command(flatten)]
    pub strict: StrictArgs,
}

impl StatementArgs {
    /// Output format selected by `--format`, `--json`, `--open` or the extension of the file.
    pub fn form(&self) -> Result<StatementFormat, Failure> {
        Ok(match (self.json, self.format) {
            (true, _) => StatementFormat::Json,
            (_, Some(format)) => format,
            _ if self.file.open => StatementFormat::Html,
            _ => self.file.form()?,
        })
    }
}

/// Output format of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum StatementFormat {
    #[default]
    Text,
    /// One printable page per user.
    Html,
    Json,
}
