//! The table of processes or users. Columns go one after the other when it gets narrow.

use gua_model::ProcessKind;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget as _;

use super::style::Styles;
use crate::app::{App, Medium, View};
use crate::format::{MISSING, bytes, clip, left, right};
use crate::rows::{Column, ProcessRow, UserRow, user_name};
use gua_model::text::short_age;

/// A column: its head, its width, whether numbers stand in it, what it sorts by, and how dear it is (0 stays longest).
struct Shape {
    head: &'static str,
    width: usize,
    side: Side,
    sorts: Option<Column>,
    rank: u8,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

const PROCESS: [Shape; 9] = [
    Shape {
        head: "GPU",
        width: 5,
        side: Side::Left,
        sorts: Some(Column::Gpu),
        rank: 1,
    },
    Shape {
        head: "PID",
        width: 8,
        side: Side::Right,
        sorts: Some(Column::Pid),
        rank: 4,
    },
    Shape {
        head: "USER",
        width: 10,
        side: Side::Left,
        sorts: Some(Column::User),
        rank: 0,
    },
    Shape {
        head: "T",
        width: 1,
        side: Side::Left,
        sorts: None,
        rank: 8,
    },
    Shape {
        head: "MEM",
        width: 7,
        side: Side::Right,
        sorts: Some(Column::Memory),
        rank: 2,
    },
    Shape {
        head: "SM%",
        width: 5,
        side: Side::Right,
        sorts: Some(Column::Sm),
        rank: 5,
    },
    Shape {
        head: "AGE",
        width: 7,
        side: Side::Right,
        sorts: Some(Column::Age),
        rank: 6,
    },
    Shape {
        head: "NAME",
        width: 12,
        side: Side::Left,
        sorts: Some(Column::Name),
        rank: 3,
    },
    Shape {
        head: "JOB/POD/CONTAINER",
        width: 17,
        side: Side::Left,
        sorts: None,
        rank: 7,
    },
];

const USER: [Shape; 7] = [
    Shape {
        head: "USER",
        width: 12,
        side: Side::Left,
        sorts: None,
        rank: 0,
    },
    Shape {
        head: "GPUS",
        width: 5,
        side: Side::Right,
        sorts: None,
        rank: 1,
    },
    Shape {
        head: "IDLE-HELD",
        width: 10,
        side: Side::Right,
        sorts: None,
        rank: 2,
    },
    Shape {
        head: "MEM",
        width: 8,
        side: Side::Right,
        sorts: None,
        rank: 3,
    },
    Shape {
        head: "SM%",
        width: 5,
        side: Side::Right,
        sorts: None,
        rank: 4,
    },
    Shape {
        head: "PROCS",
        width: 6,
        side: Side::Right,
        sorts: None,
        rank: 5,
    },
    Shape {
        head: "WHICH",
        width: 10,
        side: Side::Left,
        sorts: None,
        rank: 6,
    },
];

pub(super) fn draw(app: &mut App, area: Rect, buffer: &mut Buffer, styles: Styles) {
    if area.height == 0 {
        return;
    }
    let (shapes, rows): (&[Shape], Vec<Vec<String>>) = match app.view {
        View::Users => (&USER, app.user_rows().iter().map(user_cells).collect()),
        View::Processes | View::Tree => (
            &PROCESS,
            app.process_rows().iter().map(process_cells).collect(),
        ),
    };
    let widths = fit(shapes, area.width.into());
    let head = shapes.iter().zip(&widths);
    let head: Vec<String> = head
        .map(|(shape, width)| head_of(shape, *width, app))
        .collect();
    line(&head, shapes, &widths, styles.heading()).render(Rect { height: 1, ..area }, buffer);
    let room = usize::from(area.height - 1);
    app.page = room.max(1);
    app.selected = app.selected.min(rows.len().saturating_sub(1));
    // The chosen line stays in sight.
    app.table_top = app.table_top.min(rows.len().saturating_sub(room));
    let lowest = (app.selected + 1).saturating_sub(room.max(1));
    app.table_top = app.table_top.clamp(lowest, app.selected);
    if rows.is_empty() {
        let text = match app.filter.as_str() {
            "" => "no process holds a card".to_owned(),
            filter => format!("nothing matches `{filter}`; Esc takes the filter away"),
        };
        let place = Rect {
            y: area.y + 1,
            height: area.height.min(2) - 1,
            ..area
        };
        Line::styled(clip(&text, area.width.into()), styles.dim()).render(place, buffer);
    }
    for (place, (number, cells)) in rows
        .iter()
        .enumerate()
        .skip(app.table_top)
        .take(room)
        .enumerate()
    {
        let y = area.y + 1 + u16::try_from(place).unwrap_or(u16::MAX);
        let style = if number == app.selected && app.medium == Medium::Screen {
            styles.selected()
        } else {
            Style::new()
        };
        line(cells, shapes, &widths, style).render(
            Rect {
                y,
                height: 1,
                ..area
            },
            buffer,
        );
    }
}

/// Below this many columns everything is cut.
const NARROW: usize = 40;

/// The width of each column; zero for those that had to go. What is left goes to the last.
fn fit(shapes: &[Shape], room: usize) -> Vec<usize> {
    let mut widths = vec![0; shapes.len()];
    let mut order: Vec<usize> = (0..shapes.len()).collect();
    order.sort_by_key(|place| shapes[*place].rank);
    let mut used = 0;
    for place in order {
        // On a very narrow line a little of everything is worth more than all of one thing.
        let width = match (room < NARROW, shapes[place].width) {
            (true, 5) => 3,
            (true, 7) => 6,
            (true, 10..) => 9,
            (_, width) => width,
        };
        if used + width + 1 > room + 1 {
            break;
        }
        widths[place] = width;
        used += width + 1;
    }
    let rest = (room + 1).saturating_sub(used);
    // Names of people and programs are what runs over.
    let growing: Vec<usize> = (0..shapes.len())
        .filter(|place| widths[*place] >= 10 && shapes[*place].side == Side::Left)
        .collect();
    let each = rest.checked_div(growing.len()).unwrap_or(0);
    for place in &growing {
        widths[*place] += each.min(20);
    }
    if let Some(last) = widths.iter_mut().rev().find(|width| **width > 0) {
        *last += rest.saturating_sub(each.min(20) * growing.len());
    }
    widths
}

fn head_of(shape: &Shape, room: usize, app: &App) -> String {
    match shape.sorts {
        Some(column) if column == app.column && shape.head.len() < room => {
            format!("{}{}", shape.head, if app.descending { "↓" } else { "↑" })
        }
        _ => shape.head.to_owned(),
    }
}

fn line<'a>(cells: &[String], shapes: &[Shape], widths: &[usize], style: Style) -> Line<'a> {
    let mut spans = Vec::new();
    for ((cell, shape), width) in cells.iter().zip(shapes).zip(widths) {
        if *width == 0 {
            continue;
        }
        let text = match shape.side {
            Side::Left => left(cell, *width),
            Side::Right => right(cell, *width),
        };
        spans.push(Span::styled(format!("{text} "), style));
    }
    Line::from(spans)
}

fn process_cells(row: &ProcessRow) -> Vec<String> {
    let kind = match row.kind {
        ProcessKind::Compute => "C",
        ProcessKind::Graphics => "G",
        ProcessKind::Both => "B",
    };
    let name = format!("{}{}", row.branch, row.name);
    if row.is_ancestor {
        let mut cells = vec![String::new(); PROCESS.len()];
        cells[1] = row.pid.to_string();
        cells[7] = name;
        return cells;
    }
    vec![
        row.gpu.clone(),
        row.pid.to_string(),
        user_name(row.owner.as_ref()),
        kind.to_owned(),
        row.memory.map_or_else(|_| MISSING.to_owned(), bytes),
        row.sm
            .ok()
            .flatten()
            .map_or_else(|| MISSING.to_owned(), |sm| sm.get().to_string()),
        row.age.map_or_else(|| MISSING.to_owned(), short_age),
        name,
        row.workload.clone(),
    ]
}

fn user_cells(row: &UserRow) -> Vec<String> {
    let memory = match (row.memory, row.hidden) {
        (Some(memory), 0) => bytes(memory),
        (Some(memory), _) => format!("{}+?", bytes(memory)),
        (None, _) => MISSING.to_owned(),
    };
    vec![
        row.user.clone(),
        row.cards.len().to_string(),
        row.idle_held.len().to_string(),
        memory,
        row.sm
            .map_or_else(|| MISSING.to_owned(), |sm| sm.to_string()),
        row.processes.to_string(),
        row.cards.join(" "),
    ]
}
