//! The numbers of a chart as one table, with the keys and precision of the report's tables.

use gua_model::report::{Cross, Hold, Report, Sums};
use gua_model::{Micros, OwnerTotal, Period, RollUp};

use crate::chart::StateHours;
use crate::document::cells;
use crate::language::Language;
use crate::report::figures::{self, Grid, GridCell, Whose};
use crate::report::{By, Page};
use crate::table::{Cell, Column, Header, Table};

/// The columns of the time by state.
const STATES: [Column<StateHours>; 5] = [
    Column::new("active_hours", "active h", |hours| {
        Cell::Hours(hours.active)
    }),
    Column::new("idle_held_hours", "idle-held h", |hours| {
        Cell::Hours(hours.idle_held)
    }),
    Column::new("held_unknown_hours", "unknown h", |hours| {
        Cell::Hours(hours.held_unknown)
    }),
    Column::new("truly_idle_hours", "truly-idle h", |hours| {
        Cell::Hours(hours.truly_idle)
    }),
    Column::new("gap_hours", "gap h", |hours| Cell::Hours(hours.gap)),
];
/// The columns of the time that a person held GPUs.
const HELD: [Column<OwnerTotal>; 2] = [
    Column::new("held_hours", "held h", |sums| Cell::Hours(sums.hours())),
    Column::new("idle_held_hours", "idle-held h", |sums| {
        Cell::Hours(sums.idle_hours())
    }),
];

/// A table that begins with these columns, and has those of the states or of a person behind them.
fn headed(first: &[&str], report: &Report) -> Table {
    let first = first.iter().map(|key| Header::new(*key, *key));
    let rest: Vec<Header> = match report.person {
        Some(_) => HELD.iter().map(Column::header).collect(),
        None => STATES.iter().map(Column::header).collect(),
    };
    Table {
        columns: first.chain(rest).collect(),
        rows: Vec::new(),
    }
}

/// The cells of the states or of a person.
fn amounts(report: &Report, sums: &Sums, gap: Micros) -> Vec<Cell> {
    match report.person {
        Some(_) => cells(&HELD, Some(&sums.held)),
        None => cells(&STATES, Some(&figures::hours(sums, gap))),
    }
}

pub(super) fn slots(page: &Page<'_>) -> Table {
    let report = page.report;
    let mut table = headed(&["from", "to"], report);
    for slot in &report.slots {
        let mut row = ends(slot.period);
        row.extend(amounts(report, &slot.sums, slot.gap));
        table.rows.push(row);
    }
    table
}

fn ends(period: Period) -> Vec<Cell> {
    vec![period.from().into(), period.to().into()]
}

pub(super) fn week(page: &Page<'_>) -> Table {
    let key = match page.report.person {
        Some(_) => "held_share",
        None => "active_share",
    };
    let mut table = Table::new([("weekday", "weekday"), ("hour", "hour"), (key, key)]);
    let days = Language::English.weekdays();
    for (place, day) in days.into_iter().enumerate() {
        // The report's week begins on Sunday.
        let cells = &page.report.heat.cells[(place + 1) % 7];
        for (hour, cell) in (0u64..).zip(cells) {
            let share = Cell::share(cell.share());
            table.rows.push(vec![day.into(), Cell::Count(hour), share]);
        }
    }
    table
}

pub(super) fn day(page: &Page<'_>) -> Table {
    let report = page.report;
    let quietest = figures::quietest(report);
    let mut table = headed(&["hour"], report);
    let of_all = report.person.is_none();
    let share = of_all.then(|| Header::new("active_share", "active"));
    table.columns.extend(share);
    table
        .columns
        .push(Header::new("quietest_place", "quietest"));
    for (hour, column) in report.cross.iter().enumerate() {
        let mut row = vec![Cell::Count(hour as u64)];
        row.extend(amounts(report, &column.sums, column.gap));
        let share = of_all.then(|| Cell::share(column.sums.share(RollUp::Active)));
        row.extend(share);
        let place = quietest.iter().position(|(quiet, _)| *quiet == hour);
        row.push(place.map(|place| place as u64 + 1).into());
        table.rows.push(row);
    }
    table
}

/// Returns one row for each cell: the person or GPU, the column of time, and the values.
pub(super) fn grid(page: &Page<'_>, grid: &Grid<'_>, cross: Cross) -> Table {
    let of_gpus = grid.whose == Whose::Gpu && page.report.person.is_none();
    let who = match grid.whose {
        Whose::User => page.by.map_or("user", By::as_str),
        Whose::Gpu => "gpu",
    };
    let when: &[&str] = match cross {
        Cross::HourOfDay => &["hour"],
        Cross::WeekHour => &["weekday", "hour"],
        Cross::Slot => &["from", "to"],
    };
    let first = std::iter::once(&who).chain(when);
    let mut table = Table {
        columns: first.map(|key| Header::new(*key, *key)).collect(),
        rows: Vec::new(),
    };
    match of_gpus {
        true => {
            table.columns.extend(STATES.iter().map(Column::header));
            table.columns.push(Header::new("active_share", "active"));
        }
        false => table.columns.extend(HELD.iter().map(Column::header)),
    }
    for (name, row) in grid.rows.iter().zip(&grid.cells) {
        for (place, cell) in row.iter().enumerate() {
            let mut row = vec![name.as_str().into()];
            row.extend(moment(page, cross, place));
            match cell {
                GridCell::Gpu(gpu) if of_gpus => {
                    row.extend(cells(&STATES, Some(&figures::hours(&gpu.sums, gpu.gap))));
                    row.push(Cell::share(gpu.sums.share(RollUp::Active)));
                }
                GridCell::Gpu(gpu) => row.extend(cells(&HELD, Some(&gpu.sums.held))),
                GridCell::Person(sums) => row.extend(cells(&HELD, sums.as_ref())),
            }
            table.rows.push(row);
        }
    }
    table
}

fn moment(page: &Page<'_>, cross: Cross, place: usize) -> Vec<Cell> {
    let hour = |hour: usize| Cell::Count(hour as u64);
    match cross {
        Cross::HourOfDay => vec![hour(place)],
        Cross::WeekHour => {
            let day = Language::English.weekdays()[place / 24 % 7];
            vec![day.into(), hour(place % 24)]
        }
        Cross::Slot => ends(page.report.slots[place].period),
    }
}

const SESSION: [Column<Hold>; 12] = [
    Column::new("gpu_uuid", "gpu", |hold| hold.gpu.to_string().into()),
    Column::new("gpu_index", "#", |hold| hold.index.into()),
    Column::key("user", |hold| hold.owner.clone().into()),
    Column::key("process", |hold| hold.process.clone().into()),
    Column::key("pid", |hold| hold.pid.map(|pid| pid.0).into()),
    Column::key("sessions", |hold| Cell::Count(hold.sessions)),
    Column::key("from", |hold| hold.period.from().into()),
    Column::key("to", |hold| hold.period.to().into()),
    Column::key("hours", |hold| Cell::time(Some(hold.period.micros()))),
    Column::new("active_hours", "active h", |hold| Cell::time(hold.active)),
    Column::new("idle_held_hours", "idle-held h", |hold| {
        Cell::time(hold.idle_held)
    }),
    Column::new("unobserved_hours", "unobserved h", |hold| {
        let whole = hold.period.micros().0;
        Cell::time(
            hold.observed
                .map(|seen| Micros(whole.saturating_sub(seen.0))),
        )
    }),
];

pub(super) fn sessions(page: &Page<'_>) -> Table {
    Table::of(&SESSION, &page.report.sessions)
}
