//! Arguments of `gua report`, `gua plot`, `gua export` and `gua import`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use gua_export::What;
use gua_render::chart::{Language, Theme};
use gua_render::report::By;

use super::{HistoryArgs, StrictArgs, named, one_of};
use crate::failure::Failure;

/// Import a history of gpu-usage-audit or the CSV files of gpu_stats.
///
/// Reads files of gpu-usage-audit 1.0.2 to 1.8.0 and the daily CSV files of gpu_stats; they are never changed. Rows
/// that were imported before are skipped, so a file that has grown can be imported again. An old file at the path of
/// the history itself is renamed afterwards.
///
/// # Examples
///
/// - `gua import /tmp/gua.db`: a history of gpu-usage-audit 1.0.2
/// - `gua import backup/gua.db --db all.db`: into a separate history
/// - `gua import --gpu-stats ~/gpu_stats`: all CSV files of gpu_stats
/// - `gua import --gpu-stats ~/gpu_stats --interval 1m --replace`: the same, counting each row as one minute
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// History file of gpu-usage-audit.
    #[arg(value_name = "PATH", value_hint = ValueHint::FilePath, required_unless_present = "gpu_stats", conflicts_with = "gpu_stats")]
    pub path: Option<PathBuf>,

    /// Directory of gpu_stats CSV files, or one of the files, to import instead of PATH.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::AnyPath)]
    pub gpu_stats: Option<PathBuf>,

    /// Duration of each gpu_stats row [default: the most frequent interval between rows].
    #[arg(long, value_name = "DURATION", value_parser = gua_model::duration::parse, requires = "gpu_stats")]
    pub interval: Option<std::time::Duration>,

    /// Replace gpu_stats days that were imported before, to apply another --interval or a changed file.
    #[arg(long, requires = "gpu_stats")]
    pub replace: bool,

    /// History file to import into [default: that of your running daemon, else the service's, else ~/.gua/gua.db].
    #[arg(id = "history.db", long = "db", value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,
}

/// Export a history as CSV, JSON lines or Parquet.
///
/// All formats contain the same values; docs/export.md lists the columns. Sums over a time range equal those of `gua
/// report`. Values that were not measured are missing, never zero.
///
/// # Notes
///
/// Times are durations before now (30s, 1h, 7d) or dates and times (2026-11-01, 2026-11-01T12:00).
///
/// --format gpu-usage-audit writes a history file of release 1.8.0 for that tool and tools built on it.
///
/// All formats contain names of users and programs: review the files before you share them.
///
/// # Examples
///
/// - `gua export --since 24h > samples.csv`: every GPU at every tick
/// - `gua export --what sessions -o sessions.parquet`: who held which GPU from when to when
/// - `gua export --what user-totals --since 30d --format jsonl | jq .user`
/// - `gua export --what samples --format parquet -o lake/ --since 2d --overwrite`: one file per day, overwritten
/// - `gua export --format gpu-usage-audit --output old.db`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Table to export: every GPU at every tick (samples), every process on every GPU at every tick (processes), every
    /// process that held a GPU (sessions), or sums per 15 minutes of every GPU (totals) or every user on it (user-totals)
    /// [default: samples].
    #[arg(long, value_name = "TABLE", value_parser = one_of(&What::ALL, What::as_str))]
    pub what: Option<What>,

    /// Export the sums of each day by group, project, job, pod or container instead of a table.
    #[arg(long, value_name = "WHAT", value_parser = one_of(&By::GROUPS, By::as_str), conflicts_with = "what")]
    pub by: Option<By>,

    /// Output format [default: by the file extension, else csv].
    #[arg(long, value_name = "FORM", value_enum)]
    pub format: Option<ExportFormat>,

    /// Start of the time range: a duration before now, a date and time, or `today` or `last-month` [default: the first tick].
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub since: Option<String>,

    /// End of the time range: a duration before now, a date and time, or `today` or `last-month` [default: now].
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub until: Option<String>,

    /// Output file, or a directory for one file per day; `-` is stdout [default: stdout].
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub output: Option<PathBuf>,

    /// Overwrite existing files.
    #[arg(long)]
    pub overwrite: bool,

    /// Time zone of the days into which rows are grouped [default: local time zone].
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,

    #[command(flatten)]
    pub history: HistoryArgs,
}

/// Export formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    Csv,
    /// One JSON object per line.
    Jsonl,
    Parquet,
    /// A history file of gpu-usage-audit 1.8.0.
    GpuUsageAudit,
}

/// Output format of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    #[default]
    Text,
    Json,
    Csv,
}

/// Report who held which GPU, since when, and whether it was used.
///
/// Works while a daemon is writing, after it has stopped, on a read-only copy, and on files of gpu-usage-audit. Nothing
/// is created or changed.
///
/// # Notes
///
/// Times are durations before now (30s, 1h, 7d) or dates and times (2026-11-01, 2026-11-01T12:00).
///
/// # Examples
///
/// - `gua report`: last hour
/// - `gua report --since 7d`: last week
/// - `gua report --since 7d --by user --top 50`: hours by user
/// - `gua report --since 2026-10-01 --until 2026-11-01 --by day --csv`
/// - `gua report --since 30d --user ada`: only one user
/// - `gua report --since 30d -o report.html`: the page with charts
/// - `gua report --since 30d --open`: the same, in a browser
/// - `gua report --by idle`: who holds GPUs without use now
/// - `gua report --since last-month --until this-month --compare`: last month, compared with the month before
/// - `gua report --db /tmp/old-gua.db`: a file of gpu-usage-audit
#[derive(Debug, Args)]
pub struct ReportArgs {
    #[command(flatten)]
    pub history: HistoryArgs,

    /// Start of the time range: a duration before now, a date and time, or `today` or `last-month`.
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "1h",
        allow_hyphen_values = true
    )]
    pub since: String,

    /// End of the time range: a duration before now, a date and time, or `today` or `last-month` [default: now].
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub until: Option<String>,

    /// Print one table instead of the sections. `hour` is the hour of the day; weeks start on Monday. Groups and projects are
    /// those of `[[group]]` in the configuration; without any, groups are those of the system.
    #[arg(long, value_name = "WHAT", value_parser = one_of(&By::ALL, By::as_str))]
    pub by: Option<By>,

    /// Compare with the period before: as many months or days, or the same length of time.
    #[arg(long)]
    pub compare: bool,

    /// Show only this user.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// Show only this GPU: its index, its UUID or a UUID prefix. Can be repeated.
    #[arg(long, value_name = "GPU")]
    pub gpu: Vec<String>,

    /// Maximum number of rows per list of users, GPUs or holders in text and HTML; the rest are counted in one line.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,

    /// Duration of each row of a gpu-usage-audit file, instead of the recorded interval.
    #[arg(long, value_name = "DURATION", value_parser = gua_model::duration::parse)]
    pub interval: Option<std::time::Duration>,

    /// Width of the bar in columns.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub width: u16,

    /// Time zone of displayed times, such as UTC or Asia/Seoul [default: local time zone].
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,

    /// Count graphics-only processes (such as a desktop) as holders.
    #[arg(id = "states.count_graphics", long = "count-graphics")]
    pub count_graphics: bool,

    /// Minimum utilisation of an active GPU, in percent.
    #[arg(
        id = "states.active_util",
        long = "active-util",
        value_name = "PERCENT"
    )]
    pub active_util: Option<std::ffi::OsString>,

    /// Memory use above which a GPU counts as held, in MB.
    #[arg(id = "states.held_mb", long = "held-mb", value_name = "MB")]
    pub held_mb: Option<std::ffi::OsString>,

    /// Output format [default: by the extension of the file, else text].
    #[arg(long, value_name = "FORM", value_enum)]
    pub format: Option<ReportFormat>,

    /// Same as --format json.
    #[arg(long, conflicts_with_all = ["format", "csv"])]
    pub json: bool,

    /// Same as --format csv: one table, by GPU unless --by is given.
    #[arg(long, conflicts_with = "format")]
    pub csv: bool,

    /// Language of the report [default: that of the locale]; `ko` prints the action report of gpu-usage-audit 1.7 and later.
    #[arg(long, value_name = "LANGUAGE", value_parser = one_of(&Language::ALL, Language::as_str))]
    pub lang: Option<Language>,

    /// Print all sections on a terminal too, as into a pipe.
    #[arg(long)]
    pub full: bool,

    #[command(flatten)]
    pub file: PageFileArgs,

    #[command(flatten)]
    pub strict: StrictArgs,
}

/// Output file of a report or a statement.
#[derive(Debug, Args)]
pub struct PageFileArgs {
    /// Output file; its extension selects the format: .html, .json or .txt (.csv too for a report). `-` is stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Overwrite an existing file.
    #[arg(long)]
    pub overwrite: bool,

    /// Write the page with charts, to ~/.gua/page.html without -o, and open it in a browser.
    #[arg(long)]
    pub open: bool,
}

impl PageFileArgs {
    /// The file to write; `None` is stdout.
    pub fn path(&self) -> Option<&Path> {
        let named = self.output.as_deref();
        named.filter(|path| *path != Path::new("-"))
    }

    /// Format that the extension of the file selects; text without one.
    pub(super) fn form<T: ValueEnum + Default>(&self) -> Result<T, Failure> {
        let named = self.path().filter(|path| path.extension().is_some());
        named.map_or_else(|| Ok(T::default()), by_extension)
    }
}

/// Format that a file extension selects.
pub fn by_extension<T: ValueEnum>(path: &Path) -> Result<T, Failure> {
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let extension = extension.to_ascii_lowercase();
    let name = match extension.as_str() {
        "htm" => "html",
        "ndjson" => "jsonl",
        "txt" => "text",
        other => other,
    };
    let forms = T::value_variants().iter().filter_map(T::to_possible_value);
    let forms: Vec<_> = forms.map(|form| form.get_name().to_owned()).collect();
    T::from_str(name, false).map_err(|_| {
        let problem = format!("unsupported file extension: {}", path.display());
        Failure::usage(problem).hint(format!("pass --format {}", forms.join("|")))
    })
}

/// Output format of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    #[default]
    Text,
    Json,
    Csv,
    /// One printable file with charts.
    Html,
}

impl ReportArgs {
    /// Output format selected by `--format`, `--json`, `--csv`, `--open` or the extension of the file.
    pub fn form(&self) -> Result<ReportFormat, Failure> {
        Ok(match (self.json, self.csv, self.format) {
            (true, ..) => ReportFormat::Json,
            (_, true, _) => ReportFormat::Csv,
            (.., Some(format)) => format,
            _ if self.file.open => ReportFormat::Html,
            _ => self.file.form()?,
        })
    }
}

/// Plot who held which GPU, since when, and whether it was used.
///
/// SVG and PNG output needs no fonts and no network access. Without -o, the chart is drawn in the terminal. JSON and
/// CSV contain the plotted data.
///
/// # Notes
///
/// If CHART is omitted, --by and --per select it: --per alone plots states over time (weekday-hour: a heat map of the
/// week), --by alone plots hours, and both together a heat map of users or GPUs over time.
///
/// # Examples
///
/// - `gua plot`: last week, in the terminal
/// - `gua plot --since 30d --per day -o month.svg`: GPU states by day
/// - `gua plot --since 30d --per weekday-hour -o busy.png`: busy hours of the week
/// - `gua plot hours --by user --since 30d -o people.png`: GPU hours by user, with the idle-held share
/// - `gua plot --by gpu --per hour --since 2d`: heat map of GPUs by hour
/// - `gua plot sessions --by user --since 24h -o who.svg`: who held what, when
/// - `gua plot hours --by group --since 30d`: GPU hours by group
/// - `gua plot quiet --since 30d`: hours of the day with the least use
/// - `gua plot hours --since 30d -o hours.csv`: data of a chart
#[derive(Debug, Args)]
pub struct PlotArgs {
    /// Chart to draw.
    #[arg(value_name = "CHART", value_enum)]
    pub chart: Option<PlotChart>,

    /// Rows of the chart. Jobs, pods and containers have the chart `hours` alone.
    #[arg(long, value_name = "WHOSE", value_parser = one_of(&PLOT_BY, By::as_str))]
    pub by: Option<By>,

    /// Unit of the time axis.
    #[arg(long, value_name = "UNIT", value_enum)]
    pub per: Option<PlotPer>,

    /// Output file; its extension selects the format: .svg, .png, .json, .csv or .txt. `-` is stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Overwrite an existing file.
    #[arg(long)]
    pub overwrite: bool,

    /// Output format, if not given by the file extension.
    #[arg(long, value_name = "FORM", value_enum)]
    pub format: Option<PlotFormat>,

    /// Draw in the terminal; same as --format text.
    #[arg(long, conflicts_with = "format")]
    pub term: bool,

    /// Start of the time range: a duration before now, a date and time, or `today` or `last-month`.
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "7d",
        allow_hyphen_values = true
    )]
    pub since: String,

    /// End of the time range: a duration before now, a date and time, or `today` or `last-month` [default: now].
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub until: Option<String>,

    /// Show only this user.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// Show only this GPU: its index, its UUID or a UUID prefix. Can be repeated.
    #[arg(long, value_name = "GPU")]
    pub gpu: Vec<String>,

    /// Maximum number of user rows; the rest are combined in one row.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub top: usize,

    /// Color theme; auto follows the viewer's system if the format supports it, else light.
    #[arg(long, value_name = "THEME", value_parser = named(THEMES), default_value = "auto")]
    pub theme: Theme,

    /// Width in pixels, or in columns for text.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(40..=10_000))]
    pub width: Option<u32>,

    /// Scale factor of a PNG: device pixels per pixel of --width.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=4))]
    pub scale: u8,

    /// Title to use instead of the default.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,

    /// Time zone of displayed times, such as UTC or Asia/Seoul [default: local time zone].
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,

    /// Language of the labels [default: that of the locale].
    #[arg(long, value_name = "LANGUAGE", value_parser = one_of(&Language::ALL, Language::as_str))]
    pub lang: Option<Language>,

    #[command(flatten)]
    pub history: HistoryArgs,

    #[command(flatten)]
    pub strict: StrictArgs,
}

/// Kind of chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlotChart {
    /// GPU states over time.
    States,
    /// Heat map of GPU load or of held GPUs over time.
    Heat,
    /// GPU hours with their idle-held share.
    Hours,
    /// Sessions: who held which GPU from when to when.
    Sessions,
    /// Use by hour of the day, with the quietest hours marked.
    Quiet,
}

/// Rows of a chart.
const PLOT_BY: [By; 7] = [
    By::User,
    By::Gpu,
    By::Group,
    By::Project,
    By::Job,
    By::Pod,
    By::Container,
];

/// Unit of the time axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlotPer {
    Hour,
    Day,
    Week,
    Month,
    /// Hour of the week, combined over all weeks.
    WeekdayHour,
}

/// Output format of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlotFormat {
    Svg,
    Png,
    /// Text for a terminal.
    Text,
    /// Plotted data.
    Json,
    /// Plotted data.
    Csv,
}

/// Color themes of a chart.
const THEMES: [(&str, Theme); 3] = [
    ("auto", Theme::Auto),
    ("light", Theme::Light),
    ("dark", Theme::Dark),
];
