//! Table of `gua list`: as many columns as fit the terminal; the least important ones are dropped first.

use anstyle::{AnsiColor, Style};
use gua_model::since::Start;
use gua_model::table::{Align, Cell, Column, Table, Underline};
use gua_model::text::short_age;
use gua_model::{Missing, Sample, State};
use std::time::Duration;

use super::row::{Row, Sign};
use crate::look::people;
use gua_model::text::gigabytes;

/// Sign of a GPU that is free but leased; nvgpu has no leases.
const CLAIMED: &str = "[c]";

/// Level of detail of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    Usual,
    /// Full command lines and UUIDs.
    Whole,
}

/// Formatted line of the table.
struct Line {
    index: Option<u32>,
    status: &'static str,
    name: Option<String>,
    util: Option<String>,
    memory: Option<String>,
    temperature: Option<String>,
    clock: Option<u32>,
    power: Option<String>,
    state: String,
    users: String,
    oldest: String,
    pids: String,
    command: String,
    uuid: String,
}

const fn column(
    title: &'static str,
    align: Align,
    min_width: Option<usize>,
    priority: u8,
    cell: fn(&Line) -> Cell,
) -> Column<Line> {
    Column::new(title, title, cell).on_screen(align, priority, min_width)
}

/// Columns of `gua list` from left to right.
const COLUMNS: [Column<Line>; 14] = [
    column("", Align::Right, None, 14, |line| {
        line.index
            .map(|index| index.to_string())
            .unwrap_or_default()
            .into()
    }),
    column("status", Align::Left, None, 13, |line| line.status.into()),
    column("type", Align::Left, Some(12), 7, |line| {
        line.name.clone().into()
    }),
    column("util.", Align::Right, None, 12, |line| {
        line.util.clone().into()
    }),
    column("mem. used", Align::Right, None, 11, |line| {
        line.memory.clone().into()
    }),
    column("temp.", Align::Right, None, 4, |line| {
        line.temperature.clone().into()
    }),
    column("MHz", Align::Right, None, 2, |line| line.clock.into()),
    column("power", Align::Right, None, 6, |line| {
        line.power.clone().into()
    }),
    column("state", Align::Left, None, 9, |line| {
        line.state.clone().into()
    }),
    column("users", Align::Left, Some(8), 10, |line| {
        line.users.clone().into()
    }),
    column("since", Align::Right, None, 8, |line| {
        line.oldest.clone().into()
    }),
    column("pids", Align::Left, Some(7), 3, |line| {
        line.pids.clone().into()
    }),
    column("cmd", Align::Left, Some(10), 5, |line| {
        line.command.clone().into()
    }),
    column("uuid", Align::Left, None, 1, |line| {
        line.uuid.clone().into()
    }),
];

/// Table with colors, which the output removes if they are disabled.
#[must_use]
pub fn text(sample: &Sample, rows: &[Row<'_>], width: Option<usize>, detail: Detail) -> String {
    if rows.is_empty() {
        return "the driver knows no card\n".to_owned();
    }
    let lines: Vec<Line> = rows.iter().map(|row| line(row, sample, detail)).collect();
    let shown = COLUMNS.len() - usize::from(detail == Detail::Usual);
    let table = Table::of(&COLUMNS[..shown], &lines);
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

fn line(row: &Row<'_>, sample: &Sample, detail: Detail) -> Line {
    let users = row.holders.iter();
    let users = people::distinct(users.map(|process| people::owner_and_workload(process)));
    let pids = row.holders.iter().map(|process| process.pid.to_string());
    let used = row.reading(|gpu| gpu.memory_used).map(gigabytes);
    let memory = match (used, row.gpu.map(|gpu| gpu.memory_total)) {
        (Some(used), Some(Ok(total))) => Some(format!("{used}/{} GB", gigabytes(total))),
        (_, Some(Err(Missing::Unsupported))) if !row.is_instance() => {
            Some("host memory".to_owned())
        }
        _ => None,
    };
    let power = row.reading(|gpu| gpu.power);
    let temperature = row.reading(|gpu| gpu.temperature);
    Line {
        index: (!row.is_instance()).then_some(row.index),
        status: match row.is_only_claimed() {
            true => CLAIMED,
            false => row.sign.text(),
        },
        name: row.name(sample),
        util: row.reading(|gpu| gpu.util).map(|util| format!("{util:>3}")),
        memory,
        temperature: temperature.map(|degrees| format!("{}C", degrees.0)),
        clock: row.reading(|gpu| gpu.sm_clock).map(|clock| clock.0),
        power: power.map(|power| format!("{} W", power.whole_watts())),
        state: state(row, sample),
        users: match row.is_only_claimed() {
            true => claimed(row),
            false => users.join(", "),
        },
        oldest: row.oldest.map_or_else(String::new, short_age),
        pids: pids.collect::<Vec<_>>().join(","),
        command: match detail {
            Detail::Usual => row
                .command()
                .map_or_else(String::new, |line| line.to_string()),
            Detail::Whole => row.commands().join("; "),
        },
        uuid: row.gpu.map_or_else(String::new, |gpu| gpu.uuid.to_string()),
    }
}

/// Holder of the lease on a GPU that is not used yet.
fn claimed(row: &Row<'_>) -> String {
    let claims = row.claims.iter().map(|claim| claim.text.clone());
    format!("claimed by {}", people::distinct(claims).join(", "))
}

/// State with its duration, if a daemon has recorded it; `>` marks a lower bound.
fn state(row: &Row<'_>, sample: &Sample) -> String {
    let Some(state) = row.state else {
        return "MIG".to_owned();
    };
    match (state, row.unseen, row.since) {
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
    let color = match row.sign {
        _ if row.is_only_claimed() => AnsiColor::Yellow,
        Sign::Free => AnsiColor::Green,
        Sign::Held => AnsiColor::Blue,
        Sign::Wrong => AnsiColor::Red,
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
            let layouts = COLUMNS.each_ref().map(|column| column.layout);
            let widths = fitted(&layouts, &natural, width);
            let kept = COLUMNS
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
