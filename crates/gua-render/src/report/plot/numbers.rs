//! The numbers of a chart as one table, with the keys and precision of the report's tables.

use gua_model::report::{Cross, Hold, Sums};
use gua_model::{Micros, OwnerTotal, Period, RollUp};

use crate::chart::StateHours;
use crate::document::{Hours, cells, rows};
use crate::language::Language;
use crate::report::figures::{self, Grid, GridCell, Whose};
use crate::report::{By, Page};
use crate::table::{Cell, Column, Header, Table, table};

rows! {
    /// Time by state.
    struct StateAmounts from (hours: &StateHours) {
        active_hours: Hours as "active h" = Hours(hours.active),
        idle_held_hours: Hours as "idle-held h" = Hours(hours.idle_held),
        held_unknown_hours: Hours as "unknown h" = Hours(hours.held_unknown),
        truly_idle_hours: Hours as "truly-idle h" = Hours(hours.truly_idle),
        gap_hours: Hours as "gap h" = Hours(hours.gap),
    }

    /// Time that a person held GPUs.
    struct HeldAmounts from (sums: &OwnerTotal) {
        held_hours: Hours as "held h" = Hours(sums.hours()),
        idle_held_hours: Hours as "idle-held h" = Hours(sums.idle_hours()),
    }
}

/// Returns an empty table with these columns, followed by the columns of the states of GPUs or of a person.
fn headed<'k>(first: impl IntoIterator<Item = &'k str>, of_gpus: bool) -> Table {
    let first = first.into_iter().map(|key| Header::new(key, key));
    let rest: Vec<Header> = match of_gpus {
        true => StateAmounts::COLUMNS.iter().map(Column::header).collect(),
        false => HeldAmounts::COLUMNS.iter().map(Column::header).collect(),
    };
    Table {
        columns: first.chain(rest).collect(),
        rows: Vec::new(),
    }
}

/// Returns the cells of the states of GPUs, or of a person.
fn amounts(of_gpus: bool, sums: &Sums, gap: Micros) -> Vec<Cell> {
    match of_gpus {
        true => {
            let amounts = StateAmounts::new(&figures::hours(sums, gap));
            cells(StateAmounts::COLUMNS, Some(&amounts))
        }
        false => held(Some(&sums.held)),
    }
}

fn held(sums: Option<&OwnerTotal>) -> Vec<Cell> {
    cells(HeldAmounts::COLUMNS, sums.map(HeldAmounts::new).as_ref())
}

pub(super) fn slots(page: &Page<'_>) -> Table {
    let of_gpus = page.report.person.is_none();
    let mut table = headed(["from", "to"], of_gpus);
    for slot in &page.report.slots {
        let mut row = ends(slot.period);
        row.extend(amounts(of_gpus, &slot.sums, slot.gap));
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
    let of_gpus = report.person.is_none();
    let mut table = headed(["hour"], of_gpus);
    let share = of_gpus.then(|| Header::new("active_share", "active"));
    let quiet = Header::new("quietest_place", "quietest");
    table.columns.extend(share.into_iter().chain([quiet]));
    for (hour, column) in report.cross.iter().enumerate() {
        let mut row = vec![Cell::from(hour)];
        row.extend(amounts(of_gpus, &column.sums, column.gap));
        row.extend(of_gpus.then(|| Cell::share(column.sums.share(RollUp::Active))));
        let place = quietest.iter().position(|(quiet, _)| *quiet == hour);
        row.push(place.map(|place| place + 1).into());
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
    let mut table = headed(std::iter::once(who).chain(when.iter().copied()), of_gpus);
    let share = of_gpus.then(|| Header::new("active_share", "active"));
    table.columns.extend(share);
    for (name, row) in grid.heat_map.rows.iter().zip(&grid.cells) {
        for (place, cell) in row.iter().enumerate() {
            let mut row = vec![name.as_str().into()];
            row.extend(moment(page, cross, place));
            match cell {
                GridCell::Gpu(gpu) => {
                    row.extend(amounts(of_gpus, &gpu.sums, gpu.gap));
                    row.extend(of_gpus.then(|| Cell::share(gpu.sums.share(RollUp::Active))));
                }
                GridCell::Person(sums) => row.extend(held(sums.as_ref())),
            }
            table.rows.push(row);
        }
    }
    table
}

fn moment(page: &Page<'_>, cross: Cross, place: usize) -> Vec<Cell> {
    match cross {
        Cross::HourOfDay => vec![place.into()],
        Cross::WeekHour => {
            let day = Language::English.weekdays()[place / 24 % 7];
            vec![day.into(), (place % 24).into()]
        }
        Cross::Slot => ends(page.report.slots[place].period),
    }
}

pub(super) fn sessions(page: &Page<'_>) -> Table {
    let unobserved = |hold: &Hold| {
        let whole = hold.period.micros().0;
        let observed = hold.observed?.0;
        Some(Micros(whole.saturating_sub(observed)))
    };
    table!(hold in &page.report.sessions =>
        "gpu_uuid" as "gpu" => hold.gpu.to_string(),
        "gpu_index" as "#" => hold.index,
        "user" => hold.owner.clone(),
        "process" => hold.process.clone(),
        "pid" => hold.pid.map(|pid| pid.0),
        "sessions" => hold.sessions,
        "from" => hold.period.from(),
        "to" => hold.period.to(),
        "hours" => Hours::from(hold.period.micros()),
        "active_hours" as "active h" => Cell::time(hold.active),
        "idle_held_hours" as "idle-held h" => Cell::time(hold.idle_held),
        "unobserved_hours" as "unobserved h" => Cell::time(unobserved(hold)),
    )
}
