//! One screen as text, for pipes and scripts: everything is shown, nothing is scrolled.

use gua_model::Sample;
use jiff::Timestamp;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use crate::app::{App, Medium};
use crate::view;

/// Draws the screen `width` columns wide and as high as needed. Colours are ANSI sequences; the caller removes them
/// where they are not wanted.
pub fn snapshot(app: &mut App, width: u16, now: Timestamp) -> String {
    let sample = app.shown().map(|moment| &moment.sample);
    let height = sample.map_or(4, lines);
    let area = Rect::new(0, 0, width.clamp(20, 500), height);
    let mut buffer = Buffer::empty(area);
    app.medium = Medium::Text;
    view::draw_text(app, area, &mut buffer, now);
    text(&buffer)
}

/// Returns the largest number of lines: the two of the host, the GPUs, the table.
fn lines(sample: &Sample) -> u16 {
    let gpus = sample
        .gpus
        .iter()
        .map(|gpu| if gpu.place.parent().is_some() { 1 } else { 2 })
        .sum::<usize>();
    let processes: usize = sample.gpus.iter().map(|gpu| gpu.processes.len()).sum();
    u16::try_from(4 + gpus + processes.max(1)).unwrap_or(u16::MAX)
}

fn text(buffer: &Buffer) -> String {
    let area = buffer.area();
    let mut lines: Vec<String> = Vec::new();
    for y in area.top()..area.bottom() {
        let mut line = String::new();
        let mut plain_end = 0;
        let mut current = Style::new();
        let mut skip = 0usize;
        for x in area.left()..area.right() {
            let Some(cell) = buffer.cell((x, y)) else {
                continue;
            };
            if skip > 0 {
                skip -= 1;
                continue;
            }
            skip = crate::format::width(cell.symbol()).saturating_sub(1);
            let style = Style {
                fg: Some(cell.fg),
                add_modifier: cell.modifier,
                ..Style::new()
            };
            let is_blank = cell.symbol() == " " && !cell.modifier.contains(Modifier::REVERSED);
            if style != current && !is_blank {
                line.push_str(&sequence(style));
                current = style;
            }
            line.push_str(cell.symbol());
            if !is_blank {
                plain_end = line.len();
            }
        }
        line.truncate(plain_end);
        if line.contains('\u{1b}') {
            line.push_str("\u{1b}[0m");
        }
        lines.push(line);
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.push(String::new());
    lines.join("\n")
}

fn sequence(style: Style) -> String {
    let modifiers = [
        (Modifier::BOLD, "1"),
        (Modifier::DIM, "2"),
        (Modifier::REVERSED, "7"),
    ];
    let set = modifiers.into_iter();
    let set = set.filter(|(modifier, _)| style.add_modifier.contains(*modifier));
    let set = set.map(|(_, code)| code.to_owned());
    let colour = match style.fg {
        Some(Color::Indexed(number)) => Some(format!("38;5;{number}")),
        _ => None,
    };
    let codes = std::iter::once("0".to_owned()).chain(set).chain(colour);
    let codes: Vec<String> = codes.collect();
    format!("\u{1b}[{}m", codes.join(";"))
}
