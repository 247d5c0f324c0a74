//! The report as text. Sections 1 to 5 keep the labels, columns and rounding of gpu-usage-audit; the later sections
//! contain what that tool does not report.

mod beyond;
mod hours;

use std::fmt::Write as _;

use gua_model::report::{IntervalUse, Report, Sums};
use gua_model::text::{Clockwise, sanitize};
use gua_model::{Micros, RollUp};
use unicode_width::UnicodeWidthStr as _;

use self::beyond::{
    charged_and_energy, coverage, gpus_now, holders, more, past_waste, refused_requests,
};
use super::{By, Page, labels, table};
use crate::language::Language;

/// Returns the whole report or, with `--by`, its header and that table.
#[must_use]
pub fn text(page: &Page<'_>) -> String {
    let mut out = header(page);
    out.push('\n');
    headline(&mut out, page);
    if let Some(by) = page.by {
        out.push('\n');
        by_table(&mut out, page, by);
        notes(&mut out, page);
        return out;
    }
    for section in [
        idle_capacity,
        per_gpu,
        identities,
        heat_map,
        coverage,
        holders,
        past_waste,
        gpus_now,
        charged_and_energy,
        refused_requests,
        notes,
    ] {
        let before = out.len();
        out.push('\n');
        section(&mut out, page);
        if out.len() == before + 1 {
            out.truncate(before);
        }
    }
    out
}

fn header(page: &Page<'_>) -> String {
    let host = page.report.host.as_ref();
    let host = host.map_or_else(|| "no host recorded yet".to_owned(), labels::host);
    format!("gua — {host}  Window: {}\n", page.window)
}

fn headline(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    let _ = writeln!(out, "§1 Headline");
    let thresholds = &report.thresholds;
    if let Some(person) = &report.person {
        let _ = writeln!(
            out,
            "  what {} held; a GPU is idle-held while its utilisation is under {} %",
            sanitize(person),
            thresholds.active_util.get()
        );
        return person_headline(out, page, &report.all);
    }
    let _ = writeln!(
        out,
        "  a sample is one GPU at one tick; shares are of {}",
        match report.all.observed() {
            Micros(0) => "samples",
            _ => "the observed time",
        }
    );
    let _ = writeln!(out, "  {}", labels::rule(report, Language::English));
    let share = |class| report.all.share(class);
    let (Some(active), Some(idle_held), Some(truly_idle)) = (
        share(RollUp::Active),
        share(RollUp::IdleHeld),
        share(RollUp::TrulyIdle),
    ) else {
        let _ = writeln!(out, "  (no samples in window)");
        return;
    };
    let unknown = report.all.unknown_share().filter(|share| *share > 0.0);
    let mut parts = vec![('█', active), ('▒', idle_held)];
    parts.extend(unknown.map(|share| ('?', share)));
    let _ = writeln!(out, "  {}", bar(page.width, &parts, '░'));
    let shares = [
        ("active", '█', Some(active)),
        ("idle-held", '▒', Some(idle_held)),
        ("truly-idle", '░', Some(truly_idle)),
        ("held-unknown", '?', unknown),
    ];
    for (name, letter, share) in shares {
        let Some(share) = share else { continue };
        let _ = writeln!(out, "  {name:<12} {letter}  {:5.1}%", share * 100.0);
    }
    let _ = writeln!(out, "  ({} samples)", report.all.samples());
}

fn person_headline(out: &mut String, page: &Page<'_>, sums: &Sums) {
    let held = &sums.held;
    let Some(idle) = held.idle_share() else {
        let _ = writeln!(out, "  (nothing held in window)");
        return;
    };
    let _ = writeln!(out, "  {}", bar(page.width, &[('█', 1.0 - idle)], '▒'));
    let _ = writeln!(
        out,
        "  not idle-held █  {:5.1}%  {:.2} GPU-hours",
        (1.0 - idle) * 100.0,
        held.hours() - held.idle_hours()
    );
    let _ = writeln!(
        out,
        "  idle-held     ▒  {:5.1}%  {:.2} GPU-hours",
        idle * 100.0,
        held.idle_hours()
    );
    let _ = writeln!(
        out,
        "  ({} samples, {:.2} GPU-hours held)",
        held.samples(),
        held.hours()
    );
}

/// Draws a bar. Each part is rounded to the nearest whole column, halves to even; `rest` fills the remaining width.
fn bar(width: usize, parts: &[(char, f64)], rest: char) -> String {
    let mut text = String::new();
    let mut used = 0;
    for (letter, share) in parts {
        let columns = whole(share * whole_width(width));
        text.extend(std::iter::repeat_n(*letter, columns));
        used += columns;
    }
    text.extend(std::iter::repeat_n(rest, width.saturating_sub(used)));
    text
}

fn whole_width(width: usize) -> f64 {
    f64::from(u32::try_from(width).unwrap_or(u32::MAX))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a width is small and not negative"
)]
fn whole(number: f64) -> usize {
    number.round_ties_even().max(0.0) as usize
}

fn idle_capacity(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    if report.person.is_some() {
        return;
    }
    let own = report.all.observed() > Micros(0);
    let has_old = report.all.has_imported();
    let basis = match (own, report.interval) {
        (true, IntervalUse::Given(interval)) if has_old => {
            let interval = Clockwise(interval);
            format!("using report --interval ({interval}) for old rows")
        }
        (true, _) => "each tick counts for the time that it observed".to_owned(),
        (false, IntervalUse::Recorded) => {
            "using recorded daemon interval (legacy rows fall back to 30s)".to_owned()
        }
        (false, IntervalUse::Given(interval)) => {
            format!("using report --interval ({})", Clockwise(interval))
        }
    };
    let _ = writeln!(out, "§2 Idle capacity");
    let _ = writeln!(out, "  GPU-hours {basis}");
    let line = |out: &mut String, label: &str, class: RollUp, what: &str| {
        let _ = writeln!(
            out,
            "  {label}: ~{:.2} GPU-hours, ~{:.2} GPUs equivalently {what}",
            report.all.hours(class),
            report.equivalent(class)
        );
    };
    line(out, "idle-held", RollUp::IdleHeld, "unavailable");
    line(out, "truly-idle", RollUp::TrulyIdle, "free");
}

/// Formats a share as a percentage in this many columns; a dash if it was not measured.
fn percent(share: Option<f64>, columns: usize) -> String {
    match share {
        Some(share) => format!("{:columns$.1}%", share * 100.0),
        None => format!("{:>columns$} ", "-"),
    }
}

fn per_gpu(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    let _ = writeln!(out, "§3 Per-GPU");
    let _ = match &report.person {
        Some(person) => writeln!(out, "  what {} held of each GPU", sanitize(person)),
        None => writeln!(out, "  the same shares for each GPU"),
    };
    let cards = report.cards.iter();
    let cards: Vec<_> = cards.filter(|card| has_any(report, &card.sums)).collect();
    if cards.is_empty() {
        let _ = writeln!(out, "  (no GPU cards in window)");
    }
    for card in cards {
        let uuid = card.gpu.as_str();
        if report.person.is_some() {
            let held = &card.sums.held;
            let _ = writeln!(
                out,
                "  {uuid:<8}  held {:8.2} h  idle-held {}  ({} samples)",
                held.hours(),
                percent(held.idle_share(), 5),
                held.samples()
            );
            continue;
        }
        let share = |class| percent(card.sums.share(class), 5);
        let unknown = match card.sums.unknown_share().filter(|share| *share > 0.0) {
            Some(share) => format!("  held-unknown {:5.1}%", share * 100.0),
            None => String::new(),
        };
        let _ = writeln!(
            out,
            "  {uuid:<8}  active {}  idle-held {}  truly-idle {}{unknown}  ({} samples)",
            share(RollUp::Active),
            share(RollUp::IdleHeld),
            share(RollUp::TrulyIdle),
            card.sums.samples()
        );
    }
}

/// Whether a GPU has any data: a window may be shorter than a tick.
fn has_any(report: &Report, sums: &Sums) -> bool {
    match report.person {
        Some(_) => sums.held.hours() > 0.0,
        None => sums.observed() > Micros(0) || sums.samples() > 0,
    }
}

fn identities(out: &mut String, page: &Page<'_>) {
    let report = page.report;
    let _ = writeln!(out, "§4 Top identities");
    let _ = writeln!(
        out,
        "  held hours in full, also on shared GPUs; idle-held is the share of them without use"
    );
    if report.people.is_empty() {
        let _ = writeln!(out, "  (no processes in window)");
        return;
    }
    let _ = writeln!(
        out,
        "  {:<20} {:>10}  {:>10}  {:>8}",
        "identity", "gpu-hours", "idle-held", "samples"
    );
    for person in report.people.iter().take(page.top) {
        let name = sanitize(&person.name);
        let pad = " ".repeat(20usize.saturating_sub(name.width()));
        let _ = writeln!(
            out,
            "  {name}{pad} {:10.2}  {}  {:8}",
            person.sums.hours(),
            percent(person.sums.idle_share(), 9),
            person.sums.samples()
        );
    }
    let rest = report.people.get(page.top..).unwrap_or_default();
    if !rest.is_empty() {
        let hours: f64 = rest.iter().map(|person| person.sums.hours()).sum();
        let count = rest.len();
        let _ = writeln!(
            out,
            "  ({count} more: {hours:.2} gpu-hours; --top shows them)"
        );
    }
}

fn heat_map(out: &mut String, page: &Page<'_>) {
    const LEVELS: [char; 10] = [' ', '.', ':', '-', '=', '+', '*', '#', '%', '@'];
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    let report = page.report;
    let _ = writeln!(out, "§5 Time-of-day heatmap ({})", page.zone_name());
    let what = match report.person {
        Some(_) => "how much of the GPUs' time was held",
        None => "how much of the time was active",
    };
    let _ = writeln!(
        out,
        "  {what}, by weekday and hour, from . (little) to @ (all); blank: no samples"
    );
    let shares = report.heat.cells.map(|day| day.map(|cell| cell.share()));
    if shares.iter().flatten().all(Option::is_none) {
        let _ = writeln!(out, "  (no samples in window)");
        return;
    }
    let hours: Vec<String> = (0..24).map(|hour| (hour % 10).to_string()).collect();
    let _ = writeln!(out, "        {}", hours.join(" "));
    for (day, cells) in DAYS.iter().zip(&shares) {
        let level = |share: f64| LEVELS[whole(share * 9.0).clamp(1, 9)];
        let letters = cells.map(|share| share.map_or(' ', level).to_string());
        let _ = writeln!(out, "  {day}   {}", letters.join(" "));
    }
}

fn by_table(out: &mut String, page: &Page<'_>, by: By) {
    let mut table = table(page.report, by);
    let all = table.rows.len();
    // A time series is not truncated: that would hide the newest rows.
    if matches!(by, By::User | By::Gpu) {
        table.rows.truncate(page.top);
    }
    if table.rows.is_empty() {
        let _ = writeln!(out, "  (nothing in window)");
        return;
    }
    match by {
        By::Hour => hours::hours(out, page),
        _ => out.push_str(&table.text(2)),
    }
    more(out, all, table.rows.len());
    let _ = writeln!(out, "  times are {}", page.zone_name());
}

fn notes(out: &mut String, page: &Page<'_>) {
    for note in &page.report.notes {
        let _ = writeln!(out, "note: {}", labels::note(page, note, Language::English));
    }
}
