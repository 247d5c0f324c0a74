//! Output formats of a report: text in sections, the action report in Korean, JSON, CSV and HTML. All of them print the
//! numbers of one [`Report`] and compute none.

/// Appends a line to a text.
macro_rules! line {
    ($out:expr, $($text:tt)*) => {{
        $out.push_str(&format!($($text)*));
        $out.push('\n');
    }};
}

mod asked;
mod by;
mod compare;
mod cost;
mod figures;
mod glance;
pub(crate) mod html;
pub mod json;
mod korean;
mod labels;
mod lists;
pub mod plot;
mod screen;
mod sections;

use gua_model::period::Period;
use gua_model::price::Costs;
use gua_model::report::Report;
use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use self::asked::{Asked, Words};
pub use self::by::{
    By, GpuRow, GpuSums, IdleTime, PersonSums, RowSums, StateRow, UserRow, gpu_rows, state_rows,
    table, user_rows,
};
use self::by::{hour_columns, occurring_states};
pub use self::compare::page_table;
pub(crate) use self::cost::costs_of_person;
pub(crate) use self::figures::held_hours;
pub use self::glance::glance;
pub use self::html::html;
pub use self::korean::korean;
pub(crate) use self::labels::gpu_name;
pub use self::screen::screen;
pub use self::sections::text;
use crate::chart::Language;
use crate::document::{local, zone_name};

/// Display options of a report.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    pub report: &'a Report,
    pub zone: TimeZone,
    /// Text of the `Window:` line.
    pub window: String,
    /// Width of the bar in columns.
    pub width: usize,
    /// Maximum number of rows in a list; the rest is one line.
    pub top: usize,
    pub by: Option<By>,
    /// Language of pages with charts; each text format has a fixed language.
    pub language: Language,
    /// Version of the program.
    pub version: &'a str,
    /// The report of the previous period, with `--compare`.
    pub previous: Option<&'a Report>,
    /// Costs, if there are prices.
    pub costs: Option<&'a Costs>,
    /// Whether the report is one of `gua demo`, whose processes do not exist.
    pub is_demo: bool,
}

impl Page<'_> {
    /// The zone that times are shown in, by its name.
    pub fn zone_name(&self) -> String {
        zone_name(&self.zone, self.report.made)
    }

    /// Month, day, hour and minute, for narrow columns.
    fn short(&self, at: Timestamp) -> String {
        local(at, &self.zone, "%m-%d %H:%M")
    }

    fn long(&self, at: Timestamp) -> String {
        local(at, &self.zone, "%Y-%m-%d %H:%M")
    }

    /// The ends of a period, with a word or a sign between them.
    fn between(&self, period: Period, word: &str) -> String {
        let [from, to] = [period.from(), period.to()].map(|at| self.short(at));
        format!("{from}{word}{to}")
    }

    /// Time of the last tick; of the report itself where there is none.
    fn last(&self) -> Timestamp {
        let now = self.report.now.as_ref();
        now.map_or(self.report.made, |now| now.at)
    }

    /// The ends of a period, with the year.
    fn ends(&self, period: Period) -> String {
        format!("{} – {}", self.long(period.from()), self.long(period.to()))
    }
}
