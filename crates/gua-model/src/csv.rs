//! Writes every CSV table that `gua` prints. This is the one place that escapes formulas in names.

use std::fmt::{Display, Write as _};
use std::io::{self, Write};

use crate::table::Cell;
use crate::text::csv_text;

/// Writes cells and lines.
#[derive(Debug)]
pub struct CsvLines<W: Write> {
    writer: ::csv::Writer<W>,
    /// Buffer in which values are formatted.
    value: String,
}

impl<W: Write> CsvLines<W> {
    pub fn new(out: W) -> Self {
        // The caller decides how many cells a line has.
        let writer = ::csv::WriterBuilder::new().flexible(true).from_writer(out);
        let value = String::new();
        Self { writer, value }
    }

    /// Writes a cell with a text. A text that a spreadsheet would evaluate as a formula is escaped.
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        Ok(self.writer.write_field(csv_text(text).as_bytes())?)
    }

    /// Writes a cell with a number, a time or another value that cannot be a formula. A negative number is not escaped.
    pub fn value(&mut self, value: impl Display) -> io::Result<()> {
        self.value.clear();
        write!(self.value, "{value}").map_err(io::Error::other)?;
        Ok(self.writer.write_field(&self.value)?)
    }

    /// Writes the cells of a row, and ends the line.
    pub fn row<'a>(&mut self, cells: impl IntoIterator<Item = &'a Cell>) -> io::Result<()> {
        cells.into_iter().try_for_each(|cell| match cell {
            Cell::Text(text) => self.text(text),
            number => self.value(number.exact()),
        })?;
        self.end()
    }

    /// Ends the line.
    pub fn end(&mut self) -> io::Result<()> {
        Ok(self.writer.write_record(None::<&[u8]>)?)
    }

    /// Flushes all complete lines.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Returns lines of CSV as a string.
pub fn csv_lines(write: impl FnOnce(&mut CsvLines<&mut Vec<u8>>) -> io::Result<()>) -> String {
    let mut bytes = Vec::new();
    let mut lines = CsvLines::new(&mut bytes);
    let written = write(&mut lines).and_then(|()| lines.flush());
    written.expect("memory takes every byte");
    drop(lines);
    String::from_utf8(bytes).expect("every cell is UTF-8")
}
