//! The lists of a report that its text and its page both show: processes that hold GPUs, all GPUs at the last tick, and
//! gaps.

use gua_model::Micros;
use gua_model::report::{GapRow, GpuStatus, Hold, Now};
use gua_model::text::clip;

use super::{Page, labels};
use crate::language::Language;
use crate::table::{Cell, Table, table};

/// Medium of a list, which decides how times and GPUs are written.
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
    let now = page.last();
    table!(hold in holds =>
        "gpu" => labels::gpu_name(hold.index, &hold.gpu, medium.number_sign()),
        "owner" => owner(page, hold, medium),
        "process" => process(page, hold, medium),
        "idle" as "idle for" => hold.idle.map(|idle| idle.shown(now)),
        "peak_memory_mb" as "peak MB" => hold.peak_memory.map(|memory| memory.whole_mb()),
        "since" as "held since" => hold.held_since().map(|at| page.short(at)),
    )
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
    let length = |time: Micros| match medium {
        Medium::Text => Cell::Text(format!("{:.1}h", time.hours())),
        Medium::Html => Cell::Hours(time.hours()),
    };
    table!(hold in holds =>
        "gpu" => labels::gpu_name(hold.index, &hold.gpu, medium.number_sign()),
        "owner" => owner(page, hold, medium),
        "process" => process(page, hold, medium),
        "held_hours" as medium.pick("held", "held h") => length(hold.period.micros()),
        "idle_held_hours" as medium.pick("idle-held", "idle-held h") => hold.idle_held.map(length),
        "util_mean_percent" as "mean util" => hold.util.map(|(util, _)| Cell::Percent(util)),
        "peak_memory_mb" as "peak MB" => hold.peak_memory.map(|memory| memory.whole_mb()),
        "when" => page.between(hold.period, medium.between()),
    )
}

/// Every GPU at the last tick. The list is never truncated, so that no free GPU is missed.
pub(super) fn now(page: &Page<'_>, now: &Now, medium: Medium) -> Table {
    let text = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let memory = |gpu: &GpuStatus| {
        let used = gpu.memory_used?.whole_mb();
        let total = gpu.memory_total.map(|total| total.whole_mb());
        let total = total.map(|total| format!("{}{total}", medium.pick("/", " / ")));
        Some(format!("{used}{}", total.unwrap_or_default()))
    };
    let owners = |gpu: &GpuStatus| {
        let owners = gpu.owners.join(medium.pick(",", ", "));
        (!gpu.owners.is_empty()).then_some(owners)
    };
    table!(gpu in &now.gpus =>
        "gpu" => gpu_now(gpu, medium),
        "state" => labels::state_now(gpu, medium.language(page)),
        "util_percent" as "util" => text(gpu.util.filter(|util| *util >= 0).map(|util| format!("{util}%"))),
        "memory_mb" as "memory MB" => text(memory(gpu)),
        "owner" => text(owners(gpu)),
        "process" => text(gpu.process.clone()),
        "since" as "held since" => text(gpu.held_since.map(|at| page.short(at))),
    )
}

pub(super) fn gpu_now(gpu: &GpuStatus, medium: Medium) -> String {
    match &gpu.instance {
        Some(number) => format!("{}{number}", medium.number_sign()),
        None => labels::gpu_name(gpu.index, &gpu.gpu, medium.number_sign()),
    }
}

pub(super) fn gaps(page: &Page<'_>, gaps: &[GapRow], medium: Medium) -> Table {
    let language = medium.language(page);
    let reason = |gap: &GapRow| {
        if gap.late {
            return labels::LATE_TICKS.of(language).to_owned();
        }
        let (room, reason) = (
            medium.pick(60, usize::MAX),
            labels::reason(gap.reason, language),
        );
        let detail = gap.detail.as_deref();
        let detail = detail.map_or_else(String::new, |detail| format!(": {}", clip(detail, room)));
        format!("{reason}{detail}")
    };
    // On a page, the count is text: a GPU can be in many gaps, so the counts must not be summed.
    let gpus = |gpus: usize| medium.pick(gpus.into(), Cell::Text(gpus.to_string()));
    table!(gap in gaps =>
        "when" => page.between(gap.period, medium.between()),
        "gpus" as "GPUs" => gpus(gap.gpus),
        "gap_hours" as "GPU-hours" => Cell::Hours(gap.micros.hours()),
        "reason" => reason(gap),
    )
}
