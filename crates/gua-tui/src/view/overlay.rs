//! Windows over the screen: the help, and the confirmation of a signal.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Widget as _, Wrap};

use super::style::Styles;
use crate::app::{PendingSignal, Signal};
use crate::format::clip;

const HELP: &str = "\
q Esc Ctrl-C  quit                 space p  pause, and go on
? h           this help            ← →      back and forth in time
s S           sort by the next,    [ ]      ten minutes at once
              the last column      n        back to now
r             turn the order       ↑ ↓ j k  choose a line
/             filter: user, name,  g G      first and last line
              pid, job, gpu0       J K      scroll the GPUs
t             tree of processes    d        lines per GPU
u             per user             Tab      next view
x             signal your process  Ctrl-Z   to the shell

active: utilisation at or over the threshold.
idle-held: low utilisation, and a process holds memory.
free: no process holds the GPU. unobserved: it could not be read.
≥, \"at least\": it began before the first sample. ↓: throttled clocks.
- is a value that the driver does not report; it is not zero.";

fn centred(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    }
}

pub(super) fn help(area: Rect, buffer: &mut Buffer, styles: Styles) {
    let place = centred(area, 72, 18);
    let frame = Block::bordered()
        .title(" gua top: keys and words ")
        .border_style(styles.bold());
    Clear.render(place, buffer);
    Paragraph::new(HELP).block(frame).render(place, buffer);
}

pub(super) fn confirm(pending: &PendingSignal, area: Rect, buffer: &mut Buffer, styles: Styles) {
    let place = centred(area, 60, 7);
    let signals = Signal::ALL.map(|signal| match signal == pending.signal {
        true => format!("[{}]", signal.as_str()),
        false => format!(" {} ", signal.as_str()),
    });
    let PendingSignal {
        pid, name, owner, ..
    } = pending;
    let signal = pending.signal.as_str();
    let authority = if pending.is_own {
        ""
    } else {
        " as administrator"
    };
    let question = format!("Send {signal} to {pid} ({name}) of {owner}{authority}?");
    let lines = vec![
        Line::styled(clip(&question, 200), styles.bold()),
        Line::raw(""),
        Line::raw(format!("{}   ← → or t, i, k choose", signals.join(" "))),
        Line::raw("y sends it   n or Esc does not"),
    ];
    let frame = Block::bordered()
        .title(" signal ")
        .border_style(styles.bold());
    Clear.render(place, buffer);
    Paragraph::new(lines)
        .wrap(Wrap { trim: false })
        .block(frame)
        .render(place, buffer);
}
