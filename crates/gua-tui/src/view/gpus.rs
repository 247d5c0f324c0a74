//! The GPUs: one line each, or a title with graphs if there is space. MIG instances follow their parent.

mod layout;

use gua_model::classify::holders;
use gua_model::pick::is_vacant;
use gua_model::since::{Since, Start};
use gua_model::text::short_age;
use gua_model::{Gpu, Missing, Place, Verdict, classify, faults};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Widget as _;

use super::style::Styles;
use crate::app::{App, Density};
use crate::format::{MISSING, bytes, clip, reading, width};
use crate::lost;
use crate::rows::user_name;
use crate::timeline::Moment;

/// Minimum number of lines for the table, including its head.
const TABLE: u16 = 5;

/// Maximum number of lines of one GPU: a title and a graph of seven lines.
const TALLEST: u16 = 8;

/// Returns the GPUs that are shown.
fn gpus(app: &App) -> &[Gpu] {
    app.shown().map_or(&[], |moment| &moment.sample.gpus)
}

/// Returns the number of lines for each GPU.
fn lines_each(app: &App, area: Rect) -> u16 {
    let gpus = gpus(app);
    let whole = gpus.iter().filter(|gpu| gpu.place.parent().is_none());
    let whole = count(whole.count());
    let instances = count(gpus.len()) - whole;
    let most = match app.density {
        Density::OneLine => return 1,
        // At most three fifths, so that space is left for the table.
        Density::Auto => area.height / 5 * 3,
        Density::Graphs => area.height.saturating_sub(TABLE),
    };
    let room = most.saturating_sub(instances);
    (room / whole.max(1)).clamp(1, TALLEST)
}

/// Returns the number of lines for all GPUs.
pub(super) fn height(app: &App, area: Rect) -> u16 {
    let wanted = lines(gpus(app), lines_each(app, area));
    let table = TABLE.min(area.height / 2);
    wanted
        .saturating_add(1)
        .min(area.height.saturating_sub(table))
}

/// Returns the number of lines for all GPUs in text output: two per GPU.
pub(super) fn text_height(app: &App) -> u16 {
    lines(gpus(app), 2).saturating_add(1)
}

fn lines(gpus: &[Gpu], each: u16) -> u16 {
    let lines = gpus.iter().map(|gpu| lines_of(gpu, each));
    lines.fold(0, u16::saturating_add)
}

fn lines_of(gpu: &Gpu, each: u16) -> u16 {
    gpu.place.parent().map_or(each, |_| 1)
}

fn count(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

pub(super) fn draw(app: &mut App, index: usize, area: Rect, buffer: &mut Buffer, styles: Styles) {
    let Some(moment) = app.timeline.get(index) else {
        return;
    };
    if moment.sample.gpus.is_empty() {
        Line::styled("no GPU found", styles.bold()).render(area, buffer);
        return;
    }
    // As many as fit, from the first requested one; the last page is full.
    let room = area.height.saturating_sub(1);
    let each = fitting(app, moment, room);
    let heights = moment.sample.gpus.iter();
    let heights: Vec<u16> = heights.map(|gpu| lines_of(gpu, each)).collect();
    let mut last_top = heights.len();
    let mut below = 0u16;
    while last_top > 0 && below.saturating_add(heights[last_top - 1]) <= room {
        last_top -= 1;
        below += heights[last_top];
    }
    let top = app.gpus_top.min(last_top);
    let streaks = app.streaks_shown();
    let mut y = area.y;
    let end = area.y + room;
    let mut shown = 0;
    for (gpu, height) in moment.sample.gpus.iter().zip(heights).skip(top) {
        if y + height > end {
            break;
        }
        let view = GpuView {
            app,
            index,
            gpu,
            verdict: classify(gpu, &app.setup.thresholds, None),
            since: streaks.since(&gpu.uuid),
            now: moment.sample.at,
            styles,
        };
        let place = Rect { y, height, ..area };
        match height {
            1 => view.one_line(place, buffer),
            _ => view.graphs(place, buffer),
        }
        y += height;
        shown += 1;
    }
    let hidden = moment.sample.gpus.len() - shown;
    if hidden > 0 && y < area.y + area.height {
        let ending = if hidden == 1 { "" } else { "s" };
        let (first, last, all) = (top + 1, top + shown, moment.sample.gpus.len());
        let text = format!("{hidden} more GPU{ending}: J and K scroll ({first}–{last} of {all})");
        let (text, height) = (clip(&text, area.width.into()), 1);
        Line::styled(text, styles.dim()).render(Rect { y, height, ..area }, buffer);
    }
    drop(streaks);
    app.gpus_top = top;
}

/// Returns the largest number of lines per GPU with which all fit; one if they do not.
fn fitting(app: &App, moment: &Moment, room: u16) -> u16 {
    if app.density == Density::OneLine {
        return 1;
    }
    (1..=TALLEST)
        .rev()
        .find(|each| lines(&moment.sample.gpus, *each) <= room)
        .unwrap_or(1)
}

struct GpuView<'a> {
    app: &'a App,
    index: usize,
    gpu: &'a Gpu,
    verdict: Verdict,
    since: Option<Since>,
    now: jiff::Timestamp,
    styles: Styles,
}

/// Texts about a GPU: its state, its age, its owners, its readings.
impl GpuView<'_> {
    /// Returns as many details as fit: throttling, the GPU's name, and readings.
    fn details(&self, name: &str, room: usize) -> String {
        let gpu = self.gpu;
        let throttle = gpu.throttle.ok().filter(|reasons| reasons.is_throttled());
        // Throttling matters more than the name, and a narrow line has no space for both.
        let parts = [
            throttle.map(|reasons| format!("throttled: {}", reasons.names().join(", "))),
            Some(name.to_owned()),
            gpu.fan.ok().map(|fan| format!("fan {}%", fan.0)),
            gpu.sm_clock.ok().map(|clock| format!("{} MHz", clock.0)),
            gpu.performance_state
                .ok()
                .map(|state| format!("P{}", state.0)),
        ];
        let mut text = String::new();
        for part in parts.into_iter().flatten() {
            let next = if text.is_empty() {
                part
            } else {
                format!("{text}  {part}")
            };
            if width(&next) > room && !text.is_empty() {
                break;
            }
            text = next;
        }
        text
    }

    /// Returns the text of the badge and its style. A partitioned GPU has no state: its instances do.
    fn badge(&self) -> (&'static str, Style) {
        match self.gpu.place.counts() {
            true => (
                match is_vacant(self.gpu, &self.app.setup.thresholds) {
                    true => self.verdict.state.in_listings(),
                    false => self.verdict.state.as_str(),
                },
                self.styles.state(self.verdict.state),
            ),
            false => ("MIG", self.styles.bold()),
        }
    }

    fn name(&self) -> String {
        let name = lost::name(self.gpu).unwrap_or(MISSING);
        let name = name.strip_prefix("NVIDIA ").unwrap_or(name);
        match &self.gpu.place {
            // The profile is more useful than the name of the parent.
            Place::Instance { .. } => name
                .find("MIG ")
                .map_or(name, |place| &name[place..])
                .to_owned(),
            Place::Parent { instances } => format!("{name} ({instances} MIG)"),
            Place::Whole => name.to_owned(),
        }
    }

    /// Returns how long the GPU has been in its state; `≥` if the beginning was not seen.
    fn age(&self) -> String {
        let Some(since) = self.since.filter(|_| self.gpu.place.counts()) else {
            return String::new();
        };
        let passed = self.now.duration_since(since.at).unsigned_abs();
        if passed.is_zero() && since.start == Start::AtLatest {
            // Zero as a lower bound says nothing.
            return String::new();
        }
        let bound = if since.start == Start::Seen {
            ""
        } else {
            "≥"
        };
        format!("{bound}{}", short_age(passed))
    }

    /// Returns the owners, by memory.
    fn owners(&self) -> String {
        let mut held: Vec<(String, u64)> = Vec::new();
        for process in holders(self.gpu, &self.app.setup.thresholds) {
            let identity = process.identity.as_ref().ok();
            let owner = identity.and_then(gua_model::Identity::owner);
            let name = match &process.identity {
                Err(Missing::Gone) => "exited".to_owned(),
                _ => user_name(owner.as_ref().map(|owner| &owner.who)),
            };
            let size = process.memory.map_or(0, |memory| memory.0);
            match held.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum = sum.saturating_add(size),
                None => held.push((name, size)),
            }
        }
        held.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
        let names: Vec<String> = held.into_iter().map(|(name, _)| name).collect();
        names.join(", ")
    }

    fn memory(&self) -> String {
        match (&self.gpu.memory_used, &self.gpu.memory_total) {
            (Ok(used), Ok(total)) => {
                let (used, total) = (bytes(*used), bytes(*total));
                // The unit is shown once if both have the same.
                let short = match (used.chars().last(), total.chars().last()) {
                    (one, other) if one == other => used.trim_end_matches(char::is_alphabetic),
                    _ => used.as_str(),
                };
                format!("{short}/{total}")
            }
            (used, _) => reading(used, |used| bytes(*used)),
        }
    }

    /// Returns the power without its limit.
    fn watts(&self) -> String {
        reading(&self.gpu.power, |power| format!("{}W", power.whole_watts()))
    }

    fn power(&self) -> String {
        match (&self.gpu.power, &self.gpu.power_limit) {
            (Ok(power), Ok(limit)) => format!("{}/{}W", power.whole_watts(), limit.whole_watts()),
            _ => self.watts(),
        }
    }

    fn temperature(&self) -> String {
        reading(&self.gpu.temperature, |heat| format!("{}°C", heat.0))
    }
}

/// Returns the mark of a GPU whose clocks are lowered.
fn throttle_mark(gpu: &Gpu) -> &'static str {
    match gpu.throttle {
        Ok(reasons) if reasons.is_throttled() => "↓",
        _ => "",
    }
}

fn percent(gpu: &Gpu) -> String {
    reading(&gpu.util, |util| format!("{}%", util.get()))
}

/// Returns the faults of a GPU, the most serious first; empty if there are none.
fn faults_of(gpu: &Gpu) -> String {
    let faults = faults(gpu);
    let faults = faults.iter().map(|fault| fault.in_short());
    faults.collect::<Vec<_>>().join(", ")
}
