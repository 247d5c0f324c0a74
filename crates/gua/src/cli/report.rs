//! What can be typed to get numbers out and old histories in.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum, ValueHint};

use crate::config::FlagValue;

/// Take the rows of an old history into ours.
///
/// Reads files of gpu-usage-audit 1.0.2 to 1.8.0, and the daily CSV of gpu_stats, and never changes them. What was
/// imported before is not imported again, so a file that has grown can be imported anew. An old file at the path of the
/// history itself is set aside afterwards.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                        gua import /tmp/gua.db                  an old history of gpu-usage-audit 1.0.2\n  \
                        gua import backup/gua.db --db all.db    into a history of its own\n  \
                        gua import --gpu-stats ~/gpu_stats      all days that gpu_stats has written\n  \
                        gua import --gpu-stats ~/gpu_stats --interval 1m --replace\n                                          \
                        the same, each row as one minute")]
pub struct ImportArgs {
    /// The old history.
    #[arg(value_name = "PATH", value_hint = ValueHint::FilePath, required_unless_present = "gpu_stats", conflicts_with = "gpu_stats")]
    pub path: Option<PathBuf>,

    /// The directory of gpu_stats' daily CSV, or one of its files, instead of an old history.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::AnyPath)]
    pub gpu_stats: Option<PathBuf>,

    /// What each row of gpu_stats stands for [default: the usual time from one of its rows to the next].
    #[arg(long, value_name = "DURATION", value_parser = crate::duration::parse, requires = "gpu_stats")]
    pub interval: Option<std::time::Duration>,

    /// Import days of gpu_stats anew that are here already: in place of what was imported, with another --interval or
    /// after a file was changed.
    #[arg(long, requires = "gpu_stats")]
    pub replace: bool,

    /// The history to import into [default: ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,
}

/// Write a history in a form that other programs read.
///
/// Tables as CSV, JSON lines or Parquet, with the same values in each; docs/export.md lists their columns. Sums over a
/// window are those of `gua report`. What nobody measured is absent, and never zero.
#[derive(Debug, Args)]
#[command(
    after_help = "Times are durations before now (30s, 1h, 7d) or moments (2026-11-01, 2026-11-01T12:00).\n\
                  gpu-usage-audit: a file as its release 1.8.0 writes it, for that tool and what was built around it.\n\
                  Names of users and programs are in all of them: look before you share.\n\n\
                  Examples:\n  \
                  gua export --since 24h > samples.csv                     every GPU at every tick\n  \
                  gua export --what sessions -o sessions.parquet           who held what, from when to when\n  \
                  gua export --what user-totals --since 30d --format jsonl | jq .user\n  \
                  gua export --what samples --format parquet -o lake/ --since 2d --overwrite\n                                                           \
                  a file for each day, renewed\n  \
                  gua export --format gpu-usage-audit --output old.db"
)]
pub struct ExportArgs {
    /// Which rows.
    #[arg(long, value_name = "TABLE", value_enum, default_value_t)]
    pub what: ExportWhat,

    /// The form to write [default: by the ending of the file, else csv].
    #[arg(long, value_name = "FORM", value_enum)]
    pub format: Option<ExportFormat>,

    /// Where the window begins: how long ago, or a moment [default: the first tick].
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub since: Option<String>,

    /// Where the window ends: how long ago, or a moment [default: now].
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub until: Option<String>,

    /// The file to write, or a directory to write a file for each day into; `-` is stdout [default: stdout].
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub output: Option<PathBuf>,

    /// Write over files that are there.
    #[arg(long)]
    pub overwrite: bool,

    /// The time zone whose days rows are put together by [default: the local one].
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,

    /// The history to export [default: that of your running daemon, else /var/lib/gua/gua.db, else
    /// ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,
}

/// The tables of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ExportWhat {
    /// Every GPU at every tick: readings, state, and the time that they stand for.
    #[default]
    Samples,
    /// Every process on every GPU at every tick.
    Processes,
    /// Every process that held a GPU, from when to when.
    Sessions,
    /// Every GPU in every quarter hour.
    Totals,
    /// Every person on every GPU in every quarter hour.
    UserTotals,
}

/// The forms that a history can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    Csv,
    /// One JSON object a line.
    Jsonl,
    Parquet,
    /// A history file of gpu-usage-audit 1.8.0.
    GpuUsageAudit,
}

/// How a table is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    #[default]
    Text,
    Json,
    Csv,
}

/// Say who held which GPU, since when, and whether it was used.
///
/// Works while a daemon writes, after it has stopped, on a read-only copy, and on files of gpu-usage-audit as they are.
/// Nothing is created or changed.
#[derive(Debug, Args)]
#[command(
    after_help = "Times are durations before now (30s, 1h, 7d) or moments (2026-11-01, 2026-11-01T12:00).\n\n\
                  Examples:\n  \
                  gua report                                    the last hour\n  \
                  gua report --since 7d                         the last week\n  \
                  gua report --since 7d --by user --top 50      who held how much\n  \
                  gua report --since 2026-10-01 --until 2026-11-01 --by day --csv\n  \
                  gua report --since 30d --user ada             one person's part\n  \
                  gua report --since 30d --format html > report.html\n  \
                  gua report --db /tmp/old-gua.db               a file of gpu-usage-audit, as it is"
)]
pub struct ReportArgs {
    /// The history file [default: that of your running daemon, else /var/lib/gua/gua.db, else
    /// ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,

    /// Where the window begins: how long ago, or a moment.
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "1h",
        allow_hyphen_values = true
    )]
    pub since: String,

    /// Where the window ends: how long ago, or a moment [default: now].
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub until: Option<String>,

    /// One table instead of the sections.
    #[arg(long, value_name = "WHAT", value_enum)]
    pub by: Option<ReportBy>,

    /// Only this person's part.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// Only this GPU: its number, its UUID or the beginning of that. Can be repeated.
    #[arg(long, value_name = "GPU")]
    pub gpu: Vec<String>,

    /// How many rows a list of people, cards or holders shows in text and HTML; one line tells of the rest.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,

    /// What each row of an old file stands for, instead of the recorded interval.
    #[arg(long, value_name = "DURATION", value_parser = crate::duration::parse)]
    pub interval: Option<std::time::Duration>,

    /// The columns of the bar.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub width: u16,

    /// The time zone to show times in, such as UTC or Asia/Seoul [default: the local one].
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,

    /// Count processes that only draw (a desktop) as holders.
    #[arg(long)]
    pub count_graphics: bool,

    /// From which utilisation on a GPU is active, in percent.
    #[arg(long, value_name = "PERCENT")]
    pub active_util: Option<std::ffi::OsString>,

    /// With more than how much memory a GPU is held, in MB.
    #[arg(long, value_name = "MB")]
    pub held_mb: Option<std::ffi::OsString>,

    /// How to print it.
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    pub format: ReportFormat,

    /// The same as --format json.
    #[arg(long, conflicts_with_all = ["format", "csv"])]
    pub json: bool,

    /// The same as --format csv: one table, by GPU unless --by says otherwise.
    #[arg(long, conflicts_with = "format")]
    pub csv: bool,

    /// The language of the text: `ko` is the action report of gpu-usage-audit 1.7 and later.
    #[arg(long, value_name = "LANGUAGE", value_enum, default_value_t)]
    pub lang: Language,
}

/// What the rows of a report's table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportBy {
    User,
    Gpu,
    Day,
    /// By hour of the day, with the quietest hours.
    Hour,
    /// From Monday on.
    Week,
    Month,
    State,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    #[default]
    Text,
    Json,
    Csv,
    /// One file with charts, to look at and to print.
    Html,
}

/// The language of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Language {
    #[default]
    En,
    Ko,
}

impl Default for ReportArgs {
    /// What `gua report` alone asks for.
    fn default() -> Self {
        Self {
            db: None,
            since: "1h".to_owned(),
            until: None,
            by: None,
            user: None,
            gpu: Vec::new(),
            top: 10,
            interval: None,
            width: 60,
            tz: None,
            count_graphics: false,
            active_util: None,
            held_mb: None,
            format: ReportFormat::default(),
            json: false,
            csv: false,
            lang: Language::default(),
        }
    }
}

impl ReportArgs {
    /// What was asked for by `--format` or its short forms.
    #[must_use]
    pub fn form(&self) -> ReportFormat {
        match (self.json, self.csv) {
            (true, _) => ReportFormat::Json,
            (_, true) => ReportFormat::Csv,
            _ => self.format,
        }
    }

    /// Those of these flags that stand for settings.
    #[must_use]
    pub fn settings(&self) -> Vec<FlagValue> {
        let graphics = self.count_graphics.then_some("true");
        [
            FlagValue::of("--db", "history", "db", self.db.as_ref()),
            FlagValue::of(
                "--active-util",
                "states",
                "active_util",
                self.active_util.as_ref(),
            ),
            FlagValue::of("--held-mb", "states", "held_mb", self.held_mb.as_ref()),
            FlagValue::of(
                "--count-graphics",
                "states",
                "count_graphics",
                graphics.as_ref(),
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// `report` under the name of the tool that it replaces.
#[derive(Debug, Parser)]
#[command(
    name = "gpu-usage-audit report",
    infer_long_args = true,
    max_term_width = 100,
    disable_version_flag = true
)]
pub struct AuditReportArgs {
    #[command(flatten)]
    pub report: ReportArgs,
}
