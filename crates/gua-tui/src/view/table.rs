//! The table of processes or users. Columns are dropped one after the other when it gets narrow.

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

/// A column. Those with the highest `rank` are dropped first.
struct TableColumn {
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

impl TableColumn {
    const fn left(head: &'static str, width: usize, rank: u8) -> Self {
        Self {
            head,
            width,
            side: Side::Left,
            sorts: None,
            rank,
        }
    }

    const fn right(head: &'static str, width: usize, rank: u8) -> Self {
        Self {
            side: Side::Right,
            ..Self::left(head, width, rank)
        }
    }

    const fn sorted_by(self, column: Column) -> Self {
        Self {
            sorts: Some(column),
            ..self
        }
    }
}

const PROCESS: [TableColumn; 9] = [
    TableColumn::left("GPU", 5, 1).sorted_by(Column::Gpu),
    TableColumn::right("PID", 8, 4).sorted_by(Column::Pid),
    TableColumn::left("USER", 10, 0).sorted_by(Column::User),
    TableColumn::left("T", 1, 8),
    TableColumn::right("MEM", 7, 2).sorted_by(Column::Memory),
    TableColumn::right("SM%", 5, 5).sorted_by(Column::Sm),
    TableColumn::right("AGE", 7, 6).sorted_by(Column::Age),
    TableColumn::left("NAME", 12, 3).sorted_by(Column::Name),
    TableColumn::left("JOB/POD/CONTAINER", 17, 7),
];

const USER: [TableColumn; 7] = [
    TableColumn::left("USER", 12, 0),
    TableColumn::right("GPUS", 5, 1),
    TableColumn::right("IDLE-HELD", 10, 2),
    TableColumn::right("MEM", 8, 3),
    TableColumn::right("SM%", 5, 4),
    TableColumn::right("PROCS", 6, 5),
    TableColumn::left("WHICH", 10, 6),
];

pub(super) fn draw(app: &mut App, area: Rect, buffer: &mut Buffer, styles: Styles) {
    if area.height == 0 {
        return;
    }
    let (columns, rows): (&[TableColumn], Vec<Vec<String>>) = match app.view {
        View::Users => (&USER, app.user_rows().iter().map(user_cells).collect()),
        View::Processes | View::Tree => (
            &PROCESS,
            app.process_rows().iter().map(process_cells).collect(),
        ),
    };
    let widths = fit(columns, area.width.into());
    let head = columns.iter().zip(&widths);
    let head: Vec<String> = head
        .map(|(column, width)| head_of(column, *width, app))
        .collect();
    line(&head, columns, &widths, styles.heading()).render(Rect { height: 1, ..area }, buffer);
    let room = usize::from(area.height - 1);
    app.page = room.max(1);
    app.selected = app.selected.min(rows.len().saturating_sub(1));
    // Keep the selected line visible.
    app.table_top = app.table_top.min(rows.len().saturating_sub(room));
    let lowest = (app.selected + 1).saturating_sub(room.max(1));
    app.table_top = app.table_top.clamp(lowest, app.selected);
    if rows.is_empty() {
        let text = match app.filter.as_str() {
            "" => "no process on any GPU".to_owned(),
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
        line(cells, columns, &widths, style).render(
            Rect {
                y,
                height: 1,
                ..area
            },
            buffer,
        );
    }
}

/// Below this width all columns are shortened.
const NARROW: usize = 40;

/// Returns the width of each column; zero for those that do not fit. The last one gets the remaining space.
fn fit(columns: &[TableColumn], room: usize) -> Vec<usize> {
    let mut widths = vec![0; columns.len()];
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|place| columns[*place].rank);
    let mut used = 0;
    for place in order {
        // On a very narrow line short columns are better than few columns.
        let width = match (room < NARROW, columns[place].width) {
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
    // Names of users and programs get the remaining space first.
    let growing: Vec<usize> = (0..columns.len())
        .filter(|place| widths[*place] >= 10 && columns[*place].side == Side::Left)
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

fn head_of(column: &TableColumn, room: usize, app: &App) -> String {
    match column.sorts {
        Some(sorts) if sorts == app.column && column.head.len() < room => {
            format!("{}{}", column.head, if app.descending { "↓" } else { "↑" })
        }
        _ => column.head.to_owned(),
    }
}

fn line<'a>(cells: &[String], columns: &[TableColumn], widths: &[usize], style: Style) -> Line<'a> {
    let mut spans = Vec::new();
    for ((cell, column), width) in cells.iter().zip(columns).zip(widths) {
        if *width == 0 {
            continue;
        }
        let text = match column.side {
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
        row.gpus.len().to_string(),
        row.idle_held.len().to_string(),
        memory,
        row.sm
            .map_or_else(|| MISSING.to_owned(), |sm| sm.to_string()),
        row.processes.to_string(),
        row.gpus.join(" "),
    ]
}
