//! Table of `gua list`: as many columns as fit the terminal; the least important ones are dropped first.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use gua_model::since::Start;
use gua_model::table::{Align, Cell, Column, Table, Underline};
use gua_model::text::{gigabytes, short_age};
use gua_model::{Missing, ProcessKey, Sample, State};

use super::row::Row;
use super::{Status, people};

/// Sign of a GPU that is free but leased; nvgpu has no leases.
const CLAIMED: &str = "[c]";

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
    sample: &'a Sample,
    detail: Detail,
    commands: Commands<'a>,
}

/// Columns of `gua list` from left to right. The last two are hidden with fewer details.
fn columns<'a>() -> [Column<Line<'a>>; 14] {
    type Getter<'a> = fn(&Line<'a>) -> Cell;
    let left = |title, priority, min_width, cell: Getter<'a>| {
        Column::new(title, title, cell).on_screen(Align::Left, priority, min_width)
    };
    let right = |title, priority, cell: Getter<'a>| {
        Column::new(title, title, cell).on_screen(Align::Right, priority, None)
    };
    [
        right("", 14, |line| match line.row.is_instance() {
            true => "".into(),
            false => line.row.index.to_string().into(),
        }),
        left("status", 13, None, |line| sign(line.row).into()),
        left("type", 7, Some(12), |line| {
            line.row.name(line.sample).into()
        }),
        right("util.", 12, |line| {
            let util = line.row.reading(|gpu| gpu.util);
            util.map(|util| format!("{util:>3}")).into()
        }),
        right("mem. used", 11, |line| memory(line.row).into()),
        right("temp.", 4, |line| {
            let temperature = line.row.reading(|gpu| gpu.temperature);
            temperature.map(|degrees| format!("{}C", degrees.0)).into()
        }),
        right("MHz", 2, |line| {
            let clock = line.row.reading(|gpu| gpu.sm_clock);
            clock.map(|clock| clock.0).into()
        }),
        right("power", 6, |line| {
            let power = line.row.reading(|gpu| gpu.power);
            power
                .map(|power| format!("{} W", power.whole_watts()))
                .into()
        }),
        left("state", 9, None, |line| state(line.row, line.sample).into()),
        left("users", 10, Some(8), |line| users(line.row).into()),
        right("since", 8, |line| {
            let oldest = line.row.condition.oldest;
            oldest.map_or_else(String::new, short_age).into()
        }),
        left("pids", 3, Some(7), |line| {
            let pids = line
                .row
                .holders
                .iter()
                .map(|process| process.pid.to_string());
            pids.collect::<Vec<_>>().join(",").into()
        }),
        left("cmd", 5, Some(10), |line| {
            command(line.row, line.detail, line.commands).into()
        }),
        left("uuid", 1, None, |line| {
            let uuid = line.row.gpu.map(|gpu| gpu.uuid.to_string());
            uuid.unwrap_or_default().into()
        }),
    ]
}

/// Looks up the command line of a process; `None` if it is not visible.
pub type Commands<'a> = &'a dyn Fn(&ProcessKey, Detail) -> Option<String>;

/// Table with colors, which the output removes if they are disabled.
#[must_use]
pub fn text(
    sample: &Sample,
    rows: &[Row<'_>],
    width: Option<usize>,
    detail: Detail,
    commands: Commands<'_>,
) -> String {
    if rows.is_empty() {
        return "no GPU found\n".to_owned();
    }
    let line = |row| Line {
        row,
        sample,
        detail,
        commands,
    };
    let lines: Vec<Line<'_>> = rows.iter().map(line).collect();
    let columns = columns();
    let hidden = match detail {
        Detail::WithoutCommands => 2,
        Detail::Usual => 1,
        Detail::Whole => 0,
    };
    let shown = columns.len() - hidden;
    let table = Table::of(&columns[..shown], &lines);
    // The headings and the dashes below them are not colored.
    let styles = [None, None].into_iter();
    let styles = styles.chain(rows.iter().map(|row| Some(style(row))));
    let lines = table.lines(width, Underline::Yes).zip(styles);
    lines
        .map(|(line, style)| match style {
            None => format!("{line}\n"),
            Some(style) => format!("{style}{line}{style:#}\n"),
        })
        .collect()
}

/// Sign of nvgpu, or that of a GPU that is leased but not used yet.
fn sign(row: &Row<'_>) -> &'static str {
    match row.condition.status {
        _ if row.is_only_claimed() => CLAIMED,
        Status::Free => "[ ]",
        Status::Held => "[~]",
        Status::Wrong => "[!]",
    }
}

fn memory(row: &Row<'_>) -> Option<String> {
    let used = row.reading(|gpu| gpu.memory_used).map(gigabytes);
    match (used, row.gpu?.memory_total) {
        (Some(used), Ok(total)) => Some(format!("{used}/{} GB", gigabytes(total))),
        (_, Err(Missing::Unsupported)) if !row.is_instance() => Some("host memory".to_owned()),
        _ => None,
    }
}

/// Command line of the first visible holder, or those of all holders in PID order, with `?` for one that is not visible.
fn command(row: &Row<'_>, detail: Detail, commands: Commands<'_>) -> String {
    let lines = row.holders.iter().map(|process| {
        let identity = process.identity.as_ref().ok()?;
        commands(&identity.key, detail)
    });
    match detail {
        Detail::Usual | Detail::WithoutCommands => lines.flatten().next().unwrap_or_default(),
        Detail::Whole => {
            let lines = lines.map(|line| line.unwrap_or_else(|| "?".to_owned()));
            lines.collect::<Vec<_>>().join("; ")
        }
    }
}

/// Owners of the holders, or of the lease on a GPU that is not used yet.
fn users(row: &Row<'_>) -> String {
    if row.is_only_claimed() {
        let claims = row.claims.iter().map(|claim| claim.text.clone());
        return format!("claimed by {}", people::distinct(claims).join(", "));
    }
    let users = row.holders.iter();
    let users = users.map(|process| people::owner_and_workload(process));
    people::distinct(users).join(", ")
}

/// State with its duration, if a daemon has recorded it; `>` marks a lower bound.
fn state(row: &Row<'_>, sample: &Sample) -> String {
    let Some(state) = row.condition.state else {
        return "MIG".to_owned();
    };
    match (state, row.condition.unobserved, row.condition.since) {
        (State::Unobserved, Some(Missing::Gone), _) => "lost".to_owned(),
        (State::Unobserved, Some(Missing::Denied), _) => "no access".to_owned(),
        (_, _, Some(since)) => {
            let age = Duration::try_from(sample.at.duration_since(since.at)).unwrap_or_default();
            let bound = match since.start {
                Start::Seen => "",
                Start::AtLatest => ">",
            };
            format!("{state} {bound}{}", short_age(age))
        }
        _ => state.as_str().to_owned(),
    }
}

/// Colors of nvgpu, and one more for GPUs that are leased but not used yet.
fn style(row: &Row<'_>) -> Style {
    let color = match row.condition.status {
        _ if row.is_only_claimed() => AnsiColor::Yellow,
        Status::Free => AnsiColor::Green,
        Status::Held => AnsiColor::Blue,
        Status::Wrong => AnsiColor::Red,
    };
    Style::new().fg_color(Some(color.into()))
}

#[cfg(test)]
mod tests {
    use gua_model::table::fitted;

    use super::*;

    #[test]
    fn columns_are_dropped_by_priority_and_the_rest_fits() {
        let natural = [1, 6, 23, 5, 12, 5, 4, 5, 14, 30, 5, 20, 28];
        let titles = |width: usize| {
            let columns = columns();
            let layouts = columns.each_ref().map(|column| column.layout);
            let widths = fitted(&layouts, &natural, width);
            let kept = columns
                .iter()
                .zip(&widths)
                .filter(|(_, width)| width.is_some());
            let sum: usize = widths.iter().flatten().sum();
            let gaps = widths.iter().flatten().count().saturating_sub(1) * 2;
            assert!(sum + gaps <= width, "{width}");
            kept.map(|(column, _)| column.title)
                .collect::<Vec<_>>()
                .join("|")
        };
        assert_eq!(
            titles(300),
            "|status|type|util.|mem. used|temp.|MHz|power|state|users|since|pids|cmd"
        );
        assert_eq!(titles(80), "|status|type|util.|mem. used|state|users|since");
        assert_eq!(titles(40), "|status|util.|mem. used|users");
        assert_eq!(titles(20), "|status|util.");
    }
}
