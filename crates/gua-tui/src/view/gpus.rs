//! The GPUs: one line each, or a title with graphs if there is space. MIG instances follow their parent.

mod layout;
mod measure;
mod text;

use gua_model::since::Since;
use gua_model::{Gpu, Verdict, classify};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Widget as _;

use super::style::Styles;
use crate::app::{App, Density};
use crate::format::clip;
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
    for (gpu, height) in moment.sample.gpus.iter().zip(&heights).skip(top) {
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
        let place = Rect {
            y,
            height: *height,
            ..area
        };
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
        let text = clip(&text, area.width.into());
        Line::styled(text, styles.dim()).render(
            Rect {
                y,
                height: 1,
                ..area
            },
            buffer,
        );
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
