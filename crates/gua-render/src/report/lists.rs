//! The lists of a report that its text and its page both show: processes that hold GPUs, all GPUs at the last tick, and
//! gaps.

use gua_model::Micros;
use gua_model::report::{GapRow, GpuStatus, Hold, Now};
use gua_model::text::clip;

use super::{Page, labels};
use crate::language::Language;
use crate::table::{Cell, Table};

/// Where a list is shown, which decides how times and GPUs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    /// Narrow, in English.
    Text,
    /// In the language of the page. Every cell with a number has its exact value.
    Html,
}

impl Medium {
    fn pick<T>(self, text: T, html: T) -> T {
        match self {
            Medium::Text => text,
            Medium::Html => html,
        }
    }

    fn language(self, page: &Page<'_>) -> Language {
        self.pick(Language::English, page.language)
    }

    /// Prefix of a GPU's index.
    fn number_sign(self) -> &'static str {
        self.pick("", "#")
    }

    fn between(self) -> &'static str {
        self.pick(" to ", " – ")
    }
}

/// Holders of idle GPUs.
pub(super) fn idle_now(page: &Page<'_>, holds: &[&Hold], medium: Medium) -> Table {
    let mut table = Table::new([
        ("gpu", "gpu"),
        ("owner", "owner"),
        ("process", "process"),
        ("idle", "idle for"),
        ("peak_memory_mb", "peak MB"),
        ("since", "held since"),
    ]);
    let now = page.last();
    for hold in holds {
        table.rows.push(vec![
            labels::gpu_name(hold.index, &hold.gpu, medium.number_sign()).into(),
            owner(page, hold, medium),
            process(page, hold, medium),
            hold.idle.map(|idle| idle.shown(now)).into(),
            hold.peak_memory.map(|memory| memory.whole_mb()).into(),
            page.short(hold.period.from()).into(),
        ]);
    }
    table
}

fn owner(page: &Page<'_>, hold: &Hold, medium: Medium) -> Cell {
    let unknown = labels::UNKNOWN.of(medium.language(page));
    hold.owner.as_deref().unwrap_or(unknown).into()
}

/// The name of a process, its id, whether the GPU was shared, and its workload.
fn process(page: &Page<'_>, hold: &Hold, medium: Medium) -> Cell {
    let process = hold.process.as_deref().unwrap_or("?");
    let shared = match hold.shared {
        true => format!(", {}", labels::SHARED.of(medium.language(page))),
        false => String::new(),
    };
    let room = medium.pick(24, usize::MAX);
    let workload = hold.workload.as_deref();
    let workload = workload.map_or_else(String::new, |work| format!(" {}", clip(work, room)));
    format!("{process} ({}{shared}){workload}", labels::pid(hold)).into()
}

pub(super) fn holds(page: &Page<'_>, holds: &[Hold], medium: Medium) -> Table {
    let mut table = Table::new([
        ("gpu", "gpu"),
        ("owner", "owner"),
        ("process", "process"),
        ("held_hours", medium.pick("held", "held h")),
        ("idle_held_hours", medium.pick("idle-held", "idle-held h")),
        ("util_mean_percent", "mean util"),
        ("peak_memory_mb", "peak MB"),
        ("when", "when"),
    ]);
    let length = |time: Micros| match medium {
        Medium::Text => Cell::Text(format!("{:.1}h", time.hours())),
        Medium::Html => Cell::Hours(time.hours()),
    };
    for hold in holds {
        table.rows.push(vec![
            labels::gpu_name(hold.index, &hold.gpu, medium.number_sign()).into(),
            owner(page, hold, medium),
            process(page, hold, medium),
            length(hold.period.micros()),
            hold.idle_held.map_or(Cell::Missing, length),
            hold.util
                .map_or(Cell::Missing, |(util, _)| Cell::Percent(util)),
            hold.peak_memory.map(|memory| memory.whole_mb()).into(),
            page.between(hold.period, medium.between()).into(),
        ]);
    }
    table
}

/// Every GPU at the last tick. The list is never truncated, so that no free GPU is missed.
pub(super) fn now(page: &Page<'_>, now: &Now, medium: Medium) -> Table {
    let mut table = Table::new([
        ("gpu", "gpu"),
        ("state", "state"),
        ("util_percent", "util"),
        ("memory_mb", "memory MB"),
        ("owner", "owner"),
        ("process", "process"),
        ("since", "held since"),
    ]);
    let text = |text: Option<String>| Cell::Text(text.unwrap_or_else(|| "-".to_owned()));
    for gpu in &now.cards {
        let used = gpu.memory_used.map(|used| used.whole_mb().to_string());
        let memory = match (used, gpu.memory_total) {
            (Some(used), Some(total)) => Some(format!(
                "{used}{}{}",
                medium.pick("/", " / "),
                total.whole_mb()
            )),
            (used, _) => used,
        };
        let util = gpu.util.filter(|util| *util >= 0);
        let owners = (!gpu.owners.is_empty()).then(|| gpu.owners.join(medium.pick(",", ", ")));
        table.rows.push(vec![
            gpu_now(gpu, medium).into(),
            labels::state_now(gpu, medium.language(page)).into(),
            text(util.map(|util| format!("{util}%"))),
            text(memory),
            text(owners),
            text(gpu.process.clone()),
            text(gpu.held_since.map(|at| page.short(at))),
        ]);
    }
    table
}

pub(super) fn gpu_now(gpu: &GpuStatus, medium: Medium) -> String {
    match &gpu.instance {
        Some(number) => format!("{}{number}", medium.number_sign()),
        None => labels::gpu_name(gpu.index, &gpu.gpu, medium.number_sign()),
    }
}

pub(super) fn gaps(page: &Page<'_>, gaps: &[GapRow], medium: Medium) -> Table {
    let language = medium.language(page);
    let mut table = Table::new([
        ("when", "when"),
        ("gpus", "GPUs"),
        ("gap_hours", "GPU-hours"),
        ("reason", "reason"),
    ]);
    for gap in gaps {
        let reason = match gap.late {
            true => labels::LATE_TICKS.of(language),
            false => labels::reason(gap.reason, language),
        };
        let room = medium.pick(60, usize::MAX);
        let detail = gap.detail.as_deref().filter(|_| !gap.late);
        let detail = detail.map_or_else(String::new, |detail| format!(": {}", clip(detail, room)));
        table.rows.push(vec![
            page.between(gap.period, medium.between()).into(),
            match medium {
                Medium::Text => Cell::Count(u64::try_from(gap.cards).unwrap_or(u64::MAX)),
                // Text instead of a count, because a GPU can be in many gaps and the counts must not be summed.
                Medium::Html => Cell::Text(gap.cards.to_string()),
            },
            Cell::Hours(gap.micros.hours()),
            format!("{reason}{detail}").into(),
        ]);
    }
    table
}
