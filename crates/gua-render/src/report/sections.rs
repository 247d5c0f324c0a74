//! The report as text. Sections 1 to 5 keep the labels, columns and rounding of gpu-usage-audit; the later sections
//! contain what that tool does not report.

mod beyond;

use gua_model::report::{IntervalUse, Report, Sums};
use gua_model::text::{Clockwise, sanitize};
use gua_model::{Micros, RollUp};
use unicode_width::UnicodeWidthStr as _;

use self::beyond::{
    charged_and_energy, comparison, costs, coverage, gpus_now, holders, hours, more, past_waste,
    refused_requests,
};
use super::lists::{self, Medium};
use super::{By, Page, labels, page_table};
use crate::chart::count;
use crate::language::Language;

/// Returns the whole report or, with `--by`, its header and that table.
pub fn text(page: &Page<'_>) -> String {
    let mut out = header(page);
    let sections: &[fn(&mut String, &Page<'_>)] = match page.by {
        Some(_) => &[headline, by_table, costs, comparison],
        None => &[
            headline,
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
            costs,
            comparison,
            notes,
        ],
    };
    for section in sections {
        let before = out.len();
        out.push('\n');
        section(&mut out, page);
        if out.len() == before + 1 {
            out.truncate(before);
        }
    }
    if page.by.is_some() {
        notes(&mut out, page);
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
    line!(out, "§1 Headline");
    if let Some(person) = report.person.as_deref().map(sanitize) {
        let util = report.thresholds.active_util.get();
        line!(
            out,
            "  what {person} held; a GPU is idle-held while its utilisation is under {util} %"
        );
        return person_headline(out, page, &report.all);
    }
    let of = match report.all.observed() {
        Micros(0) => "samples",
        _ => "the observed time",
    };
    line!(out, "  a sample is one GPU at one tick; shares are of {of}");
    line!(out, "  {}", labels::rule(report, Language::English));
    let [Some(active), Some(idle_held), Some(truly_idle)] =
        RollUp::ALL.map(|class| report.all.share(class))
    else {
        return line!(out, "  (no samples in window)");
    };
    let unknown = report.all.unknown_share().filter(|share| *share > 0.0);
    let mut parts = vec![('█', active), ('▒', idle_held)];
    parts.extend(unknown.map(|share| ('?', share)));
    line!(out, "  {}", bar(page.width, &parts, '░'));
    let shares = [
        ("active", '█', Some(active)),
        ("idle-held", '▒', Some(idle_held)),
        ("truly-idle", '░', Some(truly_idle)),
        ("held-unknown", '?', unknown),
    ];
    for (name, letter, share) in shares {
        let Some(share) = share else { continue };
        line!(out, "  {name:<12} {letter}  {:5.1}%", share * 100.0);
    }
    line!(out, "  ({} samples)", report.all.samples());
}

fn person_headline(out: &mut String, page: &Page<'_>, sums: &Sums) {
    let held = &sums.held;
    let Some(idle) = held.idle_share() else {
        return line!(out, "  (nothing held in window)");
    };
    let (hours, idle_hours, samples) = (held.hours(), held.idle_hours(), held.samples());
    let (used, used_hours) = ((1.0 - idle) * 100.0, hours - idle_hours);
    line!(out, "  {}", bar(page.width, &[('█', 1.0 - idle)], '▒'));
    line!(
        out,
        "  not idle-held █  {used:5.1}%  {used_hours:.2} GPU-hours"
    );
    line!(
        out,
        "  idle-held     ▒  {:5.1}%  {idle_hours:.2} GPU-hours",
        idle * 100.0
    );
    line!(out, "  ({samples} samples, {hours:.2} GPU-hours held)");
}

/// Draws a bar. Each part is rounded to the nearest whole column, halves to even; `rest` fills the remaining width.
fn bar(width: usize, parts: &[(char, f64)], rest: char) -> String {
    let mut text = String::new();
    let mut used = 0;
    for (letter, share) in parts {
        let columns = whole(share * count(width));
        text.extend(std::iter::repeat_n(*letter, columns));
        used += columns;
    }
    text.extend(std::iter::repeat_n(rest, width.saturating_sub(used)));
    text
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a width is small and not negative"
)]
pub(super) fn whole(number: f64) -> usize {
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
    line!(out, "§2 Idle capacity");
    line!(out, "  GPU-hours {basis}");
    for (label, class, what) in [
        ("idle-held", RollUp::IdleHeld, "unavailable"),
        ("truly-idle", RollUp::TrulyIdle, "free"),
    ] {
        let (hours, gpus) = (report.all.hours(class), report.equivalent(class));
        line!(
            out,
            "  {label}: ~{hours:.2} GPU-hours, ~{gpus:.2} GPUs equivalently {what}"
        );
    }
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
    line!(out, "§3 Per-GPU");
    match &report.person {
        Some(person) => line!(out, "  what {} held of each GPU", sanitize(person)),
        None => line!(out, "  the same shares for each GPU"),
    }
    let gpus = report.gpus.iter();
    let gpus: Vec<_> = gpus.filter(|gpu| has_any(report, &gpu.sums)).collect();
    if gpus.is_empty() {
        line!(out, "  (no GPU cards in window)");
    }
    for gpu in gpus {
        let (uuid, sums, held) = (gpu.gpu.as_str(), &gpu.sums, &gpu.sums.held);
        let part = gpu.share().map(|share| format!(", {share}"));
        let part = part.unwrap_or_default();
        if report.person.is_some() {
            let (hours, idle) = (held.hours(), percent(held.idle_share(), 5));
            let samples = held.samples();
            line!(
                out,
                "  {uuid:<8}  held {hours:8.2} h  idle-held {idle}  ({samples} samples{part})"
            );
            continue;
        }
        let [active, idle_held, truly_idle] =
            RollUp::ALL.map(|class| percent(sums.share(class), 5));
        let unknown = sums.unknown_share().filter(|share| *share > 0.0);
        let unknown = unknown.map(|share| format!("  held-unknown {:5.1}%", share * 100.0));
        let (unknown, samples) = (unknown.unwrap_or_default(), sums.samples());
        line!(
            out,
            "  {uuid:<8}  active {active}  idle-held {idle_held}  truly-idle {truly_idle}{unknown}  ({samples} samples{part})"
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
    line!(out, "§4 Top identities");
    line!(
        out,
        "  held hours in full, also on shared GPUs; idle-held is the share of them without use"
    );
    if report.people.is_empty() {
        return line!(out, "  (no processes in window)");
    }
    line!(
        out,
        "  {:<20} {:>10}  {:>10}  {:>8}",
        "identity",
        "gpu-hours",
        "idle-held",
        "samples"
    );
    for person in report.people.iter().take(page.top) {
        let (name, sums) = (sanitize(&person.name), &person.sums);
        let pad = " ".repeat(20usize.saturating_sub(name.width()));
        let idle = percent(sums.idle_share(), 9);
        line!(
            out,
            "  {name}{pad} {:10.2}  {idle}  {:8}",
            sums.hours(),
            sums.samples()
        );
    }
    let rest = report.people.get(page.top..).unwrap_or_default();
    if !rest.is_empty() {
        let hours: f64 = rest.iter().map(|person| person.sums.hours()).sum();
        let more = rest.len();
        line!(
            out,
            "  ({more} more: {hours:.2} gpu-hours; --top shows them)"
        );
    }
}

fn heat_map(out: &mut String, page: &Page<'_>) {
    const LEVELS: [char; 10] = [' ', '.', ':', '-', '=', '+', '*', '#', '%', '@'];
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    let report = page.report;
    line!(out, "§5 Time-of-day heatmap ({})", page.zone_name());
    let what = match report.person {
        Some(_) => "how much of the GPUs' time was held",
        None => "how much of the time was active",
    };
    line!(
        out,
        "  {what}, by weekday and hour, from . (little) to @ (all); blank: no samples"
    );
    let shares = report.heat.cells.map(|day| day.map(|cell| cell.share()));
    if shares.iter().flatten().all(Option::is_none) {
        return line!(out, "  (no samples in window)");
    }
    let hours: Vec<String> = (0..24).map(|hour| (hour % 10).to_string()).collect();
    line!(out, "        {}", hours.join(" "));
    for (day, cells) in DAYS.iter().zip(&shares) {
        let level = |share: f64| LEVELS[whole(share * 9.0).clamp(1, 9)];
        let letters = cells.map(|share| share.map_or(' ', level).to_string());
        line!(out, "  {day}   {}", letters.join(" "));
    }
}

fn by_table(out: &mut String, page: &Page<'_>) {
    let Some(by) = page.by else { return };
    let mut table = match by {
        By::Idle => lists::idle_now(page, &page.report.idle_now(), Medium::Text),
        _ => page_table(page, by),
    };
    let all = table.rows.len();
    // A time series is not truncated: that would hide the newest rows.
    if by.is_ranked() {
        table.rows.truncate(page.top);
    }
    if table.rows.is_empty() {
        return line!(out, "  (nothing in window)");
    }
    match by {
        By::Hour => hours(out, page),
        _ => out.push_str(&table.text(2)),
    }
    more(out, all, table.rows.len());
    line!(out, "  times are {}", page.zone_name());
}

fn notes(out: &mut String, page: &Page<'_>) {
    for note in &page.report.notes {
        line!(out, "note: {}", labels::note(page, note, Language::English));
    }
}
