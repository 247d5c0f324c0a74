//! The listing for people: as many columns as the terminal has room for, the most telling ones last to go.

use anstyle::{AnsiColor, Style};
use gua_model::since::Start;
use gua_model::text::{clip, columns, short_age};
use gua_model::{Missing, Sample, State};
use std::time::Duration;

use super::row::{Row, Sign};
use crate::doctor::check::gigabytes;
use crate::look::people;

/// The sign of a card that is free and leased; nvgpu knows no leases.
const CLAIMED: &str = "[c]";

/// Between two columns.
const GAP: usize = 2;

/// A column: its heading, how narrow it may become, and which of them goes first where there is no room.
struct Column {
    title: &'static str,
    align: Align,
    narrowest: usize,
    /// The higher, the longer it stays.
    worth: u8,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

const fn column(title: &'static str, align: Align, narrowest: usize, worth: u8) -> Column {
    Column {
        title,
        align,
        narrowest,
        worth,
    }
}

/// In the order in which they stand. `narrowest` 0: it is never cut.
const COLUMNS: [Column; 14] = [
    column("", Align::Right, 0, 14),
    column("status", Align::Left, 0, 13),
    column("type", Align::Left, 12, 7),
    column("util.", Align::Right, 0, 12),
    column("mem. used", Align::Right, 0, 11),
    column("temp.", Align::Right, 0, 4),
    column("MHz", Align::Right, 0, 2),
    column("power", Align::Right, 0, 6),
    column("state", Align::Left, 0, 9),
    column("users", Align::Left, 8, 10),
    column("since", Align::Right, 0, 8),
    column("pids", Align::Left, 7, 3),
    column("cmd", Align::Left, 10, 5),
    column("uuid", Align::Left, 0, 1),
];

/// How much a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    Usual,
    /// Whole command lines, and UUIDs.
    Whole,
}

/// The table, with colours in it; whoever prints it drops them where they are not wanted.
#[must_use]
pub fn text(sample: &Sample, rows: &[Row<'_>], width: Option<usize>, detail: Detail) -> String {
    if rows.is_empty() {
        return "the driver knows no card\n".to_owned();
    }
    let cells: Vec<Vec<String>> = rows.iter().map(|row| cells(row, sample, detail)).collect();
    let shown = COLUMNS.len() - usize::from(detail == Detail::Usual);
    let natural: Vec<usize> = COLUMNS[..shown]
        .iter()
        .enumerate()
        .map(|(place, column)| {
            let longest = cells.iter().map(|cells| columns(&cells[place])).max();
            longest.unwrap_or(0).max(columns(column.title))
        })
        .collect();
    let widths = match width {
        None => natural.into_iter().map(Some).collect(),
        Some(width) => fitted(&natural, width),
    };
    let titles: Vec<String> = COLUMNS
        .iter()
        .map(|column| column.title.to_owned())
        .collect();
    let dashes: Vec<String> = widths
        .iter()
        .map(|width| "-".repeat(width.unwrap_or(0)))
        .collect();
    let mut text = String::new();
    for plain in [&titles, &dashes] {
        text.push_str(&line(plain, &widths, width));
        text.push('\n');
    }
    for (row, cells) in rows.iter().zip(&cells) {
        let style = style(row);
        text.push_str(&format!(
            "{style}{}{style:#}\n",
            line(cells, &widths, width)
        ));
    }
    text
}

/// Columns go, the least telling first, until the narrowest form of the others fits; then the long ones are cut until
/// all of it does.
fn fitted(natural: &[usize], width: usize) -> Vec<Option<usize>> {
    let narrowest = |place: usize| match COLUMNS[place].narrowest {
        0 => natural[place],
        narrowest => natural[place].min(narrowest),
    };
    let mut kept: Vec<usize> = (0..natural.len()).collect();
    let total = |kept: &[usize], width_of: &dyn Fn(usize) -> usize| {
        kept.iter().map(|place| width_of(*place)).sum::<usize>()
            + GAP * kept.len().saturating_sub(1)
    };
    while kept.len() > 2 && total(&kept, &narrowest) > width {
        let least = kept
            .iter()
            .copied()
            .min_by_key(|place| COLUMNS[*place].worth);
        kept.retain(|place| Some(*place) != least);
    }
    let mut widths: Vec<usize> = natural.to_vec();
    loop {
        let over = total(&kept, &|place| widths[place]).saturating_sub(width);
        let can_give = |place: &usize| widths[*place] > narrowest(*place);
        let longest = kept
            .iter()
            .copied()
            .filter(can_give)
            .max_by_key(|place| widths[*place]);
        match longest {
            Some(place) if over > 0 => widths[place] -= 1,
            _ => break,
        }
    }
    let of = |place: usize| kept.contains(&place).then_some(widths[place]);
    (0..natural.len()).map(of).collect()
}

fn line(cells: &[String], widths: &[Option<usize>], most: Option<usize>) -> String {
    let mut parts = Vec::new();
    for ((cell, column), width) in cells.iter().zip(&COLUMNS).zip(widths) {
        let Some(width) = *width else { continue };
        let cell = clip(cell, width);
        let padding = " ".repeat(width.saturating_sub(columns(&cell)));
        parts.push(match column.align {
            Align::Left => format!("{cell}{padding}"),
            Align::Right => format!("{padding}{cell}"),
        });
    }
    let line = parts.join(&" ".repeat(GAP));
    let line = line.trim_end();
    most.map_or_else(|| line.to_owned(), |most| clip(line, most))
}

fn cells(row: &Row<'_>, sample: &Sample, detail: Detail) -> Vec<String> {
    let dash = || "-".to_owned();
    let users = people::distinct(
        row.holders
            .iter()
            .map(|process| people::owner_and_workload(process)),
    );
    let pids: Vec<String> = row
        .holders
        .iter()
        .map(|process| process.pid.to_string())
        .collect();
    let index = match row.is_instance() {
        true => String::new(),
        false => row.index.to_string(),
    };
    let used = row.reading(|gpu| gpu.memory_used).map(gigabytes);
    let memory = match (used, row.gpu.map(|gpu| gpu.memory_total)) {
        (Some(used), Some(Ok(total))) => format!("{used}/{} GB", gigabytes(total)),
        (_, Some(Err(Missing::Unsupported))) if !row.is_instance() => "host memory".to_owned(),
        _ => dash(),
    };
    vec![
        index,
        match row.is_only_claimed() {
            true => CLAIMED.to_owned(),
            false => row.sign.text().to_owned(),
        },
        row.name(sample).unwrap_or_else(dash),
        row.reading(|gpu| gpu.util)
            .map_or_else(dash, |util| format!("{util:>3}")),
        memory,
        row.reading(|gpu| gpu.temperature)
            .map_or_else(dash, |degrees| format!("{}C", degrees.0)),
        row.reading(|gpu| gpu.sm_clock)
            .map_or_else(dash, |clock| clock.0.to_string()),
        row.reading(|gpu| gpu.power)
            .map_or_else(dash, |power| format!("{} W", power.whole_watts())),
        state(row, sample),
        match row.is_only_claimed() {
            true => claimed(row),
            false => users.join(", "),
        },
        row.oldest.map_or_else(String::new, short_age),
        pids.join(","),
        match detail {
            Detail::Usual => row
                .command()
                .map_or_else(String::new, |line| line.to_string()),
            Detail::Whole => row.commands().join("; "),
        },
        row.gpu.map_or_else(String::new, |gpu| gpu.uuid.to_string()),
    ]
}

/// Who has leased a card that nobody uses yet.
fn claimed(row: &Row<'_>) -> String {
    let claims = row.claims.iter().map(|claim| claim.text.clone());
    format!("claimed by {}", people::distinct(claims).join(", "))
}

/// The state and, where a daemon knows, for how long; `>` where it may be longer.
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

/// nvgpu's colours, and one for cards that are leased and not used yet.
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
    use super::*;

    #[test]
    fn columns_go_by_their_worth_and_what_stays_fits() {
        let natural = [1, 6, 23, 5, 12, 5, 4, 5, 14, 30, 5, 20, 28];
        let titles = |width: usize| {
            let widths = fitted(&natural, width);
            let kept = COLUMNS
                .iter()
                .zip(&widths)
                .filter(|(_, width)| width.is_some());
            let sum: usize = widths.iter().flatten().sum();
            let gaps = widths.iter().flatten().count().saturating_sub(1) * GAP;
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

    #[test]
    fn a_hangul_letter_takes_two_columns() {
        let check = |user: &str, most, expected: &str| {
            let cells = ["0", "[~]", user, "7 %"].map(str::to_owned);
            let widths = [Some(1), Some(6), Some(7), Some(5)];
            assert_eq!(line(&cells, &widths, most), expected, "{user}");
        };
        check("ada", None, "0  [~]     ada        7 %");
        check("김철수", None, "0  [~]     김철수     7 %");
        check("김수한무", None, "0  [~]     김수한…    7 %");
        check("김철수", Some(16), "0  [~]     김철…");
    }
}
