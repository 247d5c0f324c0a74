//! JSON lines: one object per row, with every column; null for missing values.

use std::io::{self, Write};

use crate::batch::{Batch, Value};
use crate::column::Column;
use crate::csv::time;
use crate::tables::What;

/// Returns the rows of a batch of a table as text.
pub fn json_lines(what: What, batch: &Batch) -> String {
    let mut text = Vec::new();
    let written = rows(&mut text, what.columns(), batch);
    written.expect("memory takes every byte");
    String::from_utf8(text).expect("JSON is UTF-8")
}

pub(crate) fn rows(out: &mut dyn Write, columns: &[Column], batch: &Batch) -> io::Result<()> {
    let mut line = Vec::new();
    batch.each_row(|row| {
        line.clear();
        for (place, (column, value)) in columns.iter().zip(row).enumerate() {
            let before = if place == 0 { "{" } else { "," };
            write!(line, "{before}\"{}\":", column.name)?;
            match value {
                Value::Missing => line.extend_from_slice(b"null"),
                Value::Time(at) => write!(line, "\"{}\"", time(*at))?,
                Value::Int(number) => write!(line, "{number}")?,
                Value::Float(number) => serde_json::to_writer(&mut line, number)?,
                Value::Bool(is) => write!(line, "{is}")?,
                Value::Text(text) => serde_json::to_writer(&mut line, text)?,
            }
        }
        line.extend_from_slice(b"}\n");
        out.write_all(&line)
    })
}
