//! Arguments of `gua plot`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use gua_render::report::By;

use super::{HistoryArgs, Language, StrictArgs, one_of};

/// Plot who held which GPU, since when, and whether it was used.
///
/// SVG and PNG output needs no fonts and no network access. Without -o, the chart is drawn in the terminal. JSON and
/// CSV contain the plotted data.
#[derive(Debug, Args)]
#[command(
    after_help = "If CHART is omitted, --by and --per select it: --per alone plots states over time (weekday-hour: a heat map \
                  of the week), --by alone plots hours, and both together a heat map of users or GPUs over time.\n\n\
                  Examples:\n  \
                  gua plot                                            last week, in the terminal\n  \
                  gua plot --since 30d --per day -o month.svg         GPU states by day\n  \
                  gua plot --since 30d --per weekday-hour -o busy.png busy hours of the week\n  \
                  gua plot hours --by user --since 30d -o people.png  GPU hours by user, with the idle-held share\n  \
                  gua plot --by gpu --per hour --since 2d             heat map of GPUs by hour\n  \
                  gua plot sessions --by user --since 24h -o who.svg  who held what, when\n  \
                  gua plot hours --by group --since 30d               GPU hours by group\n  \
                  gua plot quiet --since 30d                          hours of the day with the least use\n  \
                  gua plot hours --since 30d -o hours.csv             data of a chart"
)]
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
    #[arg(long, value_name = "THEME", value_enum, default_value_t)]
    pub theme: PlotTheme,

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
    #[arg(long, value_name = "LANGUAGE", value_enum)]
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

/// Color theme of a chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PlotTheme {
    #[default]
    Auto,
    Light,
    Dark,
}
