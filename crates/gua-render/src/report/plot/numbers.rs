//! The numbers of a chart as one table, with the keys and precision of the report's tables.

use gua_model::report::{Cross, HoldSums, Report};
use gua_model::{Micros, RollUp};

use crate::chart::StateHours;
use crate::report::figures::{self, Grid, GridCell, Whose};
use crate::report::{By, Page, table};
use crate::table::{Cell, Header, Table};

const STATES: [(&str, &str); 5] = [
    ("active_hours", "active h"),
    ("idle_held_hours", "idle-held h"),
    ("held_unknown_hours", "unknown h"),
    ("truly_idle_hours", "truly-idle h"),
    ("gap_hours", "gap h"),
];
const HELD: [(&str, &str); 2] = [("held_hours", "held h"), ("idle_held_hours", "idle-held h")];

fn headed(first: &[(&str, &str)], rest: &[(&str, &str)]) -> Table {
    let column = |(key, title): &(&str, &str)| Header::new(*key, *title);
    Table {
        columns: first.iter().chain(rest).map(column).collect(),
        rows: Vec::new(),
    }
}

fn states(hours: &StateHours) -> impl Iterator<Item = Cell> {
    let all = [
        hours.active,
        hours.idle_held,
        hours.held_unknown,
        hours.truly_idle,
        hours.gap,
    ];
    all.into_iter().map(Cell::Hours)
}

fn held(sums: &HoldSums) -> [Cell; 2] {
    [Cell::Hours(sums.hours()), Cell::Hours(sums.idle_hours())]
}

pub(super) fn slots(page: &Page<'_>) -> Table {
    let report = page.report;
    let first = [("from", "from"), ("to", "to")];
    let rest: &[_] = if report.person.is_some() {
        &HELD
    } else {
        &STATES
    };
    let mut table = headed(&first, rest);
    for slot in &report.slots {
        let mut row = vec![
            Cell::Text(slot.period.from().to_string()),
            Cell::Text(slot.period.to().to_string()),
        ];
        match report.person {
            Some(_) => row.extend(held(&slot.sums.held)),
            None => row.extend(states(&figures::slot_hours(report, slot))),
        }
        table.rows.push(row);
    }
    table
}

pub(super) fn week(page: &Page<'_>) -> Table {
    let key = match page.report.person {
        Some(_) => "held_share",
        None => "active_share",
    };
    let mut table = Table::new([("weekday", "weekday"), ("hour", "hour"), (key, key)]);
    let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    for (place, day) in days.into_iter().enumerate() {
        // The report's week begins on Sunday.
        let cells = &page.report.heat.cells[(place + 1) % 7];
        for (hour, cell) in (0u64..).zip(cells) {
            table.rows.push(vec![
                Cell::Text(day.to_owned()),
                Cell::Count(hour),
                Cell::share(cell.share()),
            ]);
        }
    }
    table
}

pub(super) fn day(page: &Page<'_>) -> Table {
    let report = page.report;
    let quietest = figures::quietest(report);
    let first = [("hour", "hour")];
    let last = [("quietest_place", "quietest")];
    let mut rest: Vec<(&str, &str)> = match report.person {
        Some(_) => HELD.to_vec(),
        None => STATES.to_vec(),
    };
    if report.person.is_none() {
        rest.push(("active_share", "active"));
    }
    rest.extend(last);
    let mut table = headed(&first, &rest);
    for (hour, column) in report.cross.iter().enumerate() {
        let mut row = vec![Cell::Count(hour as u64)];
        match report.person {
            Some(_) => row.extend(held(&column.sums.held)),
            None => {
                row.extend(states(&StateHours {
                    gap: column.gap.hours(),
                    ..figures::state_hours(&column.sums)
                }));
                row.push(Cell::share(column.sums.share(RollUp::Active)));
            }
        }
        let place = quietest.iter().position(|(quiet, _)| *quiet == hour);
        row.push(place.map_or(Cell::Missing, |place| Cell::Count(place as u64 + 1)));
        table.rows.push(row);
    }
    table
}

pub(super) fn people(report: &Report) -> Table {
    table(report, By::User)
}

pub(super) fn cards(report: &Report) -> Table {
    table(report, By::Gpu)
}

/// Returns one row for each cell: the person or GPU, the column of time, and the values.
pub(super) fn grid(page: &Page<'_>, grid: &Grid<'_>, cross: Cross) -> Table {
    let of_cards = grid.whose == Whose::Gpu && page.report.person.is_none();
    let who = match grid.whose {
        Whose::User => ("user", "user"),
        Whose::Gpu => ("gpu", "gpu"),
    };
    let when: &[(&str, &str)] = match cross {
        Cross::HourOfDay => &[("hour", "hour")],
        Cross::WeekHour => &[("weekday", "weekday"), ("hour", "hour")],
        Cross::Slot => &[("from", "from"), ("to", "to")],
    };
    let mut rest: Vec<(&str, &str)> = when.to_vec();
    match of_cards {
        true => {
            rest.extend(STATES);
            rest.push(("active_share", "active"));
        }
        false => rest.extend(HELD),
    }
    let mut table = headed(&[who], &rest);
    for (name, cells) in grid.rows.iter().zip(&grid.cells) {
        for (place, cell) in cells.iter().enumerate() {
            let mut row = vec![Cell::Text(name.clone())];
            row.extend(moment(page, cross, place));
            match cell {
                GridCell::Card(card) if of_cards => {
                    row.extend(states(&StateHours {
                        gap: card.gap.hours(),
                        ..figures::state_hours(&card.sums)
                    }));
                    row.push(Cell::share(card.sums.share(RollUp::Active)));
                }
                GridCell::Card(card) => row.extend(held(&card.sums.held)),
                GridCell::Person(Some(sums)) => row.extend(held(sums)),
                GridCell::Person(None) => row.extend([Cell::Missing, Cell::Missing]),
            }
            table.rows.push(row);
        }
    }
    table
}

fn moment(page: &Page<'_>, cross: Cross, place: usize) -> Vec<Cell> {
    const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    match cross {
        Cross::HourOfDay => vec![Cell::Count(place as u64)],
        Cross::WeekHour => vec![
            Cell::Text(DAYS[place / 24 % 7].to_owned()),
            Cell::Count((place % 24) as u64),
        ],
        Cross::Slot => {
            let period = page.report.slots[place].period;
            vec![
                Cell::Text(period.from().to_string()),
                Cell::Text(period.to().to_string()),
            ]
        }
    }
}

pub(super) fn sessions(page: &Page<'_>) -> Table {
    let columns = [
        ("gpu_uuid", "gpu"),
        ("gpu_index", "#"),
        ("user", "user"),
        ("process", "process"),
        ("pid", "pid"),
        ("from", "from"),
        ("to", "to"),
        ("hours", "hours"),
        ("active_hours", "active h"),
        ("idle_held_hours", "idle-held h"),
        ("unobserved_hours", "unobserved h"),
    ];
    let mut table = Table::new(columns);
    let hours = |time: Option<Micros>| time.map_or(Cell::Missing, |time| Cell::Hours(time.hours()));
    let text = |text: &Option<String>| text.clone().map_or(Cell::Missing, Cell::Text);
    for hold in &page.report.sessions {
        let whole = hold.period.micros();
        let unobserved = hold
            .observed
            .map(|seen| Micros(whole.0.saturating_sub(seen.0)));
        table.rows.push(vec![
            Cell::Text(hold.gpu.to_string()),
            hold.index
                .map_or(Cell::Missing, |index| Cell::Count(index.into())),
            text(&hold.owner),
            text(&hold.process),
            hold.pid
                .map_or(Cell::Missing, |pid| Cell::Count(pid.0.into())),
            Cell::Text(hold.period.from().to_string()),
            Cell::Text(hold.period.to().to_string()),
            hours(Some(whole)),
            hours(hold.active),
            hours(hold.idle_held),
            hours(unobserved),
        ]);
    }
    table
}
