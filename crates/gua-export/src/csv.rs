//! CSV: a header of names, then a line a row. Nothing stands where nobody measured; times are RFC 3339 in UTC.

use std::fmt::Write as _;
use std::io::{self, Write};

use gua_model::text::csv_cell;

use crate::batch::{Batch, Value};
use crate::column::Column;

pub(crate) fn head(out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    writeln!(out, "{}", names.join(","))
}

pub(crate) fn rows(out: &mut dyn Write, columns: &[Column], batch: &Batch) -> io::Result<()> {
    let mut line = String::new();
    batch.each_row(columns, |row| {
        line.clear();
        for (place, value) in row.iter().enumerate() {
            if place > 0 {
                line.push(',');
            }
            let written = match value {
                Value::Missing => Ok(()),
                Value::Time(at) => write!(line, "{}", time(*at)),
                Value::Int(number) => write!(line, "{number}"),
                Value::Float(number) => write!(line, "{number}"),
                Value::Bool(is) => write!(line, "{is}"),
                Value::Text(text) => write!(line, "{}", csv_cell(text)),
            };
            written.expect("a string takes every text");
        }
        line.push('\n');
        out.write_all(line.as_bytes())
    })
}

/// With six digits after the point, so that texts sort as times do.
pub(crate) fn time(micros: i64) -> impl std::fmt::Display {
    let at = jiff::Timestamp::from_microsecond(micros).unwrap_or_default();
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
}
