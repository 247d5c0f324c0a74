//! One chart of a report: as SVG, as text for a terminal, and as a table of its numbers. The caller selects the chart;
//! its numbers are the ones that every report prints.

mod numbers;
pub(super) mod terminal;

use gua_model::report::Cross;
use jiff::Timestamp;

use super::figures;
pub use super::figures::Whose;
use super::{By, Page, labels, table};
use crate::chart::{Frame, Language, Theme};
use crate::document::{Rows, Window, documents, pretty};
use crate::table::Table;

/// Format name of [`Plot::json`]. A breaking change gets the next number.
pub const SCHEMA: &str = "gua.plot.v1";

/// Type of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Time of all GPUs by state, slot by slot.
    States,
    /// Weekdays by hours; or GPUs or people by columns of time.
    Heat(Option<(Whose, Cross)>),
    /// GPU-hours with their idle-held share.
    Hours(Whose),
    /// Sessions over time.
    Sessions(Whose),
    /// Hours of the day with the quietest marked, in total or for each GPU or person.
    Quiet(Option<Whose>),
}

impl Kind {
    /// Returns the cross that the report needs for this chart.
    pub fn cross(self) -> Option<Cross> {
        match self {
            Kind::Heat(crossed) => crossed.map(|(_, cross)| cross),
            Kind::Quiet(_) => Some(Cross::HourOfDay),
            Kind::States | Kind::Hours(_) | Kind::Sessions(_) => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Kind::States => "states",
            Kind::Heat(_) => "heat",
            Kind::Hours(_) => "hours",
            Kind::Sessions(_) => "sessions",
            Kind::Quiet(_) => "quiet",
        }
    }
}

/// A chart that is ready to be drawn.
#[derive(Debug)]
pub struct Plot {
    subtitle: String,
    language: Language,
    chart: Box<dyn Figure>,
    document: PlotDocument,
}

/// A chart that can be drawn as a picture and as text.
trait Figure: std::fmt::Debug {
    /// Draws the chart as an SVG document.
    fn picture(&self, frame: &Frame) -> String;
    /// Draws the chart as text for a terminal of this width.
    fn draw_text(&self, out: &mut String, columns: usize, language: Language);
}

/// Appearance of a picture.
#[derive(Clone, Copy, Debug)]
pub struct Appearance {
    pub theme: Theme,
    /// In pixels.
    pub width: u32,
}

impl Plot {
    /// Creates a chart of a report, whose cross must be the one that [`Kind::cross`] returns.
    pub fn new(page: &Page<'_>, kind: Kind) -> Self {
        let mut note = None;
        let (chart, numbers): (Box<dyn Figure>, Table) = match kind {
            Kind::States => (Box::new(figures::over_time(page)), numbers::slots(page)),
            Kind::Heat(None) => (Box::new(figures::week(page)), numbers::week(page)),
            Kind::Heat(Some((whose, cross))) => of_grid(page, whose, cross),
            Kind::Quiet(Some(whose)) => of_grid(page, whose, Cross::HourOfDay),
            Kind::Quiet(None) => (Box::new(figures::day(page.report)), numbers::day(page)),
            Kind::Hours(Whose::User) => (
                Box::new(figures::people(page)),
                table(page.report, page.by.unwrap_or(By::User)),
            ),
            Kind::Hours(Whose::Gpu) => (Box::new(figures::gpus(page)), table(page.report, By::Gpu)),
            Kind::Sessions(whose) => {
                let (chart, left_out) = figures::sessions(page, whose);
                note = left_out;
                (Box::new(chart), numbers::sessions(page))
            }
        };
        Self {
            subtitle: subtitle(page, note),
            language: page.language,
            chart,
            document: PlotDocument::new(page, kind, numbers),
        }
    }

    /// Replaces the title, if one is given.
    #[must_use]
    pub fn titled(mut self, title: Option<String>) -> Self {
        self.document.title = title.unwrap_or(self.document.title);
        self
    }

    /// The picture as an SVG document.
    pub fn svg(&self, look: Appearance) -> String {
        let frame = Frame {
            id: self.document.kind.to_owned(),
            title: self.document.title.clone(),
            subtitle: Some(self.subtitle.clone()),
            theme: look.theme,
            language: self.language,
            width: look.width,
        };
        self.chart.picture(&frame)
    }

    /// Draws the chart as text for a terminal of this width. It contains colour codes, which the caller may strip.
    pub fn text(&self, columns: usize) -> String {
        let mut text = format!("{}\n{}\n\n", self.document.title, self.subtitle);
        let columns = columns.max(terminal::MIN_COLUMNS);
        self.chart.draw_text(&mut text, columns, self.language);
        text
    }

    /// The numbers that the picture draws.
    pub fn numbers(&self) -> &Table {
        &self.document.rows.0
    }

    /// The numbers with their context, as JSON.
    pub fn json(&self) -> String {
        pretty(&self.document)
    }
}

fn of_grid(page: &Page<'_>, whose: Whose, cross: Cross) -> (Box<dyn Figure>, Table) {
    let grid = figures::grid(page, whose, cross);
    let numbers = numbers::grid(page, &grid, cross);
    (Box::new(grid.heat_map), numbers)
}

fn title(page: &Page<'_>, kind: Kind) -> String {
    let of_person = page.report.person.is_some();
    // Groups, projects, jobs, pods and containers take the place of people.
    let groups = page.by.filter(|by| By::GROUPS.contains(by));
    let label = match kind {
        Kind::States => labels::over_time(page.report),
        Kind::Heat(None) => labels::heat(page.report),
        Kind::Heat(Some((Whose::Gpu, _))) if of_person => labels::PERSON_HEAT,
        Kind::Heat(Some((Whose::Gpu, _))) => labels::HEAT_GPU,
        Kind::Heat(Some((Whose::User, _))) | Kind::Hours(Whose::User) if groups.is_some() => {
            labels::GROUP_CHART
        }
        Kind::Heat(Some((Whose::User, _))) => labels::HEAT_USER,
        Kind::Hours(Whose::User) => labels::PEOPLE_CHART,
        Kind::Hours(Whose::Gpu) => labels::GPU_CHART,
        Kind::Sessions(_) => labels::SESSIONS,
        Kind::Quiet(_) => labels::QUIET,
    };
    let title = label.of(page.language);
    match groups {
        Some(by) => format!("{title} · {}", labels::by(by).of(page.language)),
        None => title.to_owned(),
    }
}

/// Formats the host, the window, the time zone and the filters.
fn subtitle(page: &Page<'_>, note: Option<String>) -> String {
    let report = page.report;
    let mut parts = Vec::new();
    parts.extend(report.host.as_ref().map(|host| host.name.clone()));
    parts.push(page.ends(page.report.window));
    parts.push(page.zone_name());
    parts.extend(report.person.clone());
    parts.extend(note);
    gua_model::text::sanitize(&parts.join(" · "))
}

documents! {
    /// Content of the file that `gua plot -o NAME.json` writes. Keys may be added under the same version; none changes its
    /// meaning.
    pub struct PlotDocument from (page: &Page<'_>, chart: Kind, numbers: Table) {
        schema: &'static str = SCHEMA,
        kind: &'static str = chart.as_str(),
        title: String = title(page, chart),
        gua_version: String = page.version.to_owned(),
        made_at: Timestamp = page.report.made,
        time_zone: String = page.zone_name(),
        host: Option<String> = page.report.host.as_ref().map(|host| host.name.clone()),
        user: Option<String> = page.report.person.clone(),
        window: Window = page.report.window.into(),
        /// `hour`, `day`, `week` or `month`.
        slot: &'static str = page.report.unit.as_str(),
        rows: Rows = Rows(numbers),
    }
}

#[cfg(test)]
mod tests;
