//! A history in the tables of gpu-usage-audit, one day at a time, for consumers that send or store that format.
//!
//! The rows of a gua history are laid out as in the export, in an unnamed temporary file that is deleted when it is
//! closed. SQLite keeps little of it in memory. A history of gpu-usage-audit itself is read in place.

use std::collections::BTreeSet;

pub use gua_store::TickDays as Days;
use gua_store::imported::{GpuRow, ImportedRow as _, LegacyError, OnProgress, ProcessRow};
use gua_store::{History, start_of_day};
use gua_wire::archive::Value;
use jiff::civil::Date;
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::export::part::{Numbering, Part};
use super::export::scratch;
use super::open::OldFile;

/// A history that can be read in the format of gpu-usage-audit.
#[derive(Debug)]
pub struct OldForm(Kind);

#[derive(Debug)]
enum Kind {
    Ours {
        history: History,
        numbering: Numbering,
    },
    Theirs(OldFile),
}

/// Tables in the format of gpu-usage-audit.
#[derive(Debug)]
pub struct OldTables<'a> {
    held: Held<'a>,
    /// Restricts the rows to this day, if the tables hold more.
    day: Option<Date>,
}

#[derive(Debug)]
enum Held<'a> {
    Scratch(Connection),
    File(&'a OldFile),
}

impl OldForm {
    /// Uses a history of gua, including imported rows.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn ours(history: History) -> Result<Self, LegacyError> {
        let numbering = Numbering::of(&history)?;
        Ok(Self(Kind::Ours { history, numbering }))
    }

    /// Uses a file written by gpu-usage-audit.
    pub fn theirs(file: OldFile) -> Self {
        Self(Kind::Theirs(file))
    }

    /// UTC days of `[from, to)` with ticks or rows. For a history of gua, a day may have ticks but no row in this
    /// format.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn days(&self, from: Date, to: Date) -> Result<Days, LegacyError> {
        match &self.0 {
            Kind::Ours { history, .. } => Ok(history.days(from, to)?),
            Kind::Theirs(file) => {
                let whole = written_days(file, from, to).map_err(|source| file.failed(source))?;
                Ok(Days {
                    whole,
                    ..Days::default()
                })
            }
        }
    }

    /// Rows of one day. `on_progress` receives the number of rows done, and may stop the work.
    ///
    /// # Errors
    /// If they cannot be read or laid out.
    pub fn day(
        &self,
        day: Date,
        on_progress: OnProgress<'_>,
    ) -> Result<OldTables<'_>, LegacyError> {
        let next = day.tomorrow().unwrap_or(Date::MAX);
        let rows = Part::Rows(start_of_day(day), start_of_day(next));
        self.tables(rows, Some(day), on_progress)
    }

    /// All runs and GPUs.
    ///
    /// # Errors
    /// If they cannot be read or laid out.
    pub fn lists(&self, on_progress: OnProgress<'_>) -> Result<OldTables<'_>, LegacyError> {
        self.tables(Part::Lists, None, on_progress)
    }

    fn tables(
        &self,
        part: Part,
        day: Option<Date>,
        on_progress: OnProgress<'_>,
    ) -> Result<OldTables<'_>, LegacyError> {
        Ok(match &self.0 {
            Kind::Ours { history, numbering } => OldTables {
                held: Held::Scratch(scratch(history, numbering, part, on_progress)?),
                day: None,
            },
            Kind::Theirs(file) => OldTables {
                held: Held::File(file),
                day,
            },
        })
    }
}

/// Callback that receives one row.
pub type EachRow<'a, E> = &'a mut dyn FnMut(&[Option<Value<'_>>]) -> Result<(), E>;

impl OldTables<'_> {
    fn connection(&self) -> &Connection {
        match &self.held {
            Held::Scratch(connection) => connection,
            Held::File(file) => &file.connection,
        }
    }

    fn failed(&self, source: rusqlite::Error) -> LegacyError {
        match &self.held {
            Held::Scratch(_) => LegacyError::Write(source),
            Held::File(file) => file.failed(source),
        }
    }

    /// Columns of a table in their order; empty if the table does not exist.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn columns(&self, table: &str) -> Result<Vec<String>, LegacyError> {
        let read = || -> Result<Vec<String>, rusqlite::Error> {
            let sql = "SELECT name FROM pragma_table_info(?1) ORDER BY cid";
            let mut query = self.connection().prepare(sql)?;
            query.query_map([table], |row| row.get(0))?.collect()
        };
        read().map_err(|source| self.failed(source))
    }

    /// Returns whether a table has a row.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn has_rows(&self, table: &str) -> Result<bool, LegacyError> {
        // The days of a file were found by its rows, so there are some.
        let Held::Scratch(connection) = &self.held else {
            return Ok(true);
        };
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {table})");
        let found = connection.query_row(&sql, [], |row| row.get(0));
        found.map_err(|source| self.failed(source))
    }

    /// Calls `each` with each row of a table: ordered by time if the table has times, otherwise in table order.
    ///
    /// # Errors
    /// If it cannot be read, or if `each` fails.
    pub fn rows<E: From<LegacyError>>(&self, table: &str, each: EachRow<'_, E>) -> Result<(), E> {
        let failed = |source| E::from(self.failed(source));
        let columns = self.columns(table)?;
        let is_timed = columns.iter().any(|column| column == "ts");
        let rest = match (is_timed, self.day) {
            (true, Some(_)) => "WHERE substr(ts, 1, 10) = ?1 ORDER BY ts",
            (true, None) => "ORDER BY ts",
            (false, _) => "",
        };
        let sql = format!("SELECT {} FROM {table} {rest}", columns.join(", "));
        let mut query = self.connection().prepare(&sql).map_err(failed)?;
        let day = self.day.filter(|_| is_timed).map(|day| day.to_string());
        let mut rows = query
            .query(rusqlite::params_from_iter(day))
            .map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let cells: Result<Vec<_>, E> = (0..columns.len())
                .map(|place| {
                    let value = row.get_ref(place).map_err(failed)?;
                    cell(value).map_err(|what| {
                        failed(rusqlite::Error::InvalidColumnType(
                            place,
                            format!("{table}.{}: {what}", columns[place]),
                            value.data_type(),
                        ))
                    })
                })
                .collect();
            each(&cells?)?;
        }
        if let Held::File(file) = &self.held {
            file.confirm()?;
        }
        Ok(())
    }
}

fn cell(value: ValueRef<'_>) -> Result<Option<Value<'_>>, &'static str> {
    Ok(match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(Value::Integer(number)),
        ValueRef::Real(number) => Some(Value::Real(number)),
        ValueRef::Text(bytes) => {
            let text = std::str::from_utf8(bytes);
            Some(text.map_err(|_| "text that is not UTF-8")?.into())
        }
        ValueRef::Blob(_) => return Err("bytes"),
    })
}

fn written_days(file: &OldFile, from: Date, to: Date) -> Result<BTreeSet<Date>, rusqlite::Error> {
    let mut days = BTreeSet::new();
    for table in [GpuRow::TABLE, ProcessRow::TABLE] {
        let sql = format!(
            "SELECT DISTINCT substr(ts, 1, 10) AS day FROM {table} WHERE day >= ?1 AND day < ?2"
        );
        let mut query = file.connection.prepare(&sql)?;
        let window = [from.to_string(), to.to_string()];
        let words = query.query_map(window, |row| row.get::<_, String>(0))?;
        for word in words {
            // Skip invalid dates: they have no file name in an archive.
            days.extend(word?.parse::<Date>());
        }
    }
    Ok(days)
}
