//! The report in a few lines for a terminal: the verdict with a bar, which GPUs are idle now, and whose time was idle most.

use gua_model::idle::is_idle_now;
use gua_model::report::{GpuStatus, PersonRow, UNKNOWN};
use gua_model::text::{clip, columns, gigabytes, sanitize};
use gua_model::{RollUp, State, Tone};

use super::sections::whole;
use super::{Page, labels};
use crate::chart::count;
use crate::paint;

/// Number of GPUs and of people that are listed.
const LISTED: usize = 3;
/// Width of a name.
const NAME: usize = 18;
/// Width of the bar of a person.
const BAR: usize = 20;

/// Returns the summary.
pub fn glance(page: &Page<'_>) -> String {
    let mut out = verdict(page);
    idle_now(&mut out, page);
    most_idle(&mut out, page);
    out
}

/// A bar of the states, and a sentence about it.
fn verdict(page: &Page<'_>) -> String {
    let mut out = String::new();
    let sums = &page.report.all;
    let [Some(active), Some(held), Some(free)] = RollUp::ALL.map(|class| sums.share(class)) else {
        line!(out, "nothing was observed");
        return out;
    };
    let unknown = sums.unknown_share().unwrap_or_default();
    let parts = [
        (Tone::Active, active),
        (Tone::IdleHeld, held),
        (Tone::HeldUnknown, unknown),
    ];
    line!(out, "{}", bar(page.width, &parts, Some(Tone::Free)));
    let hours: f64 = RollUp::ALL.iter().map(|class| sums.hours(*class)).sum();
    let hours = hours + sums.unknown_hours();
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    line!(
        out,
        "Of {hours:.0} GPU-hours, {} were used, {} held without use and {} free.",
        percent(active),
        percent(held),
        percent(free),
    );
    out
}

/// Draws a bar in the colours of its parts. The rest of the width has the tone `rest`, or is left out.
fn bar(width: usize, parts: &[(Tone, f64)], rest: Option<Tone>) -> String {
    let mut text = String::new();
    let mut used = 0;
    let mut draw = |tone: Tone, columns: usize| {
        let glyph = tone.colours().glyph;
        let cells: String = std::iter::repeat_n(glyph, columns).collect();
        let style = paint::bar(tone);
        if columns > 0 {
            text.push_str(&format!("{style}{cells}{style:#}"));
        }
    };
    for (tone, share) in parts {
        let columns = whole(share * count(width)).min(width - used);
        draw(*tone, columns);
        used += columns;
    }
    if let Some(rest) = rest {
        draw(rest, width - used);
    }
    text
}

fn idle_now(out: &mut String, page: &Page<'_>) {
    let Some(now) = &page.report.now else { return };
    let since = |gpu: &GpuStatus| gpu.idle.map(|idle| idle.since);
    let idle = now.gpus.iter().filter(|gpu| is_idle_now(gpu.state));
    let mut idle: Vec<&GpuStatus> = idle.collect();
    idle.sort_by_key(|gpu| (since(gpu).is_none(), since(gpu).map(|since| since.at)));
    out.push('\n');
    if idle.is_empty() {
        return line!(out, "Idle now: no GPU is held without use");
    }
    line!(out, "Idle now: {} of {} GPUs", idle.len(), now.gpus.len());
    for gpu in idle.iter().take(LISTED) {
        let name = labels::gpu_name(gpu.index, &gpu.gpu, "GPU ");
        let (owner, process) = match gpu.state {
            State::OrphanHeld => (UNKNOWN.to_owned(), "exited process".to_owned()),
            _ => (
                sanitize(&gpu.owners.join(", ")),
                gpu.process.as_deref().map_or(UNKNOWN.to_owned(), sanitize),
            ),
        };
        let memory = gpu.memory_used.map_or("?".to_owned(), gigabytes);
        let length = gpu
            .idle
            .map(|idle| format!("idle for {}", idle.shown(now.at)));
        let style = paint::style(Tone::IdleHeld);
        line!(
            out,
            "  {name}  {} {} {memory:>5} GB  {style}{}{style:#}",
            padded(&owner),
            padded(&process),
            length.unwrap_or_default(),
        );
    }
}

fn most_idle(out: &mut String, page: &Page<'_>) {
    let mut people: Vec<&PersonRow> = page.report.people.iter().collect();
    people.retain(|person| person.sums.idle_hours() > 0.0);
    people.sort_by(|one, other| {
        let hours = other.sums.idle_hours().total_cmp(&one.sums.idle_hours());
        hours.then_with(|| one.name.cmp(&other.name))
    });
    let Some(most) = people.first().map(|person| person.sums.idle_hours()) else {
        return;
    };
    line!(out, "Most idle");
    for person in people.iter().take(LISTED) {
        let (idle, held) = (person.sums.idle_hours(), person.sums.hours());
        let share = person.sums.idle_share().unwrap_or_default();
        let bar = bar(BAR, &[(Tone::IdleHeld, idle / most)], None);
        line!(
            out,
            "  {} {idle:>5.0} of {held:>5.0} h held ({:>3.0} %)  {bar}",
            padded(&sanitize(&person.name)),
            share * 100.0,
        );
    }
}

fn padded(name: &str) -> String {
    let name = clip(name, NAME);
    let room = NAME.saturating_sub(columns(&name));
    name + &" ".repeat(room)
}
