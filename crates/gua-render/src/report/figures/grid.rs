//! GPUs or people by columns of time: one heat map and its numbers.

use gua_model::OwnerTotal;
use gua_model::report::{Cross, CrossRow, GpuCross, Report};
use gua_model::{CalendarUnit, Micros, RollUp};

use super::{Whose, gpu_label};
use crate::chart::{HeatMap, HeatUnit, Language, words};
use crate::report::{Page, labels};

/// Rows of GPUs or people, columns of time.
#[derive(Clone, Debug)]
pub(in crate::report) struct Grid<'a> {
    pub(in crate::report) whose: Whose,
    pub(in crate::report) rows: Vec<String>,
    pub(in crate::report) columns: Vec<String>,
    /// By row, then by column.
    pub(in crate::report) cells: Vec<Vec<GridCell<'a>>>,
    column_title: &'static str,
    value_title: &'static str,
    /// Number of rows with one GPU or person each; a combined row for the rest may follow.
    scaled_rows: usize,
    /// Whether cells are held hours instead of a GPU's active share.
    is_hours: bool,
}

/// One row in one column of time.
#[derive(Clone, Debug)]
pub(in crate::report) enum GridCell<'a> {
    Gpu(&'a GpuCross),
    /// `None` if nothing was observed.
    Person(Option<OwnerTotal>),
}

impl GridCell<'_> {
    /// Returns the value that the heat map shows.
    pub(in crate::report) fn value(&self, is_hours: bool) -> Option<f64> {
        match self {
            GridCell::Gpu(gpu) if is_hours => Some(gpu.sums.held.hours()),
            GridCell::Gpu(gpu) => gpu.sums.share(RollUp::Active),
            GridCell::Person(sums) => sums.map(|sums| sums.hours()),
        }
    }
}

/// Returns the grid of a report. `cross` must be the cross of the report.
pub(in crate::report) fn grid<'a>(page: &Page<'a>, whose: Whose, cross: Cross) -> Grid<'a> {
    let report = page.report;
    let columns = column_names(report, cross, page.language);
    let column_title = match cross {
        Cross::HourOfDay => words::HOUR_OF_DAY.of(page.language),
        Cross::WeekHour => words::HOUR_OF_WEEK.of(page.language),
        Cross::Slot => labels::per(report.unit, page.language),
    };
    let (rows, cells) = match whose {
        Whose::Gpu => gpus(report),
        Whose::User => people(page),
    };
    let is_hours = whose == Whose::User || report.person.is_some();
    let value_title = match is_hours {
        true => labels::HELD_HOURS,
        false => labels::SHARE_ACTIVE,
    };
    let scaled_rows = match whose {
        Whose::Gpu => rows.len(),
        Whose::User => named_people(page),
    };
    Grid {
        whose,
        scaled_rows,
        rows,
        columns,
        cells,
        column_title,
        value_title: value_title.of(page.language),
        is_hours,
    }
}

impl Grid<'_> {
    pub(in crate::report) fn heat_map(&self) -> HeatMap {
        let value = |cell: &GridCell<'_>| cell.value(self.is_hours);
        HeatMap {
            rows: self.rows.clone(),
            columns: self.columns.clone(),
            cells: self
                .cells
                .iter()
                .map(|row| row.iter().map(value).collect())
                .collect(),
            unit: if self.is_hours {
                HeatUnit::GpuHours
            } else {
                HeatUnit::Share
            },
            value_title: self.value_title.to_owned(),
            column_title: self.column_title.to_owned(),
            scaled_rows: self.scaled_rows,
        }
    }
}

fn gpus(report: &Report) -> (Vec<String>, Vec<Vec<GridCell<'_>>>) {
    // Sort by index.
    let mut order: Vec<usize> = (0..report.cards.len()).collect();
    order.sort_by_key(|place| {
        let gpu = &report.cards[*place];
        (gpu.index.is_none(), gpu.index, &gpu.gpu)
    });
    let row = |place: usize| {
        let columns = report.cross.iter();
        columns
            .map(|column| GridCell::Gpu(&column.cards[place]))
            .collect()
    };
    (
        order
            .iter()
            .map(|place| gpu_label(&report.cards[*place]))
            .collect(),
        order.into_iter().map(row).collect(),
    )
}

/// Returns the number of people with their own row. A row for the rest takes as much space as the one person it would
/// replace.
fn named_people(page: &Page<'_>) -> usize {
    let all = page.report.people.len();
    if all <= page.top + 1 { all } else { page.top }
}

/// Returns the people with the most held hours, and the rest in one row.
fn people<'a>(page: &Page<'a>) -> (Vec<String>, Vec<Vec<GridCell<'a>>>) {
    let report = page.report;
    let all = report.people.len();
    let named = named_people(page);
    let cell = |column: &CrossRow, places: std::ops::Range<usize>| {
        let mut sums = OwnerTotal::default();
        let theirs = column.people.get(places).unwrap_or_default();
        theirs.iter().for_each(|person| sums.merge(person));
        let seen = column.sums.observed() > Micros(0) || column.sums.samples() > 0;
        GridCell::Person((seen || sums.samples() > 0).then_some(sums))
    };
    let row = |places: std::ops::Range<usize>| -> Vec<GridCell<'a>> {
        let cell = |column: &CrossRow| cell(column, places.clone());
        report.cross.iter().map(cell).collect()
    };
    let mut names: Vec<String> = report
        .people
        .iter()
        .take(named)
        .map(|it| it.name.clone())
        .collect();
    let mut cells: Vec<_> = (0..named).map(|place| row(place..place + 1)).collect();
    if named < all {
        names.push(words::others(all - named, page.language));
        cells.push(row(named..all));
    }
    (names, cells)
}

fn column_names(report: &Report, cross: Cross, language: Language) -> Vec<String> {
    let form = match report.unit {
        CalendarUnit::Hour => "%m-%d %H:%M",
        CalendarUnit::Day | CalendarUnit::Week => "%m-%d",
        CalendarUnit::Month => "%Y-%m",
    };
    match cross {
        Cross::HourOfDay => (0..24).map(|hour| format!("{hour:02}")).collect(),
        Cross::WeekHour => language
            .weekdays()
            .iter()
            .flat_map(|day| (0..24).map(move |hour| format!("{day} {hour:02}")))
            .collect(),
        Cross::Slot => report
            .slots
            .iter()
            .map(|slot| slot.label.strftime(form).to_string())
            .collect(),
    }
}
