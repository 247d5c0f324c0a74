//! Sections 6 to 11, which gpu-usage-audit does not have: coverage, unused holders, charged hours and energy.

use std::fmt::Write as _;

use gua_model::report::{CardNow, Hold};
use gua_model::text::{clip, sanitize};
use gua_model::{Micros, State};

use crate::chart::Language;
use crate::report::{By, Page, labels, table, words};
use crate::table::{Cell, Table};

pub(super) fn coverage(out: &mut String, page: &Page<'_>) {
    let covered = &page.report.coverage;
    let _ = writeln!(out, "§6 Coverage and gaps");
    let Some(share) = covered.share() else {
        let _ = writeln!(out, "  (no GPU was known in this window)");
        return;
    };
    let _ = writeln!(
        out,
        "  observed {:.1}% of {:.2} GPU-hours; {:.2} GPU-hours are gaps, which no share counts",
        share * 100.0,
        covered.capacity.hours(),
        covered.gap.hours()
    );
    let known = page.report.known;
    if known.from() > page.report.window.from() {
        let _ = writeln!(
            out,
            "  the history begins {}; what lies before it is not counted",
            page.long(known.from())
        );
    }
    if page.report.all.observed() > Micros(0) {
        let buffered = covered.buffered.hours() / covered.observed.hours() * 100.0;
        let _ = writeln!(
            out,
            "  {buffered:.1}% of the observed time rests on the driver's own samples, {:.1}% on one reading a tick",
            100.0 - buffered
        );
    }
    if covered.gaps.is_empty() {
        return;
    }
    let mut table = Table::new([
        ("when", "when"),
        ("gpus", "GPUs"),
        ("hours", "GPU-hours"),
        ("reason", "reason"),
    ]);
    for gap in covered.gaps.iter().take(page.top) {
        let detail = gap
            .detail
            .as_deref()
            .map_or_else(String::new, |detail| format!(": {}", clip(detail, 60)));
        table.rows.push(vec![
            Cell::Text(page.stretch(gap.period)),
            Cell::Count(u64::try_from(gap.cards).unwrap_or(u64::MAX)),
            Cell::Hours(gap.micros.hours()),
            Cell::Text(match gap.late {
                true => "ticks came a little late".to_owned(),
                false => format!("{}{detail}", words::reason(gap.reason)),
            }),
        ]);
    }
    out.push_str(&table.text(2));
    if let Some(rest) = covered.gaps.get(page.top..).filter(|rest| !rest.is_empty()) {
        let hours: f64 = rest.iter().map(|gap| gap.micros.hours()).sum();
        let _ = writeln!(out, "  ({} more: {hours:.2} GPU-hours)", rest.len());
    }
}

pub(super) fn holders(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    let Some(now) = &report.now else { return };
    let when = if report.is_fresh() {
        "now"
    } else {
        "at the last tick"
    };
    let _ = writeln!(out, "§7 Held {when} without use ({})", report.holders.len());
    if report.holders.is_empty() {
        let _ = writeln!(
            out,
            "  (nobody held a GPU without using it at {})",
            page.short(now.at)
        );
        return;
    }
    let _ = writeln!(
        out,
        "  mean utilisation under {} %, over {} MB held, there at {}; whole sessions, also before the window",
        report.thresholds.active_util.get(),
        report.thresholds.held_mb,
        page.short(now.at)
    );
    out.push_str(&hold_table(page, report.holders.iter().take(page.top)).text(2));
    for hold in report.holders.iter().take(page.top) {
        let Some((look, stop)) = words::commands(page, hold) else {
            let _ = writeln!(
                out,
                "    the last tick is old: look whether they are still there before you act"
            );
            break;
        };
        let who = match (&hold.owner, hold.by_login) {
            (Some(owner), true) => format!("ask {} first", sanitize(owner)),
            (Some(owner), false) => format!(
                "{} is known from the process, not from a login: decide first",
                sanitize(owner)
            ),
            (None, _) => "owner unknown: decide first".to_owned(),
        };
        let _ = writeln!(out, "    pid {}: look: {look}", words::pid(hold));
        let _ = writeln!(out, "      stop: {stop}   ({who})");
    }
    more(out, report.holders.len(), page.top);
}

pub(super) fn past_waste(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    if report.past.is_empty() {
        return;
    }
    let _ = writeln!(out, "§8 Past waste ({})", report.past_count);
    let _ = writeln!(
        out,
        "  processes that held a GPU without use and were no longer there at the last tick; whole sessions"
    );
    out.push_str(&hold_table(page, report.past.iter().take(page.top)).text(2));
    more(out, report.past_count, page.top.min(report.past.len()));
}

pub(super) fn more(out: &mut String, all: usize, shown: usize) {
    if all > shown {
        let _ = writeln!(out, "  ({} more)", all - shown);
    }
}

fn hold_table<'a>(page: &Page<'_>, holds: impl Iterator<Item = &'a Hold>) -> Table {
    let mut table = Table::new([
        ("gpu", "gpu"),
        ("owner", "owner"),
        ("process", "process"),
        ("held", "held"),
        ("idle", "idle-held"),
        ("util", "mean util"),
        ("memory", "peak MB"),
        ("when", "when"),
    ]);
    for hold in holds {
        let process = hold.process.as_deref().unwrap_or("?");
        let shared = if hold.shared { ", shared" } else { "" };
        let workload = hold
            .workload
            .as_deref()
            .map_or_else(String::new, |work| format!(" {}", clip(work, 24)));
        table.rows.push(vec![
            Cell::Text(words::card(hold)),
            Cell::Text(hold.owner.clone().unwrap_or_else(|| "unknown".to_owned())),
            Cell::Text(format!(
                "{process} ({}{shared}){workload}",
                words::pid(hold)
            )),
            Cell::Text(format!("{:.1}h", hold.period.micros().hours())),
            hold.idle_held.map_or(Cell::Missing, |idle| {
                Cell::Text(format!("{:.1}h", idle.hours()))
            }),
            hold.util
                .map_or(Cell::Missing, |(util, _)| Cell::Percent(util)),
            hold.peak_memory
                .map_or(Cell::Missing, |memory| Cell::Count(memory.whole_mb())),
            Cell::Text(page.stretch(hold.period)),
        ]);
    }
    table
}

pub(super) fn cards_now(out: &mut String, page: &Page<'_>) {
    let Some(now) = &page.report.now else { return };
    let _ = writeln!(out, "§9 All GPUs at the last tick ({})", page.long(now.at));
    let mut table = Table::new([
        ("gpu", "gpu"),
        ("state", "state"),
        ("util", "util"),
        ("memory", "memory MB"),
        ("owner", "owner"),
        ("process", "process"),
        ("since", "held since"),
    ]);
    for card in &now.cards {
        table.rows.push(now_row(page, card));
    }
    out.push_str(&table.text(2));
    let free: Vec<String> = now
        .cards
        .iter()
        .filter(|card| card.state == State::TrulyIdle)
        .map(|card| {
            card.index
                .map_or_else(|| card.gpu.to_string(), |index| index.to_string())
        })
        .collect();
    if !free.is_empty() {
        let _ = writeln!(out, "  free: {}", free.join(", "));
    }
}

fn now_row(page: &Page<'_>, card: &CardNow) -> Vec<Cell> {
    let memory = match (card.memory_used, card.memory_total) {
        (Some(used), Some(total)) => format!("{}/{}", used.whole_mb(), total.whole_mb()),
        (Some(used), None) => used.whole_mb().to_string(),
        (None, _) => "-".to_owned(),
    };
    let text = |text: Option<String>| Cell::Text(text.unwrap_or_else(|| "-".to_owned()));
    vec![
        Cell::Text(
            card.index
                .map_or_else(|| card.gpu.to_string(), |index| index.to_string()),
        ),
        Cell::Text(card.state.as_str().to_owned()),
        Cell::Text(
            card.util
                .map_or_else(|| "-".to_owned(), |util| format!("{util}%")),
        ),
        Cell::Text(memory),
        text((!card.owners.is_empty()).then(|| card.owners.join(","))),
        text(card.process.clone()),
        text(card.held_since.map(|at| page.short(at))),
    ]
}

/// Writes the requests for GPUs that were not granted at once, and the holders whose unused GPUs blocked them.
pub(super) fn asked_in_vain(out: &mut String, page: &Page<'_>) {
    let Some(refused) = &page.report.refused else {
        return;
    };
    let language = Language::English;
    let title = labels::IN_VAIN.of(language);
    let _ = writeln!(out, "§11 {title} ({})", refused.requests);
    let _ = writeln!(out, "  {}", labels::IN_VAIN_MEANS.of(language));
    for row in refused.in_the_way.iter().take(page.top) {
        let _ = writeln!(out, "  {}", labels::in_the_way(row, language));
    }
    more(out, refused.in_the_way.len(), page.top);
    if refused.in_the_way.is_empty() {
        let _ = writeln!(out, "  {}", labels::NONE_IN_THE_WAY.of(language));
    }
}

pub(super) fn charged_and_energy(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    if report.all.observed() == Micros(0) && report.all.held.own.held == Micros(0) {
        return;
    }
    let _ = writeln!(out, "§10 Charged hours and energy (kWh, NVML-reported)");
    if report.person.is_none() {
        let mut states = table(report, By::State);
        // Omit the states that did not occur, usually most of the eight.
        states
            .rows
            .retain(|row| !matches!(row.get(1), Some(Cell::Hours(hours)) if *hours == 0.0));
        out.push_str(&states.text(2));
        if report.all.energy_known == Micros(0) {
            let _ = writeln!(out, "  these GPUs count no energy");
        } else if report.all.energy_known < report.all.observed() {
            let share = report.all.energy_known.hours() / report.all.observed().hours() * 100.0;
            let _ = writeln!(
                out,
                "  energy is known for {:.1}% of the observed time",
                share.min(100.0)
            );
        }
    }
    if report.people.is_empty() {
        return;
    }
    let mut people = Table::new([
        ("user", "charged to"),
        ("hours", "hours"),
        ("energy", "kWh"),
    ]);
    let mut charged: Vec<_> = report
        .people
        .iter()
        .filter(|person| person.sums.own.held > Micros(0))
        .collect();
    charged.sort_by_key(|person| std::cmp::Reverse(person.sums.own.charged));
    for person in charged.iter().take(page.top) {
        people.rows.push(vec![
            Cell::Text(person.name.clone()),
            Cell::Hours(person.sums.own.charged.hours()),
            Cell::energy(person.sums.counted_energy()),
        ]);
    }
    out.push_str(&people.text(2));
    more(out, charged.len(), page.top);
    let _ = writeln!(
        out,
        "  charged: the time of a GPU shared equally among the people on it, so that people add up to the GPU"
    );
    if charged.iter().any(|person| !person.sums.charged_is_all()) {
        out.push_str("  old rows do not say how a GPU was shared or what it drew: they are charged to nobody\n");
    }
}
