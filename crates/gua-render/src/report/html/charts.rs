//! The numbers of a report as charts.

use std::collections::BTreeMap;

use gua_model::report::{Hold, HoldSums, Report, Sums};
use gua_model::{Period, RollUp};

use super::markup::Html;
use crate::chart::{
    Frame, HeatMap, HeatUnit, HoursBars, HoursRow, Measure, SessionBar, SessionChart, SessionRow,
    StateHours, StateSlot, StatesOverTime, Theme, Tone,
};
use crate::report::{Page, labels};

/// For screens and paper, and for telephones.
const WIDTHS: [(&str, u32); 2] = [("wide", 960), ("narrow", 372)];
/// How many rows of sessions a page has room for.
const MOST_ROWS: usize = 64;
/// How many gaps can be told apart in a chart.
const MOST_GAPS: usize = 200;

/// A section that is one chart.
struct Figure<'a> {
    id: &'a str,
    title: &'a str,
    subtitle: Option<&'a str>,
}

impl Figure<'_> {
    /// Drawn for each width; the style sheet shows the one that fits.
    fn write(&self, html: &mut Html, page: &Page<'_>, draw: &dyn Fn(&Frame) -> String) {
        html.element("section", &[("class", "figure"), ("id", self.id)], |html| {
            html.text("h2", &[("class", "unseen")], self.title);
            for (class, width) in WIDTHS {
                let frame = Frame {
                    id: format!("{}-{class}", self.id),
                    title: self.title.to_owned(),
                    subtitle: self.subtitle.map(str::to_owned),
                    theme: Theme::Page,
                    language: page.language,
                    width,
                };
                html.element("div", &[("class", class)], |html| html.chart(&draw(&frame)));
            }
        });
    }
}

/// States over time.
pub(super) fn over_time(html: &mut Html, page: &Page<'_>) {
    let report = page.report;
    let slot = |row: &gua_model::report::SlotRow| StateSlot {
        period: row.period,
        hours: match report.person {
            Some(_) => held_hours(&row.sums.held),
            None => StateHours {
                gap: row.gap.hours(),
                ..state_hours(&row.sums)
            },
        },
    };
    let chart = StatesOverTime {
        slots: report.slots.iter().map(slot).collect(),
        per: Some(report.unit),
        measure: Measure::GpuHours,
        zone: page.zone.clone(),
    };
    let title = match report.person {
        Some(_) => labels::PERSON_OVER_TIME,
        None => labels::OVER_TIME,
    };
    let per = labels::per(report.unit, page.language);
    let figure = Figure {
        id: "over-time",
        title: title.of(page.language),
        subtitle: Some(per),
    };
    figure.write(html, page, &|frame| chart.draw(frame));
}

/// GPU-hours by person, with the idle-held share.
pub(super) fn people(html: &mut Html, page: &Page<'_>) {
    let row = |person: &gua_model::report::PersonRow| HoursRow {
        name: person.name.clone(),
        hours: held_hours(&person.sums),
    };
    let chart = HoursBars {
        rows: page.report.people.iter().map(row).collect(),
        top: page.top,
        value_title: labels::HELD_HOURS.of(page.language).to_owned(),
    };
    let title = labels::PEOPLE_CHART.of(page.language);
    let figure = Figure {
        id: "people-chart",
        title,
        subtitle: None,
    };
    figure.write(html, page, &|frame| chart.draw(frame));
}

/// Weekdays by hours.
pub(super) fn heat(html: &mut Html, page: &Page<'_>) {
    let mut shares = page
        .report
        .heat
        .cells
        .map(|day| day.map(|cell| cell.share()));
    // The report's week begins on Sunday, the chart's on Monday.
    shares.rotate_left(1);
    let (title, value) = match page.report.person {
        Some(_) => (labels::PERSON_HEAT, labels::SHARE_HELD),
        None => (labels::HEAT, labels::SHARE_ACTIVE),
    };
    let value = value.of(page.language);
    let chart = HeatMap::week(&shares, HeatUnit::Share, Tone::Use, value, page.language);
    let zone = page.zone_name();
    let figure = Figure {
        id: "heat",
        title: title.of(page.language),
        subtitle: Some(&zone),
    };
    figure.write(html, page, &|frame| chart.draw(frame));
}

/// The longest sessions, card by card.
pub(super) fn sessions(html: &mut Html, page: &Page<'_>) {
    let report = page.report;
    let mut rows: BTreeMap<(u32, &str), Vec<SessionBar>> = BTreeMap::new();
    for hold in &report.sessions {
        let row = rows
            .entry((hold.index.unwrap_or(u32::MAX), hold.gpu.as_str()))
            .or_default();
        row.push(SessionBar {
            period: hold.period,
            label: hold
                .owner
                .clone()
                .unwrap_or_else(|| labels::UNKNOWN.of(page.language).to_owned()),
            hours: session_hours(hold, report),
        });
    }
    // Which cards a gap hit is known only where it hit all of them.
    let everywhere =
        |gap: &&gua_model::report::GapRow| gap.cards == report.cards.len() && !gap.late;
    let gaps: Vec<Period> = report
        .coverage
        .gaps
        .iter()
        .filter(everywhere)
        .take(MOST_GAPS)
        .map(|gap| gap.period)
        .collect();
    let left_out = rows.len().saturating_sub(MOST_ROWS);
    let row = |((index, gpu), bars): ((u32, &str), Vec<SessionBar>)| SessionRow {
        name: match index {
            // As much of a UUID as tells cards apart.
            u32::MAX => gpu.chars().take(12).collect(),
            index => format!("#{index}"),
        },
        bars,
        gaps: gaps.clone(),
    };
    let first = report
        .slots
        .first()
        .map_or(report.window.from(), |slot| slot.period.from());
    let chart = SessionChart {
        window: Period::new(first, report.window.to().max(first)),
        rows: rows.into_iter().take(MOST_ROWS).map(row).collect(),
        zone: page.zone.clone(),
    };
    let title = labels::SESSIONS.of(page.language);
    let mut told = Vec::new();
    if report.session_count > report.sessions.len() {
        let (shown, all) = (report.sessions.len(), report.session_count);
        told.push(labels::sessions_left_out(shown, all, page.language));
    }
    if left_out > 0 {
        told.push(labels::rows_left_out(left_out, page.language));
    }
    let subtitle = (!told.is_empty()).then(|| told.join(" "));
    let figure = Figure {
        id: "sessions",
        title,
        subtitle: subtitle.as_deref(),
    };
    figure.write(html, page, &|frame| chart.draw(frame));
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

fn held_hours(sums: &HoldSums) -> StateHours {
    StateHours {
        active: sums.hours() - sums.idle_hours(),
        idle_held: sums.idle_hours(),
        ..StateHours::default()
    }
}

/// How a session's time was spent, as far as it was observed.
fn session_hours(hold: &Hold, report: &Report) -> StateHours {
    let mut hours = StateHours::default();
    let (Some(observed), Some(active), Some(idle)) = (hold.observed, hold.active, hold.idle_held)
    else {
        // Old rows do not say when a session was idle: its mean decides for the whole of it, as in the lists.
        let all = hold.period.micros().hours();
        match hold.is_without_use(&report.thresholds) {
            true => hours.idle_held = all,
            false => hours.active = all,
        }
        return hours;
    };
    hours.active = active.hours();
    hours.idle_held = idle.hours();
    let rest = observed.hours() - hours.active - hours.idle_held;
    // A trifle of memory on a card that nobody uses leaves the card truly idle; else its use is unknown.
    let over = |memory: gua_model::Bytes| memory.whole_mb() > report.thresholds.held_mb;
    match hold.peak_memory.is_none_or(over) {
        true => hours.held_unknown = rest,
        false => hours.idle_held += rest,
    }
    hours
}
