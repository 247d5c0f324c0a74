//! Output of nvgpu: its table, its list of free GPUs and the report of its agent, with its rules and wording but without its bugs (`46.0 %`, `nan`,
//! a crash if a process is not visible).

mod ago;
pub mod cluster;

use anstyle::{AnsiColor, Style};
use gua_model::pick::{Criteria, FreeRule, LastUse, obstacle};
use gua_model::text::sanitize;
use gua_model::unit::float;
use gua_model::{Bytes, Gpu, Place, Process, ProcessKey, Sample, User};
use gua_wire::nvgpu::{AgentGpu, AgentMemory};
use jiff::SignedDuration;
use jiff::tz::TimeZone;

use self::ago::{ago, months_between};

/// Returns the line of `nvgpu available`: comma-separated indexes, empty if no GPU is free.
pub fn available(sample: &Sample, limit: Option<isize>) -> String {
    let criteria = Criteria {
        rule: FreeRule::MemoryAlone,
        ..Criteria::default()
    };
    let is_free = |gpu: &&Gpu| obstacle(gpu, &criteria, &LastUse::new()).is_none();
    let free = whole(sample).filter(is_free);
    let free: Vec<String> = free.map(|gpu| gpu.index.to_string()).collect();
    format!("{}\n", limited(&free, limit).join(","))
}

/// Applies the limit like the original: `None` and 0 mean no limit, a negative number omits that many at the end.
fn limited(free: &[String], limit: Option<isize>) -> &[String] {
    let length = free.len();
    let most = match limit {
        None | Some(0) => length,
        Some(limit @ 1..) => limit.unsigned_abs().min(length),
        Some(limit) => length.saturating_sub(limit.unsigned_abs()),
    };
    &free[..most]
}

/// Titles of the table's columns; the index has none.
pub const TITLES: [&str; 11] = [
    "",
    "status",
    "type",
    "util.",
    "mem. used",
    "temp.",
    "MHz",
    "users",
    "since",
    "pids",
    "cmd",
];

/// Line of the table with its color.
struct Row {
    color: AnsiColor,
    cells: Vec<String>,
}

/// Facts about processes that a sample does not contain.
#[derive(Clone, Copy)]
#[expect(
    missing_debug_implementations,
    reason = "a function has nothing to show"
)]
pub struct ProcessFacts<'a> {
    pub ticks_per_second: u64,
    /// Short command line of a process; `None` if it is not visible.
    pub command: &'a dyn Fn(&ProcessKey) -> Option<String>,
}

/// Returns the table of `nvgpu list`, with colors. Without colors, the original also removes the padding of numbers.
pub fn table(sample: &Sample, is_coloured: bool, facts: ProcessFacts<'_>) -> String {
    let mut rows: Vec<(u32, Row)> = whole(sample)
        .map(|gpu| (gpu.index, row(gpu, sample, is_coloured, facts)))
        .collect();
    for problem in &sample.problems {
        if let (None, Some(index)) = (&problem.gpu, problem.index)
            && rows.iter().all(|(other, _)| *other != index)
        {
            rows.push((index, lost(index)));
        }
    }
    rows.sort_by_key(|(index, _)| *index);
    let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    laid_out(&rows)
}

/// GPUs of a sample without MIG instances, which have no index.
fn whole(sample: &Sample) -> impl Iterator<Item = &Gpu> {
    let is_whole = |gpu: &&Gpu| !matches!(gpu.place, Place::Instance { .. });
    sample.gpus.iter().filter(is_whole)
}

/// Returns the GPUs of a host as nvgpu's agent reports them.
pub fn agent_gpus(sample: &Sample, facts: ProcessFacts<'_>) -> Vec<AgentGpu> {
    whole(sample)
        .map(|gpu| agent_gpu(gpu, sample, facts))
        .collect()
}

fn agent_gpu(gpu: &Gpu, sample: &Sample, facts: ProcessFacts<'_>) -> AgentGpu {
    let processes = computing(gpu, sample);
    let users: Vec<String> = processes.iter().map(|process| user(process)).collect();
    let pids = processes.iter().map(|process| process.pid.to_string());
    let total = gpu.memory_total.ok();
    AgentGpu {
        model: gpu.name.as_ref().ok().map(|name| sanitize(name)),
        is_available: processes.is_empty() && gpu.compute_list.is_ok(),
        pids: pids.collect::<Vec<_>>().join(","),
        users: users.join(","),
        running_since: since(&processes, sample, facts.ticks_per_second),
        utilization: gpu.util.ok().map(|util| util.get()),
        clock_mhz: gpu.sm_clock.ok().map(|clock| clock.0),
        temperature: gpu.temperature.ok().map(|degrees| degrees.0),
        cmd: command(&processes, facts),
        memory: gpu
            .memory_used_with_reserved()
            .ok()
            .map(|used| AgentMemory {
                total: total.map(|total| total.0),
                free: total.map(|total| total.0.saturating_sub(used.0)),
                used: used.0,
            }),
    }
}

/// State of a GPU in nvgpu's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Free,
    InUse,
    /// The processes or their user cannot be seen.
    Stuck,
}

impl Status {
    pub fn of(gpu: &AgentGpu) -> Self {
        match gpu.users.as_str() {
            "?" => Status::Stuck,
            "" if gpu.is_available => Status::Free,
            "" => Status::Stuck,
            _ => Status::InUse,
        }
    }

    fn mark(self) -> (&'static str, AnsiColor) {
        match self {
            Status::Free => ("[ ]", AnsiColor::Green),
            Status::InUse => ("[~]", AnsiColor::Blue),
            Status::Stuck => ("[!]", AnsiColor::Red),
        }
    }
}

/// Returns the cells of a GPU in nvgpu's table, in the order of [`TITLES`] after the index.
pub fn cells(gpu: &AgentGpu) -> [String; 10] {
    fn shown<T: std::fmt::Display>(value: Option<T>) -> String {
        value.map_or_else(|| "N/A".to_owned(), |value| value.to_string())
    }
    let text = |value: &Option<String>| value.as_deref().map(sanitize).unwrap_or_default();
    [
        Status::of(gpu).mark().0.to_owned(),
        shown(gpu.model.as_deref().map(sanitize)),
        shown(gpu.utilization.map(|util| format!("{util:>3} %"))),
        shown(
            gpu.memory
                .map(|memory| format!("{}GB", gigabytes(Bytes(memory.used)))),
        ),
        shown(gpu.temperature),
        shown(gpu.clock_mhz),
        sanitize(&gpu.users),
        text(&gpu.running_since),
        sanitize(&gpu.pids),
        text(&gpu.cmd),
    ]
}

fn row(gpu: &Gpu, sample: &Sample, is_coloured: bool, facts: ProcessFacts<'_>) -> Row {
    let shown = agent_gpu(gpu, sample, facts);
    let mut row = vec![gpu.index.to_string()];
    // Without colors, the table of the original removes the padding.
    row.extend(cells(&shown).map(|cell| match is_coloured {
        true => cell,
        false => cell.trim_start().to_owned(),
    }));
    Row {
        color: Status::of(&shown).mark().1,
        cells: row,
    }
}

/// Row of a GPU that cannot be read at all.
fn lost(index: u32) -> Row {
    let index = index.to_string();
    let cells = [
        &index, "[!]", "N/A", "N/A", "N/A", "N/A", "N/A", "", "", "", "",
    ];
    Row {
        color: AnsiColor::Red,
        cells: cells.map(str::to_owned).into(),
    }
}

/// Compute processes on a GPU and its MIG instances, which the original does not distinguish.
fn computing<'a>(gpu: &Gpu, sample: &'a Sample) -> Vec<&'a Process> {
    let is_of_it = |other: &&Gpu| other.uuid == gpu.uuid || other.place.parent() == Some(&gpu.uuid);
    let of_it = sample.gpus.iter().filter(is_of_it);
    of_it
        .flat_map(|gpu| &gpu.processes)
        .filter(|process| process.kind.computes())
        .collect()
}

/// User of a process; the UID if there is no name.
fn user(process: &Process) -> String {
    let identity = process.identity.as_ref().ok();
    match identity.and_then(|who| who.own.as_ref().ok()) {
        None => "?".to_owned(),
        Some(User { uid, name: None }) => uid.to_string(),
        Some(User {
            name: Some(name), ..
        }) => sanitize(name),
    }
}

/// Formats bytes in units of 10^9 bytes, with one or two decimals.
fn gigabytes(bytes: Bytes) -> String {
    let text = format!("{:.2}", float(bytes.0) / 1e9);
    match text.strip_suffix('0') {
        Some(shorter) => shorter.to_owned(),
        None => text,
    }
}

fn since(processes: &[&Process], sample: &Sample, ticks_per_second: u64) -> Option<String> {
    let identities = processes
        .iter()
        .filter_map(|process| process.identity.as_ref().ok());
    let ages = identities.filter_map(|who| who.age(sample.since_boot, ticks_per_second));
    let age = ages.max()?;
    let now = sample.at.to_zoned(TimeZone::UTC);
    let length = SignedDuration::try_from(age).unwrap_or_default();
    let months = now
        .checked_sub(length)
        .map_or(0, |then| months_between(&then, &now));
    Some(ago(age, months))
}

fn command(processes: &[&Process], facts: ProcessFacts<'_>) -> Option<String> {
    let keys = processes
        .iter()
        .filter_map(|process| Some(process.identity.as_ref().ok()?.key));
    let mut lines = keys.filter_map(|key| (facts.command)(&key));
    lines.next()
}

/// Formats the table: numbers right-aligned, text left-aligned, each column at least two wider than its title.
fn laid_out(rows: &[Row]) -> String {
    let letters = |text: &str| text.chars().count();
    let columns: Vec<(usize, bool)> = TITLES
        .iter()
        .enumerate()
        .map(|(place, title)| {
            let cells = || rows.iter().map(|row| row.cells[place].as_str());
            let longest = cells().map(letters).max().unwrap_or(0);
            let is_number = cells().any(|cell| !cell.is_empty()) && cells().all(is_number);
            (longest.max(letters(title) + 2), is_number)
        })
        .collect();
    let line =
        |cells: &[String], style: Style| {
            let padded = cells.iter().zip(&columns).enumerate().map(
                |(place, (cell, (width, is_number)))| {
                    let blanks = " ".repeat(width.saturating_sub(letters(cell)));
                    // The index of the GPU is not colored.
                    let cell = match place == 0 || cell.is_empty() {
                        true => cell.clone(),
                        false => format!("{style}{cell}{style:#}"),
                    };
                    if *is_number {
                        format!("{blanks}{cell}")
                    } else {
                        format!("{cell}{blanks}")
                    }
                },
            );
            let line = padded.collect::<Vec<_>>().join("  ");
            format!("{}\n", line.trim_end())
        };
    let plain = Style::new();
    let titles: Vec<String> = TITLES.iter().map(|title| (*title).to_owned()).collect();
    let rule: Vec<String> = columns
        .iter()
        .map(|(width, _)| "-".repeat(*width))
        .collect();
    let mut text = line(&titles, plain) + &line(&rule, plain);
    for row in rows {
        text.push_str(&line(
            &row.cells,
            Style::new().fg_color(Some(row.color.into())),
        ));
    }
    text
}

/// Whether a cell is an integer, possibly with thousands separators. An empty cell counts as a number.
fn is_number(text: &str) -> bool {
    let mut groups = text.split(',');
    let first = groups.next().unwrap_or_default();
    let are_digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let rest: Vec<&str> = groups.collect();
    are_digits(first)
        && (rest.is_empty() || (1..=3).contains(&first.len()))
        && rest
            .iter()
            .all(|group| group.len() == 3 && are_digits(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gigabytes_are_those_of_nvgpu() {
        let check = |bytes, expected: &str| assert_eq!(gigabytes(Bytes(bytes)), expected);
        check(0, "0.0");
        check(12_335_448_064, "12.34");
        check(22_000_000_000, "22.0");
        check(524_288_000, "0.52");
        check(500_000_000, "0.5");
        check(100_000_000_000, "100.0");
    }

    #[test]
    fn a_limit_counts_as_in_the_original() {
        let free: Vec<String> = ["0", "1", "2"].map(str::to_owned).into();
        let check = |limit, expected: &str| assert_eq!(limited(&free, limit).join(","), expected);
        check(None, "0,1,2");
        check(Some(0), "0,1,2");
        check(Some(2), "0,1");
        check(Some(9), "0,1,2");
        check(Some(-1), "0,1");
        check(Some(-9), "");
    }

    #[test]
    fn a_column_is_of_numbers_when_every_cell_is_one() {
        for number in ["", "7", "4194010", "123,456"] {
            assert!(is_number(number), "{number}");
        }
        for text in ["N/A", "4194010,4194011", "1,23", "?", "ada", "-1"] {
            assert!(!is_number(text), "{text}");
        }
    }
}
