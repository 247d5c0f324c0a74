//! The table of processes or users. Columns are dropped one after the other when it gets narrow.

use gua_model::ProcessKind;
use gua_model::table::Align::{self, Left, Right};
use gua_model::table::{Cell, Column, Header, Table};
use gua_model::text::short_age;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget as _;

use super::style::Styles;
use crate::app::{App, Medium, View};
use crate::format::{self, bytes, clip};
use crate::rows::{ProcessRow, UserRow, user_name};

/// A column of this width. Columns with the highest `rank` are dropped first. Its key is the name by which lines are
/// sorted, if they can be.
const fn column<R>(
    (key, head): (&'static str, &'static str),
    (align, width, rank): (Align, usize, u8),
    cell: fn(&R) -> Cell,
) -> Column<R> {
    Column::new(key, head, cell).on_screen(align, u8::MAX - rank, Some(width))
}

const PROCESS: [Column<ProcessRow>; 11] = [
    column(("gpu", "GPU"), (Left, 5, 1), |row| row.gpu.clone().into()),
    column(("pid", "PID"), (Right, 8, 4), |row| match row.members {
        ..=1 => row.pid.to_string().into(),
        // The line of a job has the number of its processes instead.
        members => format!("{members} pids").into(),
    }),
    column(("user", "USER"), (Left, 10, 0), |row| {
        user_name(row.owner.as_ref()).into()
    }),
    column(("kind", "T"), (Left, 1, 10), |row| match row.kind {
        ProcessKind::Compute => "C".into(),
        ProcessKind::Graphics => "G".into(),
        ProcessKind::Both => "B".into(),
    }),
    column(("memory", "MEM"), (Right, 7, 2), |row| {
        row.memory.ok().map(bytes).into()
    }),
    column(("sm", "SM%"), (Right, 5, 5), |row| {
        row.sm.ok().flatten().map(|sm| u32::from(sm.get())).into()
    }),
    column(("cpu", "CPU%"), (Right, 5, 6), |row| row.cpu.into()),
    column(("ram", "RAM"), (Right, 6, 7), |row| {
        row.host_memory.map(bytes).into()
    }),
    column(("age", "AGE"), (Right, 7, 8), |row| {
        row.age.map(short_age).into()
    }),
    column(("workload", "JOB/POD/CONTAINER"), (Left, 17, 9), |row| {
        row.workload.clone().into()
    }),
    column(("name", "COMMAND"), (Left, 12, 3), |row| {
        let command = match row.command.as_str() {
            "" => &row.name,
            command => command,
        };
        format!("{}{command}", row.branch).into()
    }),
];

/// Returns the table of processes. For an ancestor, which is on no GPU itself, it has only the PID and the command.
fn processes(rows: &[ProcessRow]) -> Table {
    let mut table = Table::of(&PROCESS, rows);
    for (cells, row) in table.rows.iter_mut().zip(rows) {
        for (cell, column) in cells.iter_mut().zip(&PROCESS) {
            if row.is_ancestor && !matches!(column.key, "pid" | "name") {
                *cell = "".into();
            }
        }
    }
    table
}

const USER: [Column<UserRow>; 7] = [
    column(("user", "USER"), (Left, 12, 0), |row| {
        row.user.clone().into()
    }),
    column(("gpus", "GPUS"), (Right, 5, 1), |row| {
        row.gpus.len().to_string().into()
    }),
    column(("idle_held", "IDLE-HELD"), (Right, 10, 2), |row| {
        row.idle_held.len().to_string().into()
    }),
    column(("memory", "MEM"), (Right, 8, 3), |row| {
        let hidden = if row.hidden > 0 { "+?" } else { "" };
        row.memory.map(|memory| bytes(memory) + hidden).into()
    }),
    column(("sm", "SM%"), (Right, 5, 4), |row| row.sm.into()),
    column(("processes", "PROCS"), (Right, 6, 5), |row| {
        row.processes.to_string().into()
    }),
    column(("which", "WHICH"), (Left, 10, 6), |row| {
        row.gpus.join(" ").into()
    }),
];

pub(super) fn draw(app: &mut App, area: Rect, buffer: &mut Buffer, styles: Styles) {
    if area.height == 0 {
        return;
    }
    let Table { columns, rows } = match app.view {
        View::Users => Table::of(&USER, &app.user_rows()),
        View::Processes | View::Tree => processes(&app.process_rows()),
    };
    let widths = fit(&columns, area.width.into());
    let head = columns.iter().zip(&widths);
    let head = head.map(|(column, width)| head_of(column, *width, app));
    line(head, &columns, &widths, styles.bold()).render(Rect { height: 1, ..area }, buffer);
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
            filter => format!("nothing matches `{filter}`; Esc clears the filter"),
        };
        let (y, height) = (area.y + 1, area.height.min(2) - 1);
        let place = Rect { y, height, ..area };
        Line::styled(clip(&text, area.width.into()), styles.dim()).render(place, buffer);
    }
    let shown = rows.iter().enumerate().skip(app.table_top).take(room);
    for (y, (number, cells)) in (area.y + 1..).zip(shown) {
        let style = match number == app.selected && app.medium == Medium::Screen {
            true => styles.selected(),
            false => Style::new(),
        };
        let (cells, height) = (cells.iter().map(Cell::shown), 1);
        line(cells, &columns, &widths, style).render(Rect { y, height, ..area }, buffer);
    }
}

/// Below this width all columns are shortened.
const NARROW: usize = 40;

/// Returns the width of each column; zero for those that do not fit. The last one gets the remaining space.
fn fit(columns: &[Header], room: usize) -> Vec<usize> {
    let mut widths = vec![0; columns.len()];
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|place| std::cmp::Reverse(columns[*place].layout.priority));
    let mut used = 0;
    for place in order {
        // On a very narrow line short columns are better than few columns.
        let width = columns[place].layout.min_width.unwrap_or(0);
        let width = match (room < NARROW, width) {
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
    let mut rest = (room + 1).saturating_sub(used);
    // The last column, a command line or a list, gets some space before the names do.
    if let Some(last) = widths.iter_mut().rev().find(|width| **width > 0) {
        let more = rest.min(12);
        *last += more;
        rest -= more;
    }
    // Names of users and programs get the remaining space first.
    let growing: Vec<usize> = (0..columns.len())
        .filter(|place| widths[*place] >= 10 && columns[*place].layout.align == Left)
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

fn head_of(column: &Header, room: usize, app: &App) -> String {
    let is_sorted = app.view != View::Users && column.key == app.column;
    match (is_sorted && column.title.len() < room, app.descending) {
        (false, _) => column.title.clone(),
        (true, true) => format!("{}↓", column.title),
        (true, false) => format!("{}↑", column.title),
    }
}

fn line<'a>(
    cells: impl Iterator<Item = String>,
    columns: &[Header],
    widths: &[usize],
    style: Style,
) -> Line<'a> {
    let cells = cells.zip(columns).zip(widths);
    let cells = cells.filter(|(_, width)| **width > 0);
    let span = |((cell, column), width): ((String, &Header), &usize)| {
        let text = match column.layout.align {
            Right => format::right(&cell, *width),
            _ => format::left(&cell, *width),
        };
        Span::styled(format!("{text} "), style)
    };
    cells.map(span).collect()
}
