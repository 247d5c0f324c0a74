//! The report on a terminal: what a reader needs first, in one screen. A verdict with a bar, what is idle now and what to do
//! about it, the people who held most, one line for each GPU, and the coverage where it is not complete. `--full` prints
//! the sections instead.
//!
//! Every line fits the width of the terminal, and no word is divided. Numbers are those of the sections.

use gua_model::palette::Tone;
use gua_model::report::{GpuStatus, Hold, ReportedGpu};
use gua_model::text::{clip, columns, counted, gigabytes, sanitize, wrapped};
use gua_model::{Micros, RollUp};

use super::figures::{held_hours, hours};
use super::lists::{self, Medium};
use super::plot::terminal::{padded, stack};
use super::{Page, compare, cost, labels};
use crate::chart::{Shown, StateHours};
use crate::language::Language::English;
use crate::language::sentence;
use crate::paint;
use crate::table::Cell;

/// Number of people that are shown.
const PEOPLE: usize = 5;
/// Width of the text, however wide the terminal is: longer lines are hard to follow.
const WIDEST: usize = 120;
/// Width below which lines are cut.
const NARROWEST: usize = 40;
/// Coverage below which it is shown.
const COMPLETE: f64 = 0.99;

/// The report for a terminal with this number of columns.
pub fn screen(page: &Page<'_>, columns: usize) -> String {
    let width = columns.clamp(NARROWEST, WIDEST);
    let report = page.report;
    let mut out = String::new();
    title(&mut out, page, width);
    if report.all.samples() == 0 && !report.all.was_seen() && report.people.is_empty() {
        for words in [labels::NO_SAMPLES, labels::BEGIN] {
            paragraph(&mut out, words.of(English), width);
        }
        return out;
    }
    if let Some(began) = labels::began_late(page, English) {
        paragraph(&mut out, &sentence(&began), width);
    }
    verdict(&mut out, page, width);
    idle_now(&mut out, page, width);
    people(&mut out, page, width);
    gpus(&mut out, page, width);
    coverage(&mut out, page, width);
    costs(&mut out, page, width);
    comparison(&mut out, page, width);
    for note in &report.notes {
        let note = format!("note: {}", labels::note(page, note, English));
        paragraph(&mut out, &note, width);
    }
    out.push('\n');
    let more = "More: --full has all sections, --by user (gpu, day, hour, idle) one table, --open the page with charts.";
    let muted = paint::muted();
    for part in wrapped(more, width) {
        line!(out, "{muted}{part}{muted:#}");
    }
    out
}

fn title(out: &mut String, page: &Page<'_>, width: usize) {
    let report = page.report;
    let host = report.host.as_ref();
    let host = host.map_or(labels::NO_HOST.of(English), |host| &host.name);
    let window = page.between(report.window, " to ");
    let mut parts = vec![sanitize(host), format!("{window} {}", page.zone_name())];
    if let Some(person) = &report.person {
        parts.push(format!("only {}", sanitize(person)));
    }
    for part in wrapped(&parts.join(" · "), width) {
        line!(out, "{part}");
    }
    out.push('\n');
}

/// One sentence and one bar.
fn verdict(out: &mut String, page: &Page<'_>, width: usize) {
    let report = page.report;
    let bar = |hours: &StateHours| stack(hours, hours.held(), width - 4, &Shown::HELD);
    let share = |share: Option<f64>| share.unwrap_or(0.0) * 100.0;
    if let Some(person) = &report.person {
        let held = &report.all.held;
        let (hours, used) = (held.hours(), share(held.used_share()));
        let words = format!(
            "{} held GPUs for {hours:.1} hours and did not use them for {:.0} % of that time.",
            sanitize(person),
            100.0 - used
        );
        paragraph(out, &words, width);
        return line!(out, "  {}", bar(&held_hours(held)));
    }
    let gpus = report.gpu_count();
    let of = if gpus == 1 { "GPU" } else { "GPUs" };
    let [active, idle, free] = RollUp::ALL.map(|class| report.equivalent(class));
    let words = match gpus {
        1 => {
            let [active, idle, free] = RollUp::ALL.map(|class| share(report.all.share(class)));
            format!(
                "The GPU worked {active:.0} % of the time, was held without use for {idle:.0} % and free for {free:.0} %."
            )
        }
        _ => format!(
            "On average {active:.1} of {gpus} {of} worked, {idle:.1} were held without use and {free:.1} were free."
        ),
    };
    paragraph(out, &words, width);
    line!(out, "  {}", bar(&hours(&report.all, Micros(0))));
    let mut legend = String::new();
    let class = |class| report.all.share(class);
    let unknown = report.all.unknown_share().filter(|share| *share > 0.0);
    let shares = [
        (Tone::Active, "active", class(RollUp::Active)),
        (Tone::IdleHeld, "idle-held", class(RollUp::IdleHeld)),
        (Tone::Free, "free", class(RollUp::TrulyIdle)),
        (Tone::HeldUnknown, "use unknown", unknown),
    ];
    for (tone, word, part) in shares {
        let Some(part) = part else { continue };
        let (style, glyph) = (paint::bar(tone), tone.colours().glyph);
        legend.push_str(&format!(
            "  {style}{glyph}{style:#} {word} {:.0} %",
            part * 100.0
        ));
    }
    line!(out, "{legend}");
}

/// The list to act on.
fn idle_now(out: &mut String, page: &Page<'_>, width: usize) {
    let report = page.report;
    let Some(now) = &report.now else { return };
    let idle = report.idle_now();
    let title = labels::held_without_use(report).of(English);
    out.push('\n');
    if idle.is_empty() {
        let style = paint::style(Tone::Free);
        return line!(out, "{title}: {style}nothing{style:#}");
    }
    let mut gpus: Vec<_> = idle.iter().map(|hold| &hold.gpu).collect();
    gpus.sort();
    gpus.dedup();
    let count = counted(u64::try_from(gpus.len()).unwrap_or(u64::MAX), "GPU");
    let style = paint::style(Tone::IdleHeld);
    let when = match report.is_fresh() {
        true => String::new(),
        false => format!(" ({})", page.short(now.at)),
    };
    line!(
        out,
        "{title}{when}: {style}{count} held without use{style:#}"
    );
    let shown = &idle[..idle.len().min(page.top)];
    idle_rows(out, page, shown, width);
    if idle.len() > shown.len() {
        let rest = idle.len() - shown.len();
        line!(out, "  and {rest} more: {} --by idle", command(page));
    }
    let first = shown.iter().find_map(|hold| {
        let stop = labels::advice(page, hold)?.stop;
        Some((labels::gpu_name(hold.index, &hold.gpu, ""), stop, hold))
    });
    let advice = match first {
        Some((gpu, stop, hold)) => format!(
            "What to do{}: look with `gua explain {gpu}`; {}{}.",
            if page.is_demo { " on a real host" } else { "" },
            labels::decide(page, hold, English),
            stop.map_or_else(String::new, |stop| format!(", then `{stop}`"))
        ),
        None if report.is_fresh() => return,
        None => {
            "The last tick is old: check that they are still running before you act.".to_owned()
        }
    };
    paragraph(out, &advice, width);
}

/// The command whose options show more.
fn command(page: &Page<'_>) -> &'static str {
    match page.is_demo {
        true => "gua demo report",
        false => "gua report",
    }
}

fn idle_rows(out: &mut String, page: &Page<'_>, holds: &[&Hold], width: usize) {
    let now = page.last();
    let cells = |hold: &&Hold| {
        let owner = hold.owner.as_deref();
        let process = match hold.has_exited() {
            true => "exited",
            false => hold.process.as_deref().unwrap_or("?"),
        };
        let memory = hold
            .peak_memory
            .map(|memory| format!("{} GB", gigabytes(memory)));
        let idle = hold.idle.map_or_else(String::new, |idle| idle.shown(now));
        [
            labels::gpu_name(hold.index, &hold.gpu, "GPU "),
            sanitize(owner.unwrap_or(labels::UNKNOWN.of(English))),
            format!("{} ({})", sanitize(process), labels::pid(hold)),
            memory.unwrap_or_default(),
            format!("idle for {idle}"),
        ]
    };
    let rows: Vec<[String; 5]> = holds.iter().map(cells).collect();
    let widest = |place: usize| {
        let widths = rows.iter().map(|row| columns(&row[place]));
        widths.max().unwrap_or(0)
    };
    let (memory, idle) = (widest(3), widest(4));
    let gpu = widest(0).min(14);
    // The owner and the process share the room that the others leave.
    let room = width.saturating_sub(2 + gpu + memory + idle + 8);
    let owner = widest(1).min((room / 2).max(8));
    let process = widest(2).min(room.saturating_sub(owner).max(8));
    let style = paint::style(Tone::IdleHeld);
    for row in rows {
        let [its_gpu, its_owner, its_process, its_memory, its_idle] = row;
        let names = [(its_gpu, gpu), (its_owner, owner), (its_process, process)];
        let names = names.map(|(text, width)| padded(&clip(&text, width), width));
        line!(
            out,
            "  {}  {its_memory:>memory$}  {style}{its_idle}{style:#}",
            names.join("  ")
        );
    }
}

/// The people with the most hours.
fn people(out: &mut String, page: &Page<'_>, width: usize) {
    let report = page.report;
    let shown = &report.people[..report.people.len().min(PEOPLE)];
    if shown.is_empty() || report.person.is_some() {
        return;
    }
    line!(out, "\nPeople, by GPU-hours held");
    let name = shown.iter().map(|person| columns(&sanitize(&person.name)));
    let name = name.max().unwrap_or(0).min(20);
    let largest = shown.iter().map(|person| person.sums.hours());
    let largest = largest.fold(0.0, f64::max);
    let bar_width = width.saturating_sub(2 + name + 2 + 2 + 10 + 16);
    for person in shown {
        let (hours, idle) = (person.sums.hours(), person.sums.idle_share());
        let bar = stack(&held_hours(&person.sums), largest, bar_width, &Shown::HELD);
        let idle = idle.map(|idle| format!("{:3.0} % idle-held", idle * 100.0));
        let idle = idle.unwrap_or_default();
        line!(
            out,
            "  {}  {bar}  {hours:8.1} h {idle}",
            padded(&clip(&person.name, name), name)
        );
    }
    if report.people.len() > shown.len() {
        let rest = report.people.len() - shown.len();
        line!(out, "  and {rest} more: {} --by user", command(page));
    }
}

/// One line for each GPU.
fn gpus(out: &mut String, page: &Page<'_>, width: usize) {
    let report = page.report;
    let mut gpus: Vec<&ReportedGpu> = report.gpus.iter().collect();
    if gpus.is_empty() || report.person.is_some() {
        return;
    }
    gpus.sort_by_key(|gpu| (gpu.index.is_none(), gpu.index, gpu.slice.is_some()));
    let names: Vec<String> = gpus.iter().map(|gpu| gpu_name(gpu)).collect();
    let name = names.iter().map(|name| columns(name)).max().unwrap_or(0);
    let name = name.min(16);
    // Three shares of five columns, and the state now.
    let room = width.saturating_sub(2 + name + 2 + 3 * 7);
    let bar_width = (room / 2).clamp(8, 48);
    let after = room.saturating_sub(bar_width + 2);
    let head = format!("\n{:<at$}", "GPUs", at = 2 + name + 2 + bar_width + 1);
    line!(out, "{head} active   idle   free  now");
    for (gpu, its_name) in gpus.iter().zip(&names) {
        let time = hours(&gpu.sums, Micros(0));
        let bar = stack(&time, time.held(), bar_width, &Shown::HELD);
        let shares = RollUp::ALL.map(|class| match gpu.sums.share(class) {
            Some(share) => format!("{:3.0} %", share * 100.0),
            None => "    -".to_owned(),
        });
        let now = report.now.as_ref();
        let now = now.and_then(|now| now.gpus.iter().find(|now| now.gpu == gpu.gpu));
        line!(
            out,
            "  {}  {bar}  {}  {}",
            padded(&clip(its_name, name), name),
            shares.join("  "),
            now.map_or_else(String::new, |now| state_now(now, page, after))
        );
    }
}

fn gpu_name(gpu: &ReportedGpu) -> String {
    let name = labels::gpu_name(gpu.index, &gpu.gpu, "GPU ");
    match gpu.slice {
        Some(slice) => format!("{name} {}/{}", slice.slices, slice.of),
        None => name,
    }
}

/// The state at the last tick, for how long it has been idle, and its owners.
fn state_now(gpu: &GpuStatus, page: &Page<'_>, room: usize) -> String {
    let fault = match gpu.faults.is_empty() {
        true => "",
        false => ", unhealthy",
    };
    let word = match gpu.idle {
        Some(idle) => format!("idle for {}{fault}", idle.shown(page.last())),
        None => match labels::state_now(gpu, English) {
            word if columns(&word) <= room => word,
            // Without room for the cause, the state and the word "unhealthy" remain.
            _ => format!("{}{fault}", labels::state_word(gpu, English)),
        },
    };
    let tone = match gpu.faults.is_empty() {
        true => Tone::of(gpu.state),
        false => Tone::Unhealthy,
    };
    let word = clip(&word, room);
    let style = paint::style(tone);
    let left = room.saturating_sub(columns(&word) + 1);
    let owners = clip(&gpu.owners.join(","), left);
    match owners.is_empty() || left < 3 {
        true => format!("{style}{word}{style:#}"),
        false => format!("{style}{word}{style:#} {owners}"),
    }
}

/// The unobserved time, where it is more than a trifle.
fn coverage(out: &mut String, page: &Page<'_>, width: usize) {
    let covered = &page.report.coverage;
    let Some(share) = covered.share().filter(|share| *share < COMPLETE) else {
        return;
    };
    let mut words = format!(
        "Observed {:.1} % of the time; {:.1} GPU-hours are gaps, which no share counts.",
        share * 100.0,
        covered.gap.hours()
    );
    if let Some(gap) = covered.gaps.first().filter(|gap| gap.micros > Micros(0)) {
        let table = lists::gaps(page, std::slice::from_ref(gap), Medium::Text);
        let cells = table.rows.first().into_iter().flatten();
        let cells: Vec<String> = cells.map(Cell::shown).collect();
        if let [when, .., reason] = cells.as_slice() {
            words.push_str(&format!(" The largest: {when}, {reason}."));
        }
    }
    out.push('\n');
    paragraph(out, &words, width);
}

/// Costs, as one sentence for each currency.
fn costs(out: &mut String, page: &Page<'_>, width: usize) {
    let Some(costs) = page.costs else { return };
    line!(out, "\n{}", labels::COSTS.of(English));
    for sentence in cost::sentences(costs, English) {
        paragraph(out, &sentence, width);
    }
}

/// The previous period beside this one.
fn comparison(out: &mut String, page: &Page<'_>, width: usize) {
    let Some(previous) = page.previous else {
        return;
    };
    out.push('\n');
    let title = labels::compared_with(&page.ends(previous.window), English);
    for part in wrapped(&title, width) {
        line!(out, "{part}");
    }
    let mut table = compare::table(page, previous);
    table.rows.truncate(compare::MEASURES + PEOPLE);
    for row in table.lines(Some(width.saturating_sub(2))) {
        line!(out, "  {row}");
    }
    if let Some(caveat) = compare::caveat(page.report, previous, English) {
        paragraph(out, &caveat, width);
    }
}

fn paragraph(out: &mut String, words: &str, width: usize) {
    for part in wrapped(words, width.saturating_sub(2)) {
        line!(out, "  {part}");
    }
}
