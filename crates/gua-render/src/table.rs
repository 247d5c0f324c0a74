//! One table, whatever the format: the cells hold numbers, and each format only decides how many digits it shows.

use std::fmt::Write as _;

use gua_model::text::{csv_cell, sanitize};
use gua_model::{Micros, Millijoules};
use serde_json::{Map, Value, json};
use unicode_width::UnicodeWidthStr as _;

use crate::report::kilowatthours;

/// Rows under named columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

/// What a column is called: in files by a key with its unit, on a page by words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub key: String,
    pub title: String,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Text(String),
    Count(u64),
    /// Hours of cards.
    Hours(f64),
    /// A share of one.
    Share(f64),
    /// Percent, as a reading has it.
    Percent(f64),
    Kilowatthours(f64),
    /// Any other measure; its unit is in the title.
    Number(f64),
    /// Nobody measured it.
    Missing,
}

impl Cell {
    #[must_use]
    pub fn share(share: Option<f64>) -> Self {
        share.map_or(Cell::Missing, Cell::Share)
    }

    /// Time on cards, where it is known.
    #[must_use]
    pub fn time(time: Option<Micros>) -> Self {
        time.map_or(Cell::Missing, |time| Cell::Hours(time.hours()))
    }

    /// Energy, where anybody counted it.
    #[must_use]
    pub fn energy(energy: Option<Millijoules>) -> Self {
        energy.map_or(Cell::Missing, |energy| {
            Cell::Kilowatthours(kilowatthours(energy))
        })
    }

    /// As people read it.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Cell::Text(text) => sanitize(text),
            Cell::Count(count) => count.to_string(),
            Cell::Hours(hours) => format!("{hours:.2}"),
            Cell::Share(share) => format!("{:.1}%", share * 100.0),
            Cell::Percent(percent) => format!("{percent:.1}%"),
            Cell::Kilowatthours(energy) => format!("{energy:.3}"),
            Cell::Number(number) => format!("{number:.1}"),
            Cell::Missing => "-".to_owned(),
        }
    }

    /// As programs read it: numbers with up to six decimals, nothing where nothing was measured.
    #[must_use]
    pub fn value(&self) -> Value {
        match self {
            Cell::Text(text) => json!(text),
            Cell::Count(count) => json!(count),
            Cell::Hours(number)
            | Cell::Share(number)
            | Cell::Percent(number)
            | Cell::Kilowatthours(number)
            | Cell::Number(number) => {
                json!(rounded(*number))
            }
            Cell::Missing => Value::Null,
        }
    }

    fn is_text(&self) -> bool {
        matches!(self, Cell::Text(_))
    }
}

/// Six decimals: a few milliseconds of an hour.
#[must_use]
pub fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

impl Table {
    #[must_use]
    pub fn new<const N: usize>(columns: [(&str, &str); N]) -> Self {
        let column = |(key, title): (&str, &str)| Column {
            key: key.to_owned(),
            title: title.to_owned(),
        };
        Self {
            columns: columns.map(column).into(),
            rows: Vec::new(),
        }
    }

    /// Some of its columns, by their places.
    #[must_use]
    pub fn only(&self, places: &[usize]) -> Self {
        let row = |row: &Vec<Cell>| {
            let cell = |place: &usize| row.get(*place).cloned().unwrap_or(Cell::Missing);
            places.iter().map(cell).collect()
        };
        let columns = places.iter().filter_map(|place| self.columns.get(*place));
        Self {
            columns: columns.cloned().collect(),
            rows: self.rows.iter().map(row).collect(),
        }
    }

    /// Columns side by side, two blanks between them, numbers to the right.
    #[must_use]
    pub fn text(&self, indent: usize) -> String {
        let shown: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| row.iter().map(Cell::shown).collect())
            .collect();
        let to_left: Vec<bool> = (0..self.columns.len())
            .map(|place| {
                self.rows
                    .iter()
                    .any(|row| row.get(place).is_some_and(Cell::is_text))
            })
            .collect();
        let width = |place: usize| {
            let cells = shown
                .iter()
                .filter_map(|row| row.get(place))
                .map(|cell| cell.width());
            cells
                .chain([self.columns[place].title.width()])
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = String::new();
        let titles: Vec<String> = self
            .columns
            .iter()
            .map(|column| column.title.clone())
            .collect();
        for row in std::iter::once(&titles).chain(&shown) {
            let mut line = " ".repeat(indent);
            for (place, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[place].saturating_sub(cell.width()));
                let gap = if place == 0 { "" } else { "  " };
                let _ = match to_left[place] {
                    true => write!(line, "{gap}{cell}{pad}"),
                    false => write!(line, "{gap}{pad}{cell}"),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// With a header line of keys; quotes only where they are needed.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text = String::new();
        let keys = self
            .columns
            .iter()
            .map(|column| csv_cell(&column.key).into_owned());
        line(&mut text, keys);
        for row in &self.rows {
            line(
                &mut text,
                row.iter().map(|cell| match cell.value() {
                    Value::String(text) => csv_cell(&text).into_owned(),
                    Value::Null => String::new(),
                    number => number.to_string(),
                }),
            );
        }
        text
    }

    /// A list of objects.
    #[must_use]
    pub fn json(&self) -> Value {
        let object = |row: &Vec<Cell>| {
            let keys = self.columns.iter().map(|column| column.key.clone());
            Value::Object(keys.zip(row.iter().map(Cell::value)).collect::<Map<_, _>>())
        };
        self.rows.iter().map(object).collect()
    }
}

fn line(text: &mut String, cells: impl Iterator<Item = String>) {
    text.push_str(&cells.collect::<Vec<_>>().join(","));
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([
            ("user", "user"),
            ("held_hours", "held h"),
            ("idle_share", "idle"),
        ]);
        let row =
            |name: &str, hours, share| vec![Cell::Text(name.into()), Cell::Hours(hours), share];
        table.rows.push(row("ada", 1.234_567_89, Cell::Share(0.5)));
        table.rows.push(row("김", 12.0, Cell::Missing));
        table
    }

    #[test]
    fn text_lines_up_by_what_a_terminal_shows() {
        assert_eq!(
            table().text(2),
            "  user  held h   idle\n  ada     1.23  50.0%\n  김     12.00      -\n"
        );
    }

    #[test]
    fn csv_and_json_have_the_same_numbers_and_nothing_for_nothing() {
        assert_eq!(
            table().csv(),
            "user,held_hours,idle_share\nada,1.234568,0.5\n김,12.0,\n"
        );
        let json = table().json();
        assert_eq!(json[0]["held_hours"], 1.234_568);
        assert_eq!(json[1]["idle_share"], Value::Null);
    }

    #[test]
    fn a_name_cannot_break_out_of_its_cell() {
        assert_eq!(csv_cell("a,\"b\"\n"), "\"a,\"\"b\"\"\u{fffd}\"");
        assert_eq!(csv_cell("=1+1"), "'=1+1");
        assert_eq!(csv_cell("-"), "-");
    }
}
