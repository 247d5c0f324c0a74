//! Sessions as rows of GPUs or people, with unobserved periods.

use std::collections::{BTreeMap, BTreeSet};

use gua_model::report::{Hold, Report, ReportedGpu};
use gua_model::{GpuUuid, Period};

use super::{Whose, owner_name, session_hours, short_uuid, was_observed};
use crate::chart::{SessionBar, SessionChart, SessionRow};
use crate::natural::natural;
use crate::report::{Page, labels};

/// Maximum number of rows in a chart.
const MAX_ROWS: usize = 104;
/// Maximum number of gaps in a row that can be distinguished.
const MAX_GAPS: usize = 200;

/// Returns all sessions, and a note if some of them are drawn as one.
pub(in crate::report) fn sessions(page: &Page<'_>, whose: Whose) -> (SessionChart, Option<String>) {
    let report = page.report;
    let language = page.language;
    let mut rows = match whose {
        Whose::Gpu => gpu_rows(page),
        Whose::User => person_rows(page),
    };
    let left_out = rows.len().saturating_sub(MAX_ROWS);
    rows.truncate(MAX_ROWS);
    let first = report
        .slots
        .first()
        .map_or(report.window.from(), |slot| slot.period.from());
    let chart = SessionChart {
        window: Period::new(first, report.window.to().max(first)),
        rows,
        zone: page.zone.clone(),
        observed: was_observed(report),
    };
    let mut notes = Vec::new();
    if report.session_count > report.sessions.len() {
        let (all, shown) = (report.session_count, report.sessions.len());
        notes.push(labels::sessions_merged(all, shown, language));
    }
    if left_out > 0 {
        notes.push(match whose {
            Whose::Gpu => labels::gpus_left_out(left_out, language),
            Whose::User => labels::people_left_out(left_out, language),
        });
    }
    match chart.overlapping() {
        0 => {}
        1 => notes.push(labels::one_overlaps(1, language)),
        count => notes.push(labels::many_overlap(count, language)),
    }
    if report.sessions.iter().any(|hold| hold.observed.is_none()) {
        notes.push(labels::IMPORTED_SESSIONS.of(language).to_owned());
    }
    (chart, (!notes.is_empty()).then(|| notes.join(" ")))
}

fn bar(hold: &Hold, label: String, report: &Report) -> SessionBar {
    SessionBar {
        period: hold.whole(),
        label,
        hours: session_hours(hold, report),
        sessions: hold.sessions,
    }
}

/// Returns a row for each GPU, sorted by index. A GPU without sessions has an empty row.
fn gpu_rows(page: &Page<'_>) -> Vec<SessionRow> {
    let report = page.report;
    let mut bars: BTreeMap<&GpuUuid, Vec<SessionBar>> = BTreeMap::new();
    for hold in &report.sessions {
        let label = owner_name(hold, page.language);
        bars.entry(&hold.gpu)
            .or_default()
            .push(bar(hold, label, report));
    }
    let unseen: BTreeMap<&GpuUuid, &[Period]> = report
        .gpus
        .iter()
        .map(|gpu| (&gpu.gpu, gpu.unseen.as_slice()))
        .collect();
    let numbers = numbers(report);
    let mut rows: Vec<(Option<u32>, SessionRow)> = Vec::new();
    for (gpu, name) in names(&numbers) {
        let bars = bars.remove(gpu).unwrap_or_default();
        if bars.is_empty() && report.person.is_some() {
            continue;
        }
        let gaps = largest(unseen.get(gpu).copied().unwrap_or_default());
        let number = numbers.get(gpu).copied().flatten();
        rows.push((number, SessionRow { name, bars, gaps }));
    }
    rows.sort_by(|(one, row), (other, others)| {
        let (one, other) = (one.unwrap_or(u32::MAX), other.unwrap_or(u32::MAX));
        one.cmp(&other)
            .then_with(|| natural(&row.name, &others.name))
    });
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Returns a row for each person who held a GPU.
fn person_rows(page: &Page<'_>) -> Vec<SessionRow> {
    let report = page.report;
    let names = names(&numbers(report));
    let mut rows: BTreeMap<String, Vec<SessionBar>> = BTreeMap::new();
    for hold in &report.sessions {
        let gpu = names.get(&hold.gpu).cloned().unwrap_or_default();
        rows.entry(owner_name(hold, page.language))
            .or_default()
            .push(bar(hold, gpu, report));
    }
    // A person could have used any GPU, so only time in which no GPU was observed is a gap.
    let gaps = largest(&everywhere(&report.gpus));
    let row = |(name, bars)| SessionRow {
        name,
        bars,
        gaps: gaps.clone(),
    };
    let mut rows: Vec<SessionRow> = rows.into_iter().map(row).collect();
    rows.sort_by(|one, other| natural(&one.name, &other.name));
    rows
}

/// Returns the index of every GPU of the report: its current one, or else that of its last session.
fn numbers(report: &Report) -> BTreeMap<&GpuUuid, Option<u32>> {
    let of_sessions = report.sessions.iter().map(|hold| (&hold.gpu, hold.index));
    let of_gpus = report.gpus.iter().map(|gpu| (&gpu.gpu, gpu.index));
    let mut numbers: BTreeMap<&GpuUuid, Option<u32>> = BTreeMap::new();
    for (gpu, number) in of_sessions.chain(of_gpus) {
        let known = numbers.entry(gpu).or_default();
        *known = number.or(*known);
    }
    numbers
}

/// Returns a short name for every GPU. An index that two GPUs had at different times is not used alone.
fn names<'a>(numbers: &BTreeMap<&'a GpuUuid, Option<u32>>) -> BTreeMap<&'a GpuUuid, String> {
    // From the shortest name to the longest; a longer one is used where others have the same.
    let forms = |gpu: &GpuUuid, number: Option<u32>| {
        let (short, full) = (short_uuid(gpu.as_str()), gpu.as_str().to_owned());
        match number {
            Some(number) => [format!("#{number}"), format!("#{number} {short}"), full],
            None => [short, full.clone(), full],
        }
    };
    let mut names: BTreeMap<&GpuUuid, String> = BTreeMap::new();
    for length in 0..3 {
        let mut seen = BTreeSet::new();
        let shared: BTreeSet<String> = names
            .values()
            .filter(|name| !seen.insert(name.as_str()))
            .cloned()
            .collect();
        for (gpu, number) in numbers {
            let is_unique = names.get(gpu).is_some_and(|name| !shared.contains(name));
            if !is_unique {
                names.insert(gpu, forms(gpu, *number)[length].clone());
            }
        }
    }
    names
}

/// Returns the periods in which no GPU was observed.
fn everywhere(gpus: &[ReportedGpu]) -> Vec<Period> {
    let mut gpus = gpus.iter();
    let first = gpus.next().map(|gpu| gpu.unseen.clone());
    gpus.fold(first.unwrap_or_default(), |all, gpu| {
        let parts = all.iter().flat_map(|one| {
            // Both lists are in chronological order and contain no overlaps.
            let first = gpu.unseen.partition_point(|other| other.to() <= one.from());
            let others = gpu.unseen.iter().skip(first);
            others
                .take_while(|other| other.from() < one.to())
                .filter_map(|other| one.overlap(*other))
        });
        parts.collect()
    })
}

/// Returns the longest periods, at most [`MAX_GAPS`], in chronological order.
fn largest(periods: &[Period]) -> Vec<Period> {
    let mut largest = periods.to_vec();
    largest.sort_by_key(|period| std::cmp::Reverse(period.micros()));
    largest.truncate(MAX_GAPS);
    largest.sort();
    largest
}
