//! The numbers of a chart as one table, with the keys and precision of the report's tables.

use gua_model::report::{Cross, Hold, Sums};
use gua_model::{Micros, OwnerTotal, Period, RollUp};

use crate::chart::StateHours;
use crate::document::{Hours, rows};
use crate::language::Language;
use crate::report::figures::{self, Grid, Whose};
use crate::report::{By, Page};
use crate::table::{Cell, Table, table};

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
    struct HeldAmounts from (sums: Option<&OwnerTotal>) {
        held_hours: Option<Hours> as "held h" = sums.map(|sums| Hours(sums.hours())),
        idle_held_hours: Option<Hours> as "idle-held h" = sums.map(|sums| Hours(sums.idle_hours())),
    }
}

/// Time of GPUs by state, or the time that a person held them.
fn amounts<'a>(of_gpus: bool, rows: impl Iterator<Item = (&'a Sums, Micros)>) -> Table {
    match of_gpus {
        true => {
            let rows = rows.map(|(sums, gap)| StateAmounts::new(&figures::hours(sums, gap)));
            Table::of(StateAmounts::COLUMNS, rows)
        }
        false => held(rows.map(|(sums, _)| Some(&sums.held))),
    }
}

fn held<'a>(sums: impl Iterator<Item = Option<&'a OwnerTotal>>) -> Table {
    Table::of(HeldAmounts::COLUMNS, sums.map(HeldAmounts::new))
}

/// The active share of GPUs.
fn active<'a>(sums: impl Iterator<Item = &'a Sums>) -> Table {
    table!(sums in sums =>
        "active_share" as "active" => Cell::share(sums.share(RollUp::Active)),
    )
}

fn ends(periods: impl Iterator<Item = Period>) -> Table {
    table!(period in periods => "from" => period.from(), "to" => period.to(),)
}

pub(super) fn slots(page: &Page<'_>) -> Table {
    let slots = || page.report.slots.iter();
    let of_gpus = page.report.person.is_none();
    ends(slots().map(|slot| slot.period))
        .beside(amounts(of_gpus, slots().map(|slot| (&slot.sums, slot.gap))))
}

pub(super) fn week(page: &Page<'_>) -> Table {
    let key = match page.report.person {
        Some(_) => "held_share",
        None => "active_share",
    };
    // The report's week begins on Sunday.
    let cells = (1..8).flat_map(|day| &page.report.heat.cells[day % 7]);
    let shares = table!(cell in cells => key => Cell::share(cell.share()),);
    week_hours(0..7 * 24).beside(shares)
}

/// Weekdays and hours of the hours of the week.
fn week_hours(places: impl Iterator<Item = usize>) -> Table {
    let days = Language::English.weekdays();
    table!(place in places => "weekday" => days[place / 24 % 7], "hour" => place % 24,)
}

pub(super) fn day(page: &Page<'_>) -> Table {
    let report = page.report;
    let quietest = figures::quietest(report);
    let of_gpus = report.person.is_none();
    let hours = || report.cross.iter();
    let place = |hour| quietest.iter().position(|(quiet, _)| *quiet == hour);
    let places = table!(hour in 0..hours().len() =>
        "quietest_place" as "quietest" => place(hour).map(|place| place + 1),
    );
    let mut table = table!(hour in 0..hours().len() => "hour" => hour,)
        .beside(amounts(of_gpus, hours().map(|hour| (&hour.sums, hour.gap))));
    if of_gpus {
        table = table.beside(active(hours().map(|hour| &hour.sums)));
    }
    table.beside(places)
}

/// Returns one row for each cell: the person or GPU, the column of time, and the values.
pub(super) fn grid(page: &Page<'_>, grid: &Grid, cross: Cross) -> Table {
    let who = match grid.whose {
        Whose::User => page.by.map_or("user", By::as_str),
        Whose::Gpu => "gpu",
    };
    let rows = grid.heat_map.rows.iter().zip(&grid.cells);
    let names = rows.flat_map(|(name, row)| row.iter().map(move |_| name.as_str()));
    let places = grid.cells.iter().flat_map(|row| 0..row.len());
    let moments = match cross {
        Cross::HourOfDay => table!(place in places => "hour" => place,),
        Cross::WeekHour => week_hours(places),
        Cross::Slot => ends(places.map(|place| page.report.slots[place].period)),
    };
    let moments = table!(name in names => who => name,).beside(moments);
    let cells = || grid.cells.iter().flatten();
    let gpus = || cells().flatten();
    match grid.whose == Whose::Gpu && page.report.person.is_none() {
        true => moments
            .beside(amounts(true, gpus().map(|gpu| (&gpu.sums, gpu.gap))))
            .beside(active(gpus().map(|gpu| &gpu.sums))),
        false => {
            let sums = cells().map(|cell| cell.as_ref().map(|cell| &cell.sums.held));
            moments.beside(held(sums))
        }
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
