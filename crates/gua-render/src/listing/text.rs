//! Table of `gua list`: a line for each process that holds a GPU, and one for each GPU without any. The state comes
//! first. As many columns are shown as fit the terminal; the least important ones are dropped first.

use std::time::Duration;

use anstyle::Style;
use gua_model::since::Start;
use gua_model::table;
use gua_model::table::{Cell, Table};
use gua_model::text::{gigabytes, short_age};
use gua_model::{Missing, Process, ProcessKey, Sample, State, Tone};

use super::row::{Row, distinct, owner_and_workload};
use crate::paint;

/// Level of detail of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Neither command lines nor UUIDs.
    WithoutCommands,
    Usual,
    /// Full command lines and UUIDs.
    Whole,
}

/// A line of the table.
struct Line<'a> {
    row: &'a Row<'a>,
    /// `None` for a GPU without holders.
    process: Option<&'a Process>,
    /// Whether this is the first line of its GPU, which has the readings of the GPU.
    is_first: bool,
}

/// Positions of the columns whose cells are painted.
const STATE: usize = 1;
const HEALTH: usize = 4;

/// The columns of `gua list` from left to right.
fn table(lines: &[Line<'_>], sample: &Sample, options: Options<'_>) -> Table {
    let mut table = table!(line in lines =>
        "GPU" [Left, 20] => line.of_gpu(label),
        "state" [Left, 19] => line.of_gpu(|row| state(row, sample)),
        "util" [Right, 18] => line.of_gpu(|row| row.reading(|gpu| gpu.util).map(|util| util.to_string())),
        "memory" [Right, 14] => line.of_gpu(memory),
        "health" [Left, 13, 6] => line.of_gpu(health),
        "user" [Left, 17, 6] => user(line),
        "program" [Left, 16, 8] => line.of_process(|process| process.identity.as_ref().ok()?.comm.clone().ok()),
        "held" [Right, 15] => line.of_process(|process| Some(format!("{} GB", gigabytes(process.memory.ok()?)))),
        "pid" [Right, 11] => line.of_process(|process| Some(process.pid.to_string())),
        "since" [Right, 12] => line.of_process(|process| {
            let identity = process.identity.as_ref().ok()?;
            Some(short_age(identity.age(sample.since_boot, options.ticks_per_second)?))
        }),
        "temp" [Right, 7] => line.of_gpu(|row| Some(format!("{}C", row.reading(|gpu| gpu.temperature)?.0))),
        "power" [Right, 8] => line.of_gpu(|row| Some(format!("{} W", row.reading(|gpu| gpu.power)?.whole_watts()))),
        "MHz" [Right, 2] => line.of_gpu(|row| Some(row.reading(|gpu| gpu.sm_clock)?.0)),
        "type" [Left, 9, 12] => line.of_gpu(|row| Some(row.name(sample)?.trim_start_matches("NVIDIA ").to_owned())),
    );
    if options.detail != Detail::WithoutCommands {
        table = table.beside(table!(line in lines =>
            "command" [Left, 10, 10] => line.of_process(|process| {
                (options.commands)(&process.identity.as_ref().ok()?.key, options.detail)
            }),
        ));
    }
    if options.detail == Detail::Whole {
        table = table.beside(table!(line in lines =>
            "uuid" [Left, 1] => line.of_gpu(|row| row.gpu.map(|gpu| gpu.uuid.to_string()).unwrap_or_default()),
        ));
    }
    table
}

impl Line<'_> {
    /// Cell about the GPU, which only its first line has.
    fn of_gpu<T: Into<Cell>>(&self, cell: impl FnOnce(&Row<'_>) -> T) -> Cell {
        match self.is_first {
            true => cell(self.row).into(),
            false => "".into(),
        }
    }

    /// Cell about the process; empty if there is none.
    fn of_process(&self, cell: impl FnOnce(&Process) -> Option<String>) -> Cell {
        self.process
            .map_or_else(|| "".into(), |process| cell(process).into())
    }
}

/// Looks up the command line of a process; `None` if it is not visible.
pub type Commands<'a> = &'a dyn Fn(&ProcessKey, Detail) -> Option<String>;

/// Options of the printed table.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "it holds a function")]
pub struct Options<'a> {
    /// Columns of the terminal; `None` if the lines may have any length.
    pub width: Option<usize>,
    pub detail: Detail,
    pub ticks_per_second: u64,
    pub commands: Commands<'a>,
}

/// Table with colors, which the output removes if they are disabled.
pub fn text(sample: &Sample, rows: &[Row<'_>], options: Options<'_>) -> String {
    if rows.is_empty() {
        return "no GPU found\n".to_owned();
    }
    let lines: Vec<Line<'_>> = rows.iter().flat_map(lines).collect();
    let table = table(&lines, sample, options);
    let painted = table.painted(options.width, |(row, column), cell| {
        let style = match row.and_then(|row| lines.get(row)) {
            None => Style::new().bold(),
            Some(line) => style(line, column),
        };
        format!("{style}{cell}{style:#}")
    });
    let mut out: String = painted.into_iter().map(|line| line + "\n").collect();
    for row in rows {
        for keep in &row.keeps {
            out.push_str(&format!("GPU {} is kept by {}\n", label(row), keep.text));
        }
    }
    out
}

fn lines<'a>(row: &'a Row<'a>) -> Vec<Line<'a>> {
    let line = |process, is_first| Line {
        row,
        process,
        is_first,
    };
    match row.holders.is_empty() {
        true => vec![line(None, true)],
        false => (0..)
            .zip(&row.holders)
            .map(|(place, process)| line(Some(*process), place == 0))
            .collect(),
    }
}

/// Style of a cell: the state and the faults stand out.
fn style(line: &Line<'_>, column: usize) -> Style {
    let has_fault = health(line.row).is_some_and(|health| health != "ok");
    match column {
        STATE if line.is_first => tone(line.row).map_or(Style::new().bold(), paint::style),
        HEALTH if line.is_first && has_fault => paint::style(Tone::Unhealthy),
        _ => Style::new(),
    }
}

/// Tone of a GPU's state; `None` for a GPU that is leased or divided.
fn tone(row: &Row<'_>) -> Option<Tone> {
    match (row.state?, row.unobserved) {
        _ if row.is_only_claimed() => None,
        (_, Some(Missing::Gone)) => Some(Tone::Unhealthy),
        // Nothing holds it, and yet its memory is in use. A fault is shown in its own column.
        (State::TrulyIdle, _) if !row.is_vacant => Some(Tone::HeldUnknown),
        (state, _) => Some(Tone::of(state)),
    }
}

/// Index of the GPU; an instance also has its own number.
fn label(row: &Row<'_>) -> String {
    row.gpu
        .map_or_else(|| row.index.to_string(), |gpu| gpu.place.label(row.index))
}

fn memory(row: &Row<'_>) -> Option<String> {
    let used = row.reading(|gpu| gpu.memory_used).map(gigabytes);
    match (used, row.gpu?.memory_total) {
        (Some(used), Ok(total)) => Some(format!("{used}/{} GB", gigabytes(total))),
        (_, Err(Missing::Unsupported)) if !row.is_instance() => Some("host memory".to_owned()),
        _ => None,
    }
}

fn health(row: &Row<'_>) -> Option<String> {
    row.health(|fault| fault.in_short(), ", ")
}

/// Owner of the process, or of the lease on a GPU that is not used yet.
fn user(line: &Line<'_>) -> String {
    if line.row.is_only_claimed() {
        let claims = line.row.claims.iter().map(|claim| claim.text.clone());
        return distinct(claims).join(", ");
    }
    line.process.map_or_else(String::new, owner_and_workload)
}

/// State with its duration, if a daemon has recorded it; `>` marks a lower bound. The duration of an idle GPU is the time
/// since it was last active. A GPU that nothing uses is called free; the column of its health says whether it is offered.
fn state(row: &Row<'_>, sample: &Sample) -> String {
    let Some(state) = row.state else {
        return "MIG".to_owned();
    };
    let name = match (state, row.unobserved) {
        _ if row.is_only_claimed() => return "claimed".to_owned(),
        (State::Unobserved, Some(Missing::Gone)) => return "lost".to_owned(),
        (State::Unobserved, Some(Missing::Denied)) => return "no access".to_owned(),
        (state, _) if row.is_vacant => state.in_listings(),
        (state, _) => state.as_str(),
    };
    if let Some(idle) = &row.idle {
        return format!("{name} {}", idle.longest.shown(sample.at));
    }
    let Some(since) = row.since else {
        return name.to_owned();
    };
    let age = Duration::try_from(sample.at.duration_since(since.at)).unwrap_or_default();
    let bound = match since.start {
        Start::Seen => "",
        Start::AtLatest => ">",
    };
    format!("{name} {bound}{}", short_age(age))
}

#[cfg(test)]
mod tests;
