//! The table of processes or users. Columns are dropped one after the other when it gets narrow.

use gua_model::ProcessKind;
use gua_model::table;
use gua_model::table::Align::{Left, Right};
use gua_model::table::{Cell, Header, Table};
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

/// The table of processes. The key of a column is the name by which lines are sorted. Columns have these widths; those with
/// the lowest priority are dropped first. An ancestor, which is on no GPU itself, has only the PID and the command.
fn processes(rows: &[ProcessRow]) -> Table {
    let mut table = table!(row in rows =>
        "gpu" [Left, 19, 5] as "GPU" => row.gpu.as_str(),
        "pid" [Right, 16, 8] as "PID" => match row.members {
            ..=1 => row.pid.to_string(),
            // The line of a job has the number of its processes instead.
            members => format!("{members} pids"),
        },
        "user" [Left, 20, 10] as "USER" => user_name(row.owner.as_ref()),
        "kind" [Left, 10, 1] as "T" => match row.kind {
            ProcessKind::Compute => "C",
            ProcessKind::Graphics => "G",
            ProcessKind::Both => "B",
        },
        "memory" [Right, 18, 7] as "MEM" => row.memory.ok().map(bytes),
        "sm" [Right, 15, 5] as "SM%" => row.sm.ok().flatten().map(|sm| u32::from(sm.get())),
        "cpu" [Right, 14, 5] as "CPU%" => row.cpu,
        "ram" [Right, 13, 6] as "RAM" => row.host_memory.map(bytes),
        "age" [Right, 12, 7] as "AGE" => row.age.map(short_age),
        "workload" [Left, 11, 17] as "JOB/POD/CONTAINER" => row.workload.as_str(),
        "name" [Left, 17, 12] as "COMMAND" => match row.command.as_str() {
            "" => format!("{}{}", row.branch, row.name),
            command => format!("{}{command}", row.branch),
        },
    );
    let ancestors = table.rows.iter_mut().zip(rows);
    for (cells, _) in ancestors.filter(|(_, row)| row.is_ancestor) {
        for (cell, column) in cells.iter_mut().zip(&table.columns) {
            if !matches!(&*column.key, "pid" | "name") {
                *cell = "".into();
            }
        }
    }
    table
}

fn users(rows: &[UserRow]) -> Table {
    let hidden = |row: &UserRow| if row.hidden > 0 { "+?" } else { "" };
    table!(row in rows =>
        "user" [Left, 20, 12] as "USER" => row.user.as_str(),
        "gpus" [Right, 19, 5] as "GPUS" => row.gpus.len(),
        "idle_held" [Right, 18, 10] as "IDLE-HELD" => row.idle_held.len(),
        "memory" [Right, 17, 8] as "MEM" => row.memory.map(|memory| bytes(memory) + hidden(row)),
        "sm" [Right, 16, 5] as "SM%" => row.sm,
        "processes" [Right, 15, 6] as "PROCS" => row.processes,
        "which" [Left, 14, 10] as "WHICH" => row.gpus.join(" "),
    )
}

pub(super) fn draw(app: &mut App, area: Rect, buffer: &mut Buffer, styles: Styles) {
    if area.height == 0 {
        return;
    }
    let Table { columns, rows } = match app.view {
        View::Users => users(&app.user_rows()),
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
