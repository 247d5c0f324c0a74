//! Building blocks of JSON documents. Every document is a type that serde writes and schemars describes, so that the
//! published schemas in `docs/schema` cannot disagree with the program.
//!
//! The macro `rows!` declares the rows of a table once: the fields are the JSON keys, the CSV columns and the headings for people.

use gua_model::table::{Cell, Column, Header, Table, rounded};
use gua_model::{Micros, Millijoules, Period};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

macro_rules! measures {
    ($($(#[$doc:meta])* $Name:ident => $cell:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, JsonSchema)]
        pub struct $Name(pub f64);

        impl Serialize for $Name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_f64(rounded(self.0))
            }
        }

        impl From<$Name> for Cell {
            fn from(measure: $Name) -> Self {
                Cell::$cell(measure.0)
            }
        }
    )* };
}

measures! {
    /// GPU-hours, with up to six decimals.
    Hours => Hours;
    /// A fraction of one, with up to six decimals.
    Share => Share;
    /// Percent, with up to six decimals.
    Percent => Percent;
    /// Kilowatt-hours, with up to six decimals.
    Kilowatthours => Kilowatthours;
    /// A number with up to six decimals; its unit is in the key.
    Number => Number;
}

impl From<Micros> for Hours {
    fn from(time: Micros) -> Self {
        Hours(time.hours())
    }
}

impl From<Millijoules> for Kilowatthours {
    fn from(energy: Millijoules) -> Self {
        Kilowatthours(energy.kilowatthours())
    }
}

/// A period in UTC, from its first moment to the first one after it.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Window {
    pub from: Timestamp,
    pub to: Timestamp,
}

impl From<Period> for Window {
    fn from(period: Period) -> Self {
        Self {
            from: period.from(),
            to: period.to(),
        }
    }
}

/// Declares the rows of a table: each field is a JSON key, a CSV column and, with the title behind `as` or its own
/// name, a heading; brackets have the layout of its column, as in `table!`. `from` and the values behind `=` declare the
/// constructor `new`.
macro_rules! rows {
    ($(
        $(#[$doc:meta])*
        $vis:vis struct $Row:ident $(from $from:tt)? { $(
            $(#[$field_doc:meta])* $key:ident: $type:ty $([$($layout:tt)*])? $(as $title:literal)? $(= $value:expr)?,
        )* }
    )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
        $vis struct $Row { $( $(#[$field_doc])* $vis $key: $type, )* }

        impl $Row {
            /// The columns of a table of these rows.
            $vis const COLUMNS: &'static [gua_model::table::Column<Self>] = &[ $(
                gua_model::table::Column {
                    key: stringify!($key),
                    title: $crate::document::title!($key $($title)?),
                    layout: gua_model::table!(@layout $($($layout)*)?),
                    cell: |row: &$Row| row.$key.clone().into(),
                },
            )* ];
        }

        $crate::document::constructor!($vis $Row, $($from)?, $( $key $(= $value)?, )*);
    )* };
}

/// Declares JSON documents: the type of each key, and behind `=` its value in the constructor `new`.
macro_rules! documents {
    ($(
        $(#[$doc:meta])*
        $vis:vis struct $Name:ident from $from:tt { $(
            $(#[$field_doc:meta])* $field_vis:vis $key:ident: $type:ty = $value:expr,
        )* }
    )*) => { $(
        #[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
        $(#[$doc])*
        $vis struct $Name { $( $(#[$field_doc])* $field_vis $key: $type, )* }

        $crate::document::constructor!($vis $Name, $from, $( $key = $value, )*);
    )* };
}

macro_rules! constructor {
    ($vis:vis $Name:ident, ($($argument:ident: $type:ty),*), $( $key:ident = $value:expr, )*) => {
        impl $Name {
            $vis fn new($($argument: $type),*) -> Self {
                Self { $( $key: $value, )* }
            }
        }
    };
    ($vis:vis $Name:ident, , $( $key:ident, )*) => {};
}

macro_rules! title {
    ($key:ident) => {
        stringify!($key)
    };
    ($key:ident $title:literal) => {
        $title
    };
}

pub(crate) use {constructor, documents, rows, title};

/// The cells of one row under these columns; without a row, nothing is known.
pub fn cells<R>(columns: &[Column<R>], row: Option<&R>) -> Vec<Cell> {
    let cell = |column: &Column<R>| row.map_or(Cell::Missing, column.cell);
    columns.iter().map(cell).collect()
}

/// The headings of these columns, with a prefix before each key.
pub fn headers<R>(prefix: &str, columns: &[Column<R>]) -> Vec<Header> {
    let header = |column: &Column<R>| {
        let key = format!("{prefix}{}", column.key);
        Header::new(key.clone(), key)
    };
    columns.iter().map(header).collect()
}

/// The rows of a table as JSON objects with its column keys.
#[derive(Clone, Debug)]
pub struct Rows(pub Table);

impl Serialize for Rows {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Row<'a>(&'a [Header], &'a [Cell]);

        impl Serialize for Row<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let keys = self.0.iter().map(|column| &column.key);
                serializer.collect_map(keys.zip(self.1.iter().map(value)))
            }
        }

        let rows = self.0.rows.iter();
        serializer.collect_seq(rows.map(|row| Row(&self.0.columns, row)))
    }
}

/// A cell as JSON; null for a missing value.
fn value(cell: &Cell) -> serde_json::Value {
    match cell {
        Cell::Text(text) => text.as_str().into(),
        Cell::Count(count) => (*count).into(),
        Cell::Integer(number) => (*number).into(),
        Cell::Flag(flag) => (*flag).into(),
        other => other.measure().into(),
    }
}

impl JsonSchema for Rows {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Rows".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": { "type": ["string", "number", "boolean", "null"] },
            },
        })
    }
}

/// A time in a zone, in this form of `strftime`.
pub(crate) fn local(at: Timestamp, zone: &TimeZone, form: &str) -> String {
    at.to_zoned(zone.clone()).strftime(form).to_string()
}

/// The name of a time zone; if it has none, its abbreviation at this time.
pub(crate) fn zone_name(zone: &TimeZone, at: Timestamp) -> String {
    let name = zone.iana_name().map(str::to_owned);
    name.unwrap_or_else(|| local(at, zone, "%Z"))
}

/// A document as indented JSON with a final newline.
pub fn pretty(document: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(document);
    text.expect("documents have string keys and finite numbers") + "\n"
}

/// A document as indented JSON with sorted keys and a final newline. Control characters that JSON allows in a text are
/// escaped, so that it is safe on a terminal.
pub fn sorted(document: &impl Serialize) -> String {
    let value =
        serde_json::to_value(document).expect("documents have string keys and finite numbers");
    let mut text = String::new();
    for letter in format!("{value:#}\n").chars() {
        match letter {
            '\u{7f}'..='\u{9f}' => text.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let hostile = "a\u{1b}b\u{7f}c\u{9b}d";
        let text = sorted(&serde_json::json!({ "b": hostile, "a": 1 }));
        assert!(
            text.chars()
                .all(|letter| letter == '\n' || !letter.is_control()),
            "{text:?}"
        );
        assert!(text.starts_with("{\n  \"a\": 1,\n"), "{text}");
        let back: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back["b"], hostile);
    }
}
