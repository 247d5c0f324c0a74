//! CSV: a header of names, then one line per row. Missing values are empty; times are RFC 3339 in UTC.

use std::io::{self, Write};

use gua_model::csv::CsvLines;

use crate::batch::{Batch, Value};
use crate::column::Column;

pub(crate) fn head(out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
    let mut lines = CsvLines::new(out);
    let mut names = columns.iter().map(|column| column.name);
    names.try_for_each(|name| lines.text(name))?;
    lines.end()?;
    lines.flush()
}

pub(crate) fn rows(out: &mut dyn Write, batch: &Batch) -> io::Result<()> {
    let mut lines = CsvLines::new(out);
    batch.each_row(|row| {
        row.iter().try_for_each(|value| match value {
            Value::Missing => lines.value(""),
            Value::Time(at) => lines.value(time(*at)),
            Value::Int(number) => lines.value(number),
            Value::Float(number) => lines.value(number),
            Value::Bool(is) => lines.value(is),
            Value::Text(text) => lines.text(text),
        })?;
        lines.end()
    })?;
    lines.flush()
}

/// Formats a time with six decimals, so that texts sort as times do.
pub(crate) fn time(micros: i64) -> impl std::fmt::Display {
    let at = jiff::Timestamp::from_microsecond(micros).unwrap_or_default();
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
}
