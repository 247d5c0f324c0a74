//! CSV in the dialect of Python's writer: commas, CRLF, quotes only where needed, an empty field for a missing value.
//! Rows are streamed, so that a day of any size needs little memory.

use std::borrow::Cow;
use std::io::{self, Write};

use csv::{Terminator, Writer, WriterBuilder};
use flate2::Compression;
use flate2::write::GzEncoder;
use gua_model::csv::io_error;

use super::Table;
use crate::python;
use crate::users::UserPolicy;

/// One value of a row, with SQLite's types.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Integer(i64),
    Real(f64),
    Text(Cow<'a, str>),
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(Cow::Borrowed(text))
    }
}

/// Writes a header, then rows.
#[derive(Debug)]
pub struct CsvWriter<W: Write> {
    lines: Writer<W>,
    /// Whether each column contains user names.
    names_people: Vec<bool>,
    users: UserPolicy,
}

impl<W: Write> CsvWriter<W> {
    /// Writes the header. The policy applies to the columns that contain user names.
    ///
    /// # Errors
    /// If writing to `out` fails.
    pub fn new(out: W, header: &[&str], users: UserPolicy) -> io::Result<Self> {
        let is_user = |column: &&str| Table::USER_COLUMNS.contains(column);
        let mut lines = WriterBuilder::new()
            .terminator(Terminator::CRLF)
            .from_writer(out);
        lines.write_record(header).map_err(io_error)?;
        Ok(Self {
            lines,
            names_people: header.iter().map(is_user).collect(),
            users,
        })
    }

    /// Writes one row with one value for each column.
    ///
    /// # Errors
    /// If writing to `out` fails, or the row does not have one value for each column. A missing value is `None`.
    pub fn row(&mut self, row: Vec<Option<Value<'_>>>) -> io::Result<()> {
        let (values, columns) = (row.len(), self.names_people.len());
        if values != columns {
            let detail = format!("a row has {values} values for {columns} columns");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, detail));
        }
        for (value, names_people) in row.into_iter().zip(&self.names_people) {
            let field = match value {
                Some(Value::Integer(number)) => number.to_string().into(),
                Some(Value::Real(number)) => python::float(number).into(),
                Some(Value::Text(name)) if *names_people => {
                    let allowed = self.users.apply(&name).unwrap_or_default();
                    allowed.into_owned().into()
                }
                Some(Value::Text(text)) => text,
                None => Cow::Borrowed(""),
            };
            let written = self.lines.write_field(field.as_bytes());
            written.map_err(io_error)?;
        }
        self.lines.write_record(None::<&[u8]>).map_err(io_error)
    }

    /// Flushes and returns the underlying writer.
    ///
    /// # Errors
    /// If writing to `out` fails.
    pub fn finish(self) -> io::Result<W> {
        self.lines.into_inner().map_err(|error| error.into_error())
    }
}

/// Compresses its input in the format of the archive's files. The gzip header has no timestamp, so that the same rows
/// produce the same file.
pub fn compressed<W: Write>(out: W) -> GzEncoder<W> {
    GzEncoder::new(out, Compression::new(6))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::users::Salt;

    fn written(users: UserPolicy) -> String {
        let header = ["ts", "loginuid_user", "owner_user", "x"];
        let mut csv = CsvWriter::new(Vec::new(), &header, users).unwrap();
        let texts = |texts: [&'static str; 4]| texts.map(|text| Some(Value::from(text))).to_vec();
        csv.row(texts(["a,b", "alice", "root", "say \"x\"\r\n"]))
            .unwrap();
        let numbers = vec![
            Some(Value::Real(30.0)),
            None,
            None,
            Some(Value::Integer(-1)),
        ];
        csv.row(numbers).unwrap();
        String::from_utf8(csv.finish().unwrap()).unwrap()
    }

    #[test]
    fn quotes_are_written_only_where_they_are_needed() {
        assert_eq!(
            written(UserPolicy::Plain),
            "ts,loginuid_user,owner_user,x\r\n\"a,b\",alice,root,\"say \"\"x\"\"\r\n\"\r\n30.0,,,-1\r\n"
        );
    }

    #[test]
    fn the_columns_that_name_people_follow_the_policy() {
        let omitted = written(UserPolicy::Omit);
        assert!(omitted.contains("\r\n\"a,b\",,,\"say"), "{omitted}");
        let hidden = written(UserPolicy::Hash(Salt::new(&[7; 16]).unwrap()));
        assert!(hidden.contains("\r\n\"a,b\",user-"), "{hidden}");
        assert!(
            !hidden.contains("alice") && !hidden.contains(",root"),
            "{hidden}"
        );
        assert!(hidden.ends_with("30.0,,,-1\r\n"), "{hidden}");
    }

    #[test]
    fn a_row_has_one_value_for_each_column() {
        let mut csv = CsvWriter::new(Vec::new(), &["ts", "x"], UserPolicy::Plain).unwrap();
        for wrong in [1, 3] {
            let error = csv.row(vec![None; wrong]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        csv.row(vec![None; 2]).unwrap();
        assert_eq!(csv.finish().unwrap(), b"ts,x\r\n,\r\n");
    }

    #[test]
    fn a_compressed_file_is_the_same_each_time() {
        let file = || {
            let out = compressed(Vec::new());
            let csv = CsvWriter::new(out, &["ts", "gpu_uuid"], UserPolicy::Plain).unwrap();
            csv.finish().unwrap().finish().unwrap()
        };
        assert_eq!(file(), file());
        let mut text = String::new();
        let bytes = file();
        let mut plain = flate2::read::GzDecoder::new(bytes.as_slice());
        plain.read_to_string(&mut text).unwrap();
        assert_eq!(text, "ts,gpu_uuid\r\n");
    }
}
