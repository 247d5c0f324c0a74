//! Charts of a report before they are drawn. The HTML page and `gua plot` draw the same ones.

use gua_model::report::{
    Cross, CrossRow, GpuCross, Hold, PersonRow, Report, ReportedGpu, SlotRow, Sums,
};
use gua_model::{CalendarUnit, Micros, OwnerTotal, RollUp};

use super::{Page, labels};
use crate::chart::states::PLOT;
use crate::chart::{
    DayHours, HeatMap, HeatUnit, HoursBars, HoursRow, Language, StateHours, StateSlot,
    StatesOverTime, words,
};

mod sessions;

pub(super) use self::sessions::sessions;

/// Number of hours that are marked as quiet.
pub(super) const QUIET: usize = 5;

/// Subject of a chart's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    User,
    Gpu,
}

/// Time by state: of the GPUs, or of the one person that the report covers.
fn hours_of(report: &Report, sums: &Sums, gap: Micros) -> StateHours {
    match report.person {
        Some(_) => held_hours(&sums.held),
        None => hours(sums, gap),
    }
}

/// Time of GPUs by state, with the unobserved time.
pub(super) fn hours(sums: &Sums, gap: Micros) -> StateHours {
    StateHours {
        active: sums.hours(RollUp::Active),
        idle_held: sums.hours(RollUp::IdleHeld),
        held_unknown: sums.unknown_hours(),
        truly_idle: sums.hours(RollUp::TrulyIdle),
        gap: gap.hours(),
    }
}

/// States over time.
pub(super) fn over_time(page: &Page<'_>) -> StatesOverTime {
    slots_over_time(page, &page.report.slots, None)
}

/// States over time in the finest buckets of the report: minutes where the window is short.
pub(super) fn over_minutes(page: &Page<'_>) -> Option<StatesOverTime> {
    let rows = &page.report.minutes;
    let longest = rows.iter().map(|row| row.period.micros()).max()?;
    let minutes = i64::try_from(longest.0 / (60 * Micros::PER_SECOND)).ok();
    Some(slots_over_time(page, rows, minutes))
}

fn slots_over_time(page: &Page<'_>, rows: &[SlotRow], minutes: Option<i64>) -> StatesOverTime {
    let slot = |row: &SlotRow| StateSlot {
        period: row.period,
        hours: hours_of(page.report, &row.sums, row.gap),
    };
    StatesOverTime {
        slots: rows.iter().map(slot).collect(),
        unobserved: Vec::new(),
        per: page.report.unit,
        minutes,
        height: PLOT,
        zone: page.zone.clone(),
    }
}

/// GPU-hours by person, with the idle-held share.
pub(super) fn people(page: &Page<'_>) -> HoursBars {
    let row = |person: &PersonRow| HoursRow {
        name: person.name.clone(),
        hours: held_hours(&person.sums),
    };
    bars(page, page.report.people.iter().map(row).collect())
}

/// GPU-hours by GPU.
pub(super) fn gpus(page: &Page<'_>) -> HoursBars {
    let report = page.report;
    let row = |gpu: &ReportedGpu| HoursRow {
        name: gpu_label(gpu),
        hours: match report.person {
            Some(_) => held_hours(&gpu.sums.held),
            None => StateHours {
                truly_idle: 0.0,
                ..hours(&gpu.sums, Micros(0))
            },
        },
    };
    // Show all GPUs: a combined bar would make the others too short to compare.
    HoursBars {
        top: usize::MAX - 1,
        ..bars(page, report.gpus.iter().map(row).collect())
    }
}

fn bars(page: &Page<'_>, rows: Vec<HoursRow>) -> HoursBars {
    HoursBars {
        rows,
        top: page.top,
        value_title: labels::HELD_HOURS.of(page.language).to_owned(),
        observed: was_observed(page.report),
    }
}

/// Whether any GPU was observed in the window.
pub(super) fn was_observed(report: &Report) -> bool {
    report.coverage.observed > Micros(0) || !report.sessions.is_empty()
}

/// Name of a GPU: its index and model, or the beginning of its UUID.
pub(super) fn gpu_label(gpu: &ReportedGpu) -> String {
    let name = match (gpu.index, &gpu.name) {
        (Some(index), Some(name)) => format!("#{index} {name}"),
        (Some(index), None) => format!("#{index}"),
        (None, _) => short_uuid(gpu.gpu.as_str()),
    };
    match gpu.slice {
        Some(slice) => format!("{}/{} of {name}", slice.slices, slice.of),
        None => name,
    }
}

fn short_uuid(uuid: &str) -> String {
    uuid.chars().take(12).collect()
}

/// Weekdays by hours.
pub(super) fn week(page: &Page<'_>) -> HeatMap {
    let heat = &page.report.heat;
    let mut shares = heat.cells.map(|day| day.map(|cell| cell.share()));
    // The report's week begins on Sunday, the chart's on Monday.
    shares.rotate_left(1);
    let value = match page.report.person {
        Some(_) => labels::SHARE_HELD.of(page.language),
        None => labels::SHARE_ACTIVE.of(page.language),
    };
    HeatMap::week(&shares, HeatUnit::Share, value, page.language)
}

/// The hours of the day, from a report that is crossed by them.
pub(super) fn day(report: &Report) -> DayHours {
    let of_hour = |row: &CrossRow| hours_of(report, &row.sums, row.gap);
    DayHours {
        hours: std::array::from_fn(|hour| report.cross.get(hour).map(of_hour).unwrap_or_default()),
        quietest: quietest(report).into_iter().map(|(hour, _)| hour).collect(),
    }
}

/// Returns the hours of the day with the least use and their use, the quietest first. In a report about one person,
/// these are the hours with the least held time.
pub(super) fn quietest(report: &Report) -> Vec<(usize, f64)> {
    let used = |sums: &Sums| match report.person {
        Some(_) => Some(sums.held.hours()),
        None => sums.share(RollUp::Active),
    };
    let mut hours: Vec<(usize, f64)> = report
        .cross
        .iter()
        .enumerate()
        .filter_map(|(hour, row)| Some((hour, used(&row.sums)?)))
        .collect();
    hours.sort_by(|one, other| one.1.total_cmp(&other.1).then(one.0.cmp(&other.0)));
    hours.truncate(QUIET);
    hours
}

pub(super) fn owner_name(hold: &Hold, language: Language) -> String {
    let owner = hold.owner.clone();
    owner.unwrap_or_else(|| labels::UNKNOWN.of(language).to_owned())
}

pub(crate) fn held_hours(sums: &OwnerTotal) -> StateHours {
    StateHours {
        active: sums.used().hours(),
        idle_held: sums.idle_hours(),
        truly_idle: sums.free_hours(),
        ..StateHours::default()
    }
}

/// Observed time of a session by state.
pub(super) fn session_hours(hold: &Hold, report: &Report) -> StateHours {
    let mut hours = StateHours::default();
    let (Some(observed), Some(active), Some(idle)) = (hold.observed, hold.active, hold.idle_held)
    else {
        // Imported sessions do not record the time in each state, but the mean of their rows.
        let whole = hold.whole().micros().hours();
        let threshold = f64::from(report.thresholds.active_util.get());
        match hold.util {
            Some((util, _)) if util >= threshold => hours.active = whole,
            Some(_) => hours.idle_held = whole,
            None => hours.held_unknown = whole,
        }
        return hours;
    };
    hours.active = active.hours();
    hours.idle_held = idle.hours();
    let free = hold.free(&report.thresholds).unwrap_or_default();
    hours.truly_idle = free.hours();
    // A damaged history can have any numbers here.
    let unknown = [active, idle, free]
        .iter()
        .fold(observed.0, |left, part| left.saturating_sub(part.0));
    hours.held_unknown = Micros(unknown).hours();
    hours
}

/// Rows of GPUs or people, columns of time.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) whose: Whose,
    pub(super) heat_map: HeatMap,
    /// Cells by row, then by column. For a person, only the held time is set; `None` if nothing was observed.
    pub(super) cells: Vec<Vec<Option<GpuCross>>>,
}

/// Returns the grid of a report. `cross` must be the cross of the report.
pub(super) fn grid(page: &Page<'_>, whose: Whose, cross: Cross) -> Grid {
    let report = page.report;
    let column_title = match cross {
        Cross::HourOfDay => words::HOUR_OF_DAY.of(page.language),
        Cross::WeekHour => words::HOUR_OF_WEEK.of(page.language),
        Cross::Slot => labels::per(report.unit, page.language),
    };
    let (rows, cells) = match whose {
        Whose::Gpu => grid_gpus(report),
        Whose::User => grid_people(page),
    };
    let is_hours = whose == Whose::User || report.person.is_some();
    let (unit, value_title) = match is_hours {
        true => (HeatUnit::GpuHours, labels::HELD_HOURS),
        false => (HeatUnit::Share, labels::SHARE_ACTIVE),
    };
    let value = |cell: &Option<GpuCross>| {
        let sums = &cell.as_ref()?.sums;
        match is_hours {
            true => Some(sums.held.hours()),
            false => sums.share(RollUp::Active),
        }
    };
    let values = cells.iter().map(|row| row.iter().map(value).collect());
    let heat_map = HeatMap {
        // A combined row for the rest does not determine the scale.
        scaled_rows: match whose {
            Whose::Gpu => rows.len(),
            Whose::User => named_people(page),
        },
        rows,
        columns: column_names(report, cross, page.language),
        cells: values.collect(),
        unit,
        value_title: value_title.of(page.language).to_owned(),
        column_title: column_title.to_owned(),
    };
    Grid {
        whose,
        heat_map,
        cells,
    }
}

fn grid_gpus(report: &Report) -> (Vec<String>, Vec<Vec<Option<GpuCross>>>) {
    // Sort by index.
    let mut order: Vec<usize> = (0..report.gpus.len()).collect();
    order.sort_by_key(|place| {
        let gpu = &report.gpus[*place];
        (gpu.index.is_none(), gpu.index, &gpu.gpu)
    });
    let row = |place: usize| {
        let columns = report.cross.iter();
        columns
            .map(|column| Some(column.gpus[place].clone()))
            .collect()
    };
    (
        order
            .iter()
            .map(|place| gpu_label(&report.gpus[*place]))
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
fn grid_people(page: &Page<'_>) -> (Vec<String>, Vec<Vec<Option<GpuCross>>>) {
    let report = page.report;
    let all = report.people.len();
    let named = named_people(page);
    let cell = |column: &CrossRow, places: std::ops::Range<usize>| {
        let mut cell = GpuCross::default();
        let theirs = column.people.get(places).unwrap_or_default();
        let held = &mut cell.sums.held;
        theirs.iter().for_each(|person| held.merge(person));
        let seen = column.sums.observed() > Micros(0) || column.sums.samples() > 0;
        (seen || held.samples() > 0).then_some(cell)
    };
    let row = |places: std::ops::Range<usize>| -> Vec<Option<GpuCross>> {
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
