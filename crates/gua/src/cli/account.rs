//! What can be typed to keep accounts.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::FormatArgs;
use crate::config::FlagValue;

/// What can be done with the daily CSV.
#[derive(Debug, Subcommand)]
pub enum CsvCommand {
    /// Look at the cards once and append what they show to the file of the day.
    ///
    /// The file is YYYYMMDD_gpu_stats.csv by the local date, with the header timestamp,user,pid,gpu,usage. One row names
    /// the first process of a card; where no card has a process, one row of dashes says so. A minute is written once.
    #[command(after_help = "Examples:\n  \
                      gua csv sample\n  \
                      gua csv sample --dir /data/gpu_stats\n  \
                      gua csv sample --csv-format full    every process, with its card's state, memory and owner")]
    Sample(CsvSampleArgs),

    /// Let a timer of your own take samples. Again to change or update it.
    ///
    /// It needs no root. systemd ends a user's timers with their last session unless lingering is on; this says so where
    /// it is off.
    #[command(after_help = "Examples:\n  \
                      gua csv install\n  \
                      gua csv install --every 1m --dir ~/stats\n  \
                      gua csv install --print    show the units, and change nothing")]
    Install(CsvInstallArgs),

    /// Stop the timer and remove its units. The files stay.
    #[command(after_help = "Example:\n  gua csv uninstall")]
    Uninstall(CsvUninstallArgs),
}

/// Where samples go, and in which form.
#[derive(Debug, Args)]
pub struct CsvSampleArgs {
    /// The directory of the files; it is made where it is missing [default: ~/gpu_stats].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,

    /// The form: classic, as gpu_stats writes it, or full, with every process and card, into files of their own.
    #[arg(long, value_name = "FORM")]
    pub csv_format: Option<OsString>,
}

#[derive(Debug, Args)]
pub struct CsvInstallArgs {
    #[command(flatten)]
    pub sample: CsvSampleArgs,

    /// The time from one sample to the next.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub every: OsString,

    /// Prepare an image below this directory instead of changing this system.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: Option<PathBuf>,

    /// Replace units of these names that gua did not write.
    #[arg(long)]
    pub force: bool,

    /// Print the units and change nothing.
    #[arg(long)]
    pub print: bool,
}

#[derive(Debug, Args)]
pub struct CsvUninstallArgs {
    /// The image below this directory instead of this system.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: Option<PathBuf>,
}

impl CsvSampleArgs {
    fn settings(&self) -> Vec<FlagValue> {
        let dir = FlagValue::of("--dir", "csv", "dir", self.dir.as_ref());
        let form = self.csv_format.as_ref();
        let form = FlagValue::of("--csv-format", "csv", "format", form);
        dir.into_iter().chain(form).collect()
    }
}

impl CsvCommand {
    /// Those of these flags that stand for settings.
    #[must_use]
    pub fn settings(&self) -> Vec<FlagValue> {
        match self {
            CsvCommand::Sample(args) => args.settings(),
            CsvCommand::Install(args) => {
                let every = FlagValue::of("--every", "csv", "every", Some(&args.every));
                args.sample.settings().into_iter().chain(every).collect()
            }
            CsvCommand::Uninstall(_) => Vec::new(),
        }
    }
}

/// What can be done with limits.
#[derive(Debug, Subcommand)]
pub enum QuotaCommand {
    /// Set a limit, or change it.
    ///
    /// For a user, for a Unix group (its members together, unless --each) or for everyone (each person, unless --together).
    /// A person's own limit counts before that of a group, and that before the one of everyone. Limits of the host
    /// (--system) hold whatever a user's own file says; that can only be stricter.
    #[command(after_help = "Examples:\n  \
                      gua quota set --everyone --idle-held 10h --per week      each person\n  \
                      gua quota set --user ada --charged 200h --per month      more or less for one\n  \
                      gua quota set --group students --held 500h --per 30d     together, over a rolling window\n  \
                      gua quota set --user ada --energy 50kWh --per month\n  \
                      sudo gua quota set --system --everyone --held 20h --per day    for all users of this host")]
    Set(QuotaSetArgs),

    /// Remove limits.
    #[command(after_help = "Examples:\n  \
                      gua quota remove --user ada                        all of hers\n  \
                      gua quota remove --everyone --per week             those of a week\n  \
                      gua quota remove --user ada --measure charged")]
    Remove(QuotaRemoveArgs),

    /// Say what was used of each limit, what is left, and where it leads at the current pace.
    #[command(
        after_help = "The pace is that of the time that was observed: an hour of it and a hundredth of the term, at least.\n\
                      A week begins on Monday.\n\n\
                      Examples:\n  \
                      gua quota show\n  \
                      gua quota show --user ada --json\n  \
                      gua quota show --formula percent    the percentages of gpu_stats' notes"
    )]
    Show(QuotaShowArgs),

    /// Say who is over a limit; exit code 1 when someone is.
    ///
    /// A limit that cannot be judged, because not all that counts was measured, is listed too, and ends with 1.
    #[command(after_help = "Examples:\n  \
                      gua quota check || mail -s quota admins    in a script or a crontab\n  \
                      gua quota check --forecast                 also those who will be over at their pace")]
    Check {
        #[command(flatten)]
        show: QuotaShowArgs,

        /// Count those who will be over at the current pace, too.
        #[arg(long)]
        forecast: bool,
    },
}

/// Whom a limit is for.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct QuotaSubjectArgs {
    /// A user of this host.
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Username)]
    pub user: Option<String>,

    /// The members of a Unix group.
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,

    /// Everyone.
    #[arg(long)]
    pub everyone: bool,
}

/// How much, and of what.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct QuotaAmountArgs {
    /// Hours on a card, in full for each person on it, such as 100h.
    #[arg(long, value_name = "HOURS")]
    pub held: Option<String>,

    /// Of those, hours in which the card was not used.
    #[arg(long, value_name = "HOURS")]
    pub idle_held: Option<String>,

    /// Hours on a card, shared among the people on it.
    #[arg(long, value_name = "HOURS")]
    pub charged: Option<String>,

    /// Energy, shared likewise, such as 50kWh.
    #[arg(long, value_name = "ENERGY")]
    pub energy: Option<String>,
}

#[derive(Debug, Args)]
pub struct QuotaSetArgs {
    #[command(flatten)]
    pub subject: QuotaSubjectArgs,

    #[command(flatten)]
    pub amounts: QuotaAmountArgs,

    /// For how long it counts: day, week, month, or a rolling window such as 30d.
    #[arg(long, value_name = "TERM")]
    pub per: String,

    /// Each person has the limit.
    #[arg(long, conflicts_with = "together")]
    pub each: bool,

    /// All have it together.
    #[arg(long)]
    pub together: bool,

    /// Set it although neither the host nor the history knows the user or group.
    #[arg(long)]
    pub force: bool,

    /// In /etc/gua/config.toml, for all users of this host.
    #[arg(long)]
    pub system: bool,

    /// The history whose users are known too [default: as for gua report].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct QuotaRemoveArgs {
    #[command(flatten)]
    pub subject: QuotaSubjectArgs,

    /// Only limits on this.
    #[arg(long, value_name = "WHAT", value_enum)]
    pub measure: Option<QuotaMeasure>,

    /// Only limits for this long.
    #[arg(long, value_name = "TERM")]
    pub per: Option<String>,

    /// In /etc/gua/config.toml, for all users of this host.
    #[arg(long)]
    pub system: bool,
}

/// What can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum QuotaMeasure {
    Held,
    IdleHeld,
    Charged,
    Energy,
}

#[derive(Debug, Args)]
pub struct QuotaShowArgs {
    /// Only what concerns this person.
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Username)]
    pub user: Option<String>,

    /// What to count: amounts against limits, or the percentages of gpu_stats' notes.
    #[arg(long, value_name = "FORMULA", value_enum, default_value_t)]
    pub formula: QuotaFormula,

    /// The history file [default: that of your running daemon, else /var/lib/gua/gua.db, else ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,

    /// The time zone by which days begin, such as UTC or Asia/Seoul [default: the local one].
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,

    #[command(flatten)]
    pub format: FormatArgs,
}

/// By which formula use is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum QuotaFormula {
    #[default]
    Amounts,
    Percent,
}

impl QuotaCommand {
    /// The history that was named.
    #[must_use]
    pub fn db(&self) -> &Option<PathBuf> {
        match self {
            QuotaCommand::Set(args) => &args.db,
            QuotaCommand::Remove(_) => &None,
            QuotaCommand::Show(show) | QuotaCommand::Check { show, .. } => &show.db,
        }
    }
}

/// Write a monthly statement: one page for each person, to read or to print.
///
/// Hours held, used, idle-held and charged, energy, the biggest sessions and the quota, in the numbers of `gua report` for
/// the same month. Each page says how the time of all cards is divided, and that it adds up.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  gua statement                                  last month, everyone\n  \
                  gua statement --month 2026-10 --user ada\n  \
                  gua statement --month 2026-10 --format html > october.html")]
pub struct StatementArgs {
    /// The month, such as 2026-10; the one that goes on is told as far as it is over [default: the last].
    #[arg(long, value_name = "MONTH")]
    pub month: Option<String>,

    /// Only this person's page.
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Username)]
    pub user: Option<String>,

    /// How to print it.
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    pub format: StatementFormat,

    /// The same as --format json.
    #[arg(long, conflicts_with = "format")]
    pub json: bool,

    /// The history file [default: that of your running daemon, else /var/lib/gua/gua.db, else ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,

    /// The time zone by which the month begins, such as UTC or Asia/Seoul [default: the local one].
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,
}

/// How a statement is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum StatementFormat {
    #[default]
    Text,
    /// One page of paper for each person.
    Html,
    Json,
}
