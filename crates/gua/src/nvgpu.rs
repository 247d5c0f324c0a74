//! The program under the names `nvgpu` and `nvl`: the table and the list of free GPUs of nvgpu, with its rules and
//! wording but without its bugs (`46.0 %`, `nan`, a crash if a process is not visible).

use std::ffi::OsString;
use std::process::ExitCode;

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use clap::Parser as _;
use clap::error::ErrorKind;
use gua_model::pick::{FreeRule, LastUse, Wish};
use gua_model::text::sanitize;
use gua_model::{Bytes, Gpu, Place, Process, Sample};
use gua_probe::host::time::ticks_per_second;
use gua_probe::process::ProcRoot;
use gua_probe::process::command::command_line;
use jiff::SignedDuration;
use jiff::tz::TimeZone;

use crate::available::divide;
use crate::cli::{NvgpuArgs, NvgpuCommand};
use crate::commands::list::words::{ago, months_between};
use crate::dispatch::{VERSION, load};
use crate::failure::{self, Exit};
use crate::look::people;
use crate::{driver, output};

/// Runs `nvgpu` with the arguments after the name.
#[must_use]
pub fn nvgpu(arguments: &[OsString]) -> ExitCode {
    let words = std::iter::once(OsString::from("nvgpu")).chain(arguments.iter().cloned());
    let done = match NvgpuArgs::try_parse_from(words) {
        Ok(args) => act(&args.command),
        Err(error) => return answer(&error),
    };
    done.unwrap_or_else(|error| failure::report("nvgpu", &error))
}

/// Runs `nvl`, which is `nvgpu list`. Like the original it ignores its arguments. Unlike the original, which prints its
/// table, a single flag for help or the version is answered.
#[must_use]
pub fn nvl(arguments: &[OsString]) -> ExitCode {
    let only = match arguments {
        [only] => only.to_str(),
        _ => None,
    };
    let done = match only {
        Some("--version") => output::data(&format!("{VERSION}\n")),
        Some("-h" | "--help") => output::data(
            "usage: nvl [-h] [--version]\n\nShows the table of cards: gua under the name of the tool that it replaces, as \
             `nvgpu list`.\nIt takes no other arguments. `gua help list` tells what else there is.\n",
        ),
        _ => list(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report("nvl", &error),
    }
}

fn act(command: &NvgpuCommand) -> anyhow::Result<ExitCode> {
    match command {
        NvgpuCommand::Available { limit } => available(*limit)?,
        NvgpuCommand::List => list()?,
        NvgpuCommand::Version => output::data(&format!("{VERSION}\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints help and version to stdout, all other messages to stderr as usage errors.
fn answer(error: &clap::Error) -> ExitCode {
    let text = error.render().ansi().to_string();
    let written = match error.kind() {
        ErrorKind::DisplayHelp => output::data(&text),
        ErrorKind::DisplayVersion => output::data(&format!("{VERSION}\n")),
        _ => {
            output::talk(&text);
            return Exit::Usage.into();
        }
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report("nvgpu", &error),
    }
}

fn sample() -> anyhow::Result<Sample> {
    let loaded = load(&[])?;
    let settings = &loaded.settings;
    Ok(driver::sample(&mut driver::reader(settings))?)
}

/// Prints comma-separated indexes; if no GPU is free, an empty line, and exits with 0.
fn available(limit: Option<isize>) -> anyhow::Result<()> {
    let sample = sample()?;
    let wish = Wish {
        rule: FreeRule::MemoryAlone,
        ..Wish::default()
    };
    let (free, _) = divide(&sample, &wish, &LastUse::new());
    let has_number = |gpu: &&&Gpu| !matches!(gpu.place, Place::Instance { .. });
    let free: Vec<String> = free
        .iter()
        .filter(has_number)
        .map(|gpu| gpu.index.to_string())
        .collect();
    output::data(&format!("{}\n", limited(&free, limit).join(",")))
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

fn list() -> anyhow::Result<()> {
    let sample = sample()?;
    let is_coloured = AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
    output::data(&table(&sample, is_coloured))
}

const TITLES: [&str; 11] = [
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

fn table(sample: &Sample, is_coloured: bool) -> String {
    let mut rows: Vec<(u32, Row)> = sample
        .gpus
        .iter()
        .filter(|gpu| !matches!(gpu.place, Place::Instance { .. }))
        .map(|gpu| (gpu.index, row(gpu, sample, is_coloured)))
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

fn row(gpu: &Gpu, sample: &Sample, is_coloured: bool) -> Row {
    let processes = computing(gpu, sample);
    let users: Vec<String> = processes.iter().map(|process| user(process)).collect();
    let users = users.join(",");
    let pids: Vec<String> = processes
        .iter()
        .map(|process| process.pid.to_string())
        .collect();
    let (status, color) = match users.as_str() {
        "?" => ("[!]", AnsiColor::Red),
        "" if gpu.compute_list.is_ok() => ("[ ]", AnsiColor::Green),
        "" => ("[!]", AnsiColor::Red),
        _ => ("[~]", AnsiColor::Blue),
    };
    let missing = || "N/A".to_owned();
    let util = gpu.util.map_or_else(
        |_| missing(),
        |util| match is_coloured {
            true => format!("{:>3} %", util.get()),
            // Without colors, the table of the original removes the padding.
            false => format!("{} %", util.get()),
        },
    );
    Row {
        color,
        cells: vec![
            gpu.index.to_string(),
            status.to_owned(),
            gpu.name
                .as_ref()
                .map_or_else(|_| missing(), |name| sanitize(name)),
            util,
            gpu.memory_used_with_reserved()
                .map_or_else(|_| missing(), |bytes| format!("{}GB", gigabytes(bytes))),
            gpu.temperature
                .map_or_else(|_| missing(), |degrees| degrees.0.to_string()),
            gpu.sm_clock
                .map_or_else(|_| missing(), |clock| clock.0.to_string()),
            users,
            since(&processes, sample),
            pids.join(","),
            command(&processes),
        ],
    }
}

/// Row of a GPU that cannot be read at all.
fn lost(index: u32) -> Row {
    let missing = || "N/A".to_owned();
    let (status, empty) = ("[!]".to_owned(), String::new);
    Row {
        color: AnsiColor::Red,
        cells: vec![
            index.to_string(),
            status,
            missing(),
            missing(),
            missing(),
            missing(),
            missing(),
            empty(),
            empty(),
            empty(),
            empty(),
        ],
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
    let own = process
        .identity
        .as_ref()
        .ok()
        .and_then(|who| who.own.as_ref().ok());
    own.map_or_else(
        || "?".to_owned(),
        |user| {
            user.name
                .as_deref()
                .map_or_else(|| user.uid.to_string(), sanitize)
        },
    )
}

/// Formats bytes in units of 10^9 bytes, with one or two decimals.
fn gigabytes(bytes: Bytes) -> String {
    #[expect(
        clippy::cast_precision_loss,
        reason = "two decimals of a gigabyte are shown"
    )]
    let text = format!("{:.2}", bytes.0 as f64 / 1e9);
    match text.strip_suffix('0') {
        Some(shorter) => shorter.to_owned(),
        None => text,
    }
}

fn since(processes: &[&Process], sample: &Sample) -> String {
    let identities = processes
        .iter()
        .filter_map(|process| process.identity.as_ref().ok());
    let ages = identities.filter_map(|who| people::age(who, sample, ticks_per_second()));
    let Some(age) = ages.max() else {
        return String::new();
    };
    let now = sample.at.to_zoned(TimeZone::UTC);
    let length = SignedDuration::try_from(age).unwrap_or_default();
    let months = now
        .checked_sub(length)
        .map_or(0, |then| months_between(&then, &now));
    ago(age, months)
}

fn command(processes: &[&Process]) -> String {
    let root = ProcRoot::default();
    let lines = processes.iter().filter_map(|process| {
        let identity = process.identity.as_ref().ok()?;
        command_line(&root, &identity.key).ok()
    });
    let first = lines.map(|line| line.in_short().to_string()).next();
    first.unwrap_or_default()
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
