//! Charts of a report before they are drawn. The HTML page and `gua plot` draw the same ones.

use gua_model::report::{CrossRow, Hold, PersonRow, Report, ReportedGpu, SlotRow, Sums};
use gua_model::{Micros, OwnerTotal, RollUp};

use super::{Page, labels};
use crate::chart::states::PLOT;
use crate::chart::{
    DayHours, HeatMap, HeatUnit, HoursBars, HoursRow, Language, StateHours, StateSlot,
    StatesOverTime,
};
use crate::language::Label;

mod grid;
mod sessions;

pub(super) use self::grid::{Grid, GridCell, grid};
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
        gap: gap.hours(),
        ..state_hours(sums)
    }
}

/// States over time.
pub(super) fn over_time(page: &Page<'_>) -> StatesOverTime {
    let report = page.report;
    let slot = |row: &SlotRow| StateSlot {
        period: row.period,
        hours: hours_of(report, &row.sums, row.gap),
    };
    StatesOverTime {
        slots: report.slots.iter().map(slot).collect(),
        unobserved: Vec::new(),
        per: report.unit,
        minutes: None,
        height: PLOT,
        zone: page.zone.clone(),
    }
}

/// States over time in the finest buckets of the report: minutes where the window is short.
pub(super) fn over_minutes(page: &Page<'_>) -> Option<StatesOverTime> {
    let report = page.report;
    let first = report
        .minutes
        .iter()
        .max_by_key(|row| row.period.micros())?;
    let slot = |row: &SlotRow| StateSlot {
        period: row.period,
        hours: hours_of(report, &row.sums, row.gap),
    };
    let minutes = first.period.micros().0 / (60 * Micros::PER_SECOND);
    Some(StatesOverTime {
        slots: report.minutes.iter().map(slot).collect(),
        minutes: i64::try_from(minutes).ok(),
        ..over_time(page)
    })
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
                ..state_hours(&gpu.sums)
            },
        },
    };
    // Show all GPUs: a combined bar would make the others too short to compare.
    HoursBars {
        top: usize::MAX - 1,
        ..bars(page, report.cards.iter().map(row).collect())
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
    let value = share_title(page).of(page.language);
    HeatMap::week(&shares, HeatUnit::Share, value, page.language)
}

pub(super) fn share_title(page: &Page<'_>) -> Label {
    match page.report.person {
        Some(_) => labels::SHARE_HELD,
        None => labels::SHARE_ACTIVE,
    }
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

pub(super) fn state_hours(sums: &Sums) -> StateHours {
    StateHours {
        active: sums.hours(RollUp::Active),
        idle_held: sums.hours(RollUp::IdleHeld),
        held_unknown: sums.unknown_hours(),
        truly_idle: sums.hours(RollUp::TrulyIdle),
        gap: 0.0,
    }
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
