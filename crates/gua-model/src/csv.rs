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
        let written = self.writer.write_field(csv_text(text).as_bytes());
        written.map_err(io_error)
    }

    /// Writes a cell with a number, a time or another value that cannot be a formula. A negative number is not escaped.
    pub fn value(&mut self, value: impl Display) -> io::Result<()> {
        self.value.clear();
        write!(self.value, "{value}").map_err(io::Error::other)?;
        self.writer.write_field(&self.value).map_err(io_error)
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
        self.writer.write_record(None::<&[u8]>).map_err(io_error)
    }

    /// Flushes all complete lines.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Returns the I/O error of the underlying writer. The conversion of the csv crate loses its kind, such as that of a full disk.
pub fn io_error(error: ::csv::Error) -> io::Error {
    let text = error.to_string();
    match error.into_kind() {
        ::csv::ErrorKind::Io(error) => error,
        _ => io::Error::other(text),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A file on a full disk.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_error_of_the_file_keeps_its_kind() {
        let mut lines = CsvLines::new(Full);
        // Longer than the buffer, so that the writer cannot wait with it.
        let error = lines.text(&"x".repeat(1 << 20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
