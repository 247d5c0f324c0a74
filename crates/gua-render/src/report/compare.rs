//! The comparison of a report with the previous period (`--compare`): a table of the main numbers, and columns that are added
//! to the tables of `--by`.

use gua_model::report::{PersonRow, Report};
use gua_model::{Micros, Period, RollUp};

use super::by::{By, table as by_table};
use super::{Page, cost, labels};
use crate::language::Language;
use crate::table::{Cell, Header, Table};

/// Number of rows before the people in [`table`].
pub(super) const MEASURES: usize = 5;
/// Part of the coverage of one period below which the other one was observed much less.
const MUCH_LESS: f64 = 0.9;

/// The main numbers of both periods, then the people with the most hours in either of them.
pub(super) fn table(page: &Page<'_>, previous: &Report) -> Table {
    let now = page.report;
    let mut table = Table::new([
        ("measure", "measure"),
        ("previous", "before"),
        ("now", "now"),
        ("change", "change"),
    ]);
    let mut put = |name: &str, before: Cell, now: Cell| {
        let change = difference(&before, &now);
        table.rows.push(vec![name.into(), before, now, change]);
    };
    let language = page.language;
    let hours = |report: &Report, hours: f64| match was_observed(report) {
        true => Cell::Hours(hours),
        false => Cell::Missing,
    };
    let held = |report: &Report| hours(report, report.all.held.hours());
    let energy = |report: &Report| Cell::energy(report.all.counted_energy());
    if now.person.is_some() {
        let idle = |report: &Report| Cell::share(report.all.held.idle_share());
        put(labels::HELD_HOURS.of(language), held(previous), held(now));
        put(
            labels::class(RollUp::IdleHeld, language),
            idle(previous),
            idle(now),
        );
        return table;
    }
    for class in RollUp::ALL {
        let share = |report: &Report| Cell::share(report.all.share(class));
        put(labels::class(class, language), share(previous), share(now));
    }
    put(labels::HELD_HOURS.of(language), held(previous), held(now));
    put("kWh", energy(previous), energy(now));
    let mut people = people(previous, now);
    people.truncate(page.top);
    for (name, before, its_now) in people {
        put(&name, hours(previous, before), hours(now, its_now));
    }
    table
}

/// Whether a report has any data. Without, its hours are unknown instead of zero.
pub(super) fn was_observed(report: &Report) -> bool {
    report.all.was_seen() || report.all.samples() > 0 || report.coverage.observed > Micros(0)
}

/// Says how far both periods can be compared; `None` if they were observed about equally well.
pub(super) fn caveat(now: &Report, previous: &Report, language: Language) -> Option<String> {
    if !was_observed(previous) {
        return Some(labels::NOTHING_BEFORE.of(language).to_owned());
    }
    if !was_observed(now) {
        return Some(labels::NOTHING_NOW.of(language).to_owned());
    }
    // Of the whole window up to now: the capacity does not include the time before the history began.
    let share = |report: &Report| {
        let window = report.window;
        let window = Period::new(window.from(), window.to().min(report.made));
        let window = window.micros().hours();
        let observed = report.coverage.host_observed.hours();
        (window > 0.0 && observed > 0.0).then(|| (observed / window).min(1.0))
    };
    let (before, now) = (share(previous)?, share(now)?);
    (before.min(now) < MUCH_LESS * before.max(now))
        .then(|| labels::observed_unequally(before * 100.0, now * 100.0, language))
}

/// Held hours of each person in both periods, the largest first.
fn people(previous: &Report, now: &Report) -> Vec<(String, f64, f64)> {
    let hours = |people: &[PersonRow], name: &str| {
        let person = people.iter().find(|person| person.name == name);
        person.map_or(0.0, |person| person.sums.hours())
    };
    let names = now.people.iter().chain(&previous.people);
    let mut rows: Vec<(String, f64, f64)> = Vec::new();
    for PersonRow { name, .. } in names {
        if rows.iter().all(|(known, ..)| known != name) {
            let (before, now) = (hours(&previous.people, name), hours(&now.people, name));
            rows.push((name.clone(), before, now));
        }
    }
    rows.sort_by(|one, other| other.1.max(other.2).total_cmp(&one.1.max(one.2)));
    rows
}

fn difference(before: &Cell, now: &Cell) -> Cell {
    let change = match (before, now) {
        (Cell::Hours(before), Cell::Hours(now)) => Cell::Hours(now - before),
        (Cell::Share(before), Cell::Share(now)) => Cell::Share(now - before),
        (Cell::Kilowatthours(before), Cell::Kilowatthours(now)) => {
            Cell::Kilowatthours(now - before)
        }
        _ => return Cell::Missing,
    };
    Cell::Change(Box::new(change))
}

/// The table of `--by`, with the costs of each person and the values of the previous period.
pub fn page_table(page: &Page<'_>, by: By) -> Table {
    let mut table = by_table(page.report, by);
    if let (By::User, Some(costs)) = (by, page.costs) {
        cost::add_columns(&mut table, costs);
    }
    match page.previous {
        Some(previous) if by != By::Idle => {
            let mut before = by_table(previous, by);
            // Unobserved time is missing, not zero.
            before.rows.retain(|_| was_observed(previous));
            with_previous(table, &before, by)
        }
        _ => table,
    }
}

/// Adds the values of an earlier table. Rows are matched by name; rows of days, weeks and months by position.
fn with_previous(mut table: Table, previous: &Table, by: By) -> Table {
    let measures: Vec<usize> = (0..previous.columns.len())
        .filter(|place| is_measure(&previous.columns[*place].key))
        .collect();
    table.columns.extend(measures.iter().map(|place| {
        let column = &previous.columns[*place];
        Header::new(
            format!("previous_{}", column.key),
            format!("before: {}", column.title),
        )
    }));
    let width = table.columns.len();
    let mut matched = vec![false; previous.rows.len()];
    for (place, row) in table.rows.iter_mut().enumerate() {
        let same = match by.unit() {
            Some(_) => (place < previous.rows.len()).then_some(place),
            None => previous
                .rows
                .iter()
                .position(|old| old.first() == row.first()),
        };
        if let Some(same) = same {
            matched[same] = true;
            let old = &previous.rows[same];
            row.extend(measures.iter().map(|place| old[*place].clone()));
        }
        row.resize(width, Cell::Missing);
    }
    // People who appear only in the previous period get a row too.
    let gone = previous.rows.iter().zip(matched);
    for (old, _) in gone.filter(|(_, matched)| !matched && by.unit().is_none()) {
        let mut row = vec![Cell::Missing; width - measures.len()];
        if let (Some(name), Some(old)) = (row.first_mut(), old.first()) {
            name.clone_from(old);
        }
        row.extend(measures.iter().map(|place| old[*place].clone()));
        table.rows.push(row);
    }
    table
}

/// Whether a column has amounts. Columns of single GPUs or people do not count.
fn is_measure(key: &str) -> bool {
    let units = ["hours", "share", "kwh", "percent"];
    !key.contains(' ') && units.iter().any(|unit| key.ends_with(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_of(rows: &[(&str, f64)]) -> Table {
        let mut table = Table::new([("user", "user"), ("held_hours", "held h"), ("pid", "pid")]);
        for (name, hours) in rows {
            let row = vec![(*name).into(), Cell::Hours(*hours), Cell::Count(7)];
            table.rows.push(row);
        }
        table
    }

    #[test]
    fn rows_are_matched_by_name_and_those_who_are_gone_are_kept() {
        let now = table_of(&[("ada", 5.0), ("eve", 1.0)]);
        let before = table_of(&[("bob", 4.0), ("ada", 2.0)]);
        let joined = with_previous(now, &before, By::User);
        let keys: Vec<&str> = joined.columns.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(keys, ["user", "held_hours", "pid", "previous_held_hours"]);
        let shown: Vec<Vec<String>> = joined
            .rows
            .iter()
            .map(|row| row.iter().map(Cell::shown).collect())
            .collect();
        assert_eq!(
            shown,
            [
                ["ada", "5.00", "7", "2.00"],
                ["eve", "1.00", "7", "-"],
                ["bob", "-", "-", "4.00"],
            ]
        );
    }

    #[test]
    fn a_change_has_its_sign_and_the_change_of_a_share_is_in_points() {
        let check = |before: Cell, now: Cell, expected: &str| {
            assert_eq!(difference(&before, &now).shown(), expected);
        };
        check(Cell::Share(0.6), Cell::Share(0.4), "-20.0 points");
        check(Cell::Share(0.129), Cell::Share(0.259), "+13.0 points");
        check(Cell::Hours(1.0), Cell::Hours(1.92), "+0.92");
        check(Cell::Hours(1.001), Cell::Hours(1.0), "0.00");
        check(Cell::Kilowatthours(2.0), Cell::Kilowatthours(1.5), "-0.500");
        check(Cell::Missing, Cell::Hours(0.92), "-");
    }

    #[test]
    fn days_are_matched_by_their_place() {
        let now = table_of(&[("2026-11-02", 5.0), ("2026-11-03", 1.0)]);
        let before = table_of(&[("2026-10-31", 4.0)]);
        let joined = with_previous(now, &before, By::Day);
        let last: Vec<String> = joined.rows.iter().map(|row| row[3].shown()).collect();
        assert_eq!(last, ["4.00", "-"]);
    }
}
