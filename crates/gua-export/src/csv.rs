//! CSV: a header of names, then one line per row. Missing values are empty; times are RFC 3339 in UTC.

use std::fmt::Write as _;
use std::io::{self, Write};

use gua_model::text::csv_text;

use crate::batch::{Batch, Value};
use crate::column::Column;

pub(crate) fn head(out: &mut dyn Write, columns: &[Column]) -> io::Result<()> {
    let mut writer = ::csv::Writer::from_writer(out);
    writer.write_record(columns.iter().map(|column| column.name))?;
    writer.flush()
}

pub(crate) fn rows(out: &mut dyn Write, batch: &Batch) -> io::Result<()> {
    let mut writer = ::csv::Writer::from_writer(out);
    let mut text = String::new();
    batch.each_row(|row| {
        for value in row {
            text.clear();
            let written = match value {
                Value::Missing => Ok(()),
                Value::Time(at) => write!(text, "{}", time(*at)),
                Value::Int(number) => write!(text, "{number}"),
                Value::Float(number) => write!(text, "{number}"),
                Value::Bool(is) => write!(text, "{is}"),
                Value::Text(value) => {
                    writer.write_field(csv_text(value).as_bytes())?;
                    continue;
                }
            };
            written.expect("a string takes every text");
            writer.write_field(&text)?;
        }
        writer.write_record(None::<&[u8]>)?;
        io::Result::Ok(())
    })?;
    writer.flush()
}

/// Formats a time with six decimals, so that texts sort as times do.
pub(crate) fn time(micros: i64) -> impl std::fmt::Display {
    let at = jiff::Timestamp::from_microsecond(micros).unwrap_or_default();
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
}
