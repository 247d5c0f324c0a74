//! One line about the host: CPU, load and memory. It belongs to now, so past moments have none.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::style::Styles;
use crate::app::App;
use crate::format::{bytes, width};
use crate::spark::bar;

/// Minimum height of the screen below the first line that leaves room for this line.
pub(super) const ROOM: u16 = 12;

/// Width of a bar.
const BAR: usize = 10;

/// Returns the line, or `None` if nothing about the host is known.
pub(super) fn panel<'a>(app: &App, styles: Styles, room: usize) -> Option<Line<'a>> {
    let load = Some(app.surroundings.host).filter(|_| app.frozen.is_none())?;
    let mut parts: Vec<(String, Option<f64>)> = Vec::new();
    if let Some(percent) = load.cpu_percent {
        let share = f64::from(percent) / 100.0;
        parts.push((format!("cpu {percent:>3}%"), Some(share)));
    }
    if let Some((used, total)) = load.memory {
        #[expect(clippy::cast_precision_loss, reason = "for a bar of ten columns")]
        let share = (total.0 > 0).then(|| used.0 as f64 / total.0 as f64);
        let text = format!("ram {}/{}", bytes(used), bytes(total));
        parts.push((text, share));
    }
    if let Some(hundredths) = load.load {
        let (whole, rest) = (hundredths / 100, hundredths % 100);
        parts.push((format!("load {whole}.{rest:02}"), None));
    }
    if parts.is_empty() {
        return None;
    }
    let mut spans = vec![Span::styled("host".to_owned(), styles.bold())];
    let mut used = 4;
    for (text, share) in parts {
        let graph = share.map_or_else(String::new, |share| format!(" {}", bar(share, BAR)));
        let wide = 2 + width(&text) + width(&graph);
        if used + wide > room {
            break;
        }
        used += wide;
        let style = share.map_or(Style::new(), |share| styles.load(share));
        spans.push(Span::styled(format!("  {text}{graph}"), style));
    }
    Some(Line::from(spans))
}
