//! What can be typed to get a picture.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::{Language, ReportArgs};
use crate::config::FlagValue;

/// Draw who held which GPU, since when, and whether it was used.
///
/// SVG and PNG need no fonts and no network. Without -o the picture is drawn in the terminal. JSON and CSV have the
/// numbers that it draws.
#[derive(Debug, Args)]
#[command(
    after_help = "--by and --per choose a chart where none is named: --per alone is states over time (weekday-hour: a heat\n\
                  map of the week), --by alone is hours, both together are a heat map of people or GPUs over time.\n\n\
                  Examples:\n  \
                  gua plot                                            the last week in the terminal\n  \
                  gua plot --since 30d --per day -o month.svg         how the GPUs' time was spent, day by day\n  \
                  gua plot --since 30d --per weekday-hour -o busy.png when they are busy\n  \
                  gua plot hours --by user --since 30d -o people.png  GPU-hours by person, with the idle-held share\n  \
                  gua plot --by gpu --per hour --since 2d             each GPU, hour by hour\n  \
                  gua plot sessions --by user --since 24h -o who.svg  who held what, when\n  \
                  gua plot quiet --since 30d                          the hours of the day with the least use\n  \
                  gua plot hours --since 30d -o hours.csv             the numbers of a picture"
)]
pub struct PlotArgs {
    /// What to draw.
    #[arg(value_name = "CHART", value_enum)]
    pub chart: Option<PlotChart>,

    /// Whose rows the chart has.
    #[arg(long, value_name = "WHOSE", value_enum)]
    pub by: Option<PlotBy>,

    /// How time is cut.
    #[arg(long, value_name = "UNIT", value_enum)]
    pub per: Option<PlotPer>,

    /// The file to write, its form by its ending: .svg, .png, .json, .csv or .txt; `-` is stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Write over a file that is there.
    #[arg(long)]
    pub overwrite: bool,

    /// The form, where the ending of the file does not say it.
    #[arg(long, value_name = "FORM", value_enum)]
    pub format: Option<PlotFormat>,

    /// Draw it in the terminal: the same as --format text.
    #[arg(long, conflicts_with = "format")]
    pub term: bool,

    /// Where the window begins: how long ago, or a moment.
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "7d",
        allow_hyphen_values = true
    )]
    pub since: String,

    /// Where the window ends: how long ago, or a moment [default: now].
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub until: Option<String>,

    /// Only this person's part.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// Only this GPU: its number, its UUID or the beginning of that. Can be repeated.
    #[arg(long, value_name = "GPU")]
    pub gpu: Vec<String>,

    /// How many people have a row of their own; one row stands for the rest.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub top: usize,

    /// The colours: of the reader's system where the form can say so, else light.
    #[arg(long, value_name = "THEME", value_enum, default_value_t)]
    pub theme: PlotTheme,

    /// The width of the picture in pixels; of text in columns.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(40..=10_000))]
    pub width: Option<u32>,

    /// How many pixels of a PNG stand for one of the picture's.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=4))]
    pub scale: u8,

    /// The title, instead of the chart's own.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,

    /// The time zone to show times in, such as UTC or Asia/Seoul [default: the local one].
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,

    /// The language of the words in the picture.
    #[arg(long, value_name = "LANGUAGE", value_enum, default_value_t)]
    pub lang: Language,

    /// The history file [default: that of your running daemon, else /var/lib/gua/gua.db, else
    /// ~/.gua/gua.db].
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,
}

/// The charts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlotChart {
    /// How the GPUs' time was spent, over time.
    States,
    /// How busy GPUs were, or what people held, by time.
    Heat,
    /// GPU-hours with their idle-held share.
    Hours,
    /// Who held what, from when to when.
    Sessions,
    /// The hours of the day, with the quietest of them.
    Quiet,
}

/// Whose rows a chart has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlotBy {
    User,
    Gpu,
}

/// How time is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlotPer {
    Hour,
    Day,
    Week,
    Month,
    /// Each hour of the week, over all weeks.
    WeekdayHour,
}

/// The form of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlotFormat {
    Svg,
    Png,
    /// In letters.
    Text,
    /// The numbers of the picture.
    Json,
    /// The numbers of the picture.
    Csv,
}

/// Light or dark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PlotTheme {
    #[default]
    Auto,
    Light,
    Dark,
}

impl PlotArgs {
    /// The report that has the numbers.
    #[must_use]
    pub fn report(&self) -> ReportArgs {
        ReportArgs {
            db: self.db.clone(),
            since: self.since.clone(),
            until: self.until.clone(),
            user: self.user.clone(),
            gpu: self.gpu.clone(),
            top: self.top,
            tz: self.tz.clone(),
            lang: self.lang,
            ..ReportArgs::default()
        }
    }

    /// Those of these flags that stand for settings.
    #[must_use]
    pub fn settings(&self) -> Vec<FlagValue> {
        self.report().settings()
    }
}
