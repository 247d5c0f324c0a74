//! JSON lines: one object per row, with every column; null for missing values.

use std::io::{self, Write};

use crate::batch::{Batch, Value};
use crate::column::Column;
use crate::csv::time;
use crate::tables::What;

/// Passes the rows of a batch of a table to `each` as lines, at most `size` at a time and without line ends, until it fails.
/// Only the lines of one call are in memory.
pub fn json_lines<E>(
    what: What,
    batch: &Batch,
    size: usize,
    mut each: impl FnMut(Vec<String>) -> Result<(), E>,
) -> Result<(), E> {
    let mut chunk = Vec::new();
    batch.each_row(|row| {
        let mut line = Vec::new();
        let written = write_row(&mut line, what.columns(), row);
        written.expect("memory takes every byte");
        chunk.push(String::from_utf8(line).expect("JSON is UTF-8"));
        match chunk.len() < size {
            true => Ok(()),
            false => each(std::mem::take(&mut chunk)),
        }
    })?;
    match chunk.is_empty() {
        true => Ok(()),
        false => each(chunk),
    }
}

pub(crate) fn rows(out: &mut dyn Write, columns: &[Column], batch: &Batch) -> io::Result<()> {
    let mut line = Vec::new();
    batch.each_row(|row| {
        line.clear();
        write_row(&mut line, columns, row)?;
        line.push(b'\n');
        out.write_all(&line)
    })
}

fn write_row(line: &mut Vec<u8>, columns: &[Column], row: &[Value<'_>]) -> io::Result<()> {
    for (place, (column, value)) in columns.iter().zip(row).enumerate() {
        let before = if place == 0 { "{" } else { "," };
        write!(line, "{before}\"{}\":", column.name)?;
        match value {
            Value::Missing => line.extend_from_slice(b"null"),
            Value::Time(at) => write!(line, "\"{}\"", time(*at))?,
            Value::Int(number) => write!(line, "{number}")?,
            Value::Float(number) => serde_json::to_writer(&mut *line, number)?,
            Value::Bool(is) => write!(line, "{is}")?,
            Value::Text(text) => serde_json::to_writer(&mut *line, text)?,
        }
    }
    line.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Row, RowCells};
    use crate::names::Names;

    /// A row without any value.
    struct Empty;

    impl Row for Empty {
        fn put(&self, _names: &Names, cells: &mut RowCells<'_>) {
            for _ in What::Totals.columns() {
                cells.put(None::<i64>);
            }
        }
    }

    #[test]
    fn lines_are_passed_on_in_chunks_until_one_is_refused() {
        let mut batch = Batch::new(What::Totals.columns(), 5);
        for _ in 0..5 {
            batch.push(&Names::default(), &Empty);
        }
        let passed = |refused: usize| {
            let mut sizes = Vec::new();
            let done = json_lines(What::Totals, &batch, 2, |lines| {
                let is_row = |line: &String| line.starts_with('{') && line.ends_with('}');
                assert!(lines.iter().all(is_row), "{lines:?}");
                sizes.push(lines.len());
                match sizes.len() == refused {
                    true => Err("refused"),
                    false => Ok(()),
                }
            });
            (sizes, done)
        };
        assert_eq!(passed(4), (vec![2, 2, 1], Ok(())));
        assert_eq!(passed(2), (vec![2, 2], Err("refused")));
    }
}
