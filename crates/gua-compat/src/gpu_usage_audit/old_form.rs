//! A history as gpu-usage-audit's own tables, a day at a time: for those who send or keep it in that form.
//!
//! Our own rows are laid out by the rule of the export, in a scratch file without a name that is gone when it is closed.
//! SQLite holds little of it in memory. A history of gpu-usage-audit itself is read where it lies.

use std::collections::BTreeSet;

use gua_store::History;
pub use gua_store::TickDays as Days;
use gua_store::imported::{CardRow, ImportedRow as _, LegacyError, OnProgress, ProcessRow};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::export::part::{Numbering, Part};
use super::export::scratch;
use super::open::OldFile;

/// A history that can be told in the old form.
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

/// Tables as gpu-usage-audit has them.
#[derive(Debug)]
pub struct OldTables<'a> {
    held: Held<'a>,
    /// Only rows of this day, where the tables hold more.
    day: Option<Date>,
}

#[derive(Debug)]
enum Held<'a> {
    Scratch(Connection),
    File(&'a OldFile),
}

/// One value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OldCell<'a> {
    Integer(i64),
    Real(f64),
    Text(&'a str),
}

impl OldForm {
    /// One of our own, with what was imported into it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn ours(history: History) -> Result<Self, LegacyError> {
        let numbering = Numbering::of(&history)?;
        Ok(Self(Kind::Ours { history, numbering }))
    }

    /// One that gpu-usage-audit has written.
    #[must_use]
    pub fn theirs(file: OldFile) -> Self {
        Self(Kind::Theirs(file))
    }

    /// The days in UTC, from the first and before the second, of which there are ticks or rows. Of ours one may be among
    /// them that has no row in the old form.
    ///
    /// # Errors
    /// When it cannot be read.
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

    /// The rows of one day. What `on_progress` is told are rows done; it may end the work.
    ///
    /// # Errors
    /// When they cannot be read or laid out.
    pub fn day(
        &self,
        day: Date,
        on_progress: OnProgress<'_>,
    ) -> Result<OldTables<'_>, LegacyError> {
        let next = day.tomorrow().unwrap_or(Date::MAX);
        let rows = Part::Rows(start(day), start(next));
        self.tables(rows, Some(day), on_progress)
    }

    /// All runs and cards.
    ///
    /// # Errors
    /// When they cannot be read or laid out.
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

/// What one row is given to.
pub type EachRow<'a, E> = &'a mut dyn FnMut(&[Option<OldCell<'_>>]) -> Result<(), E>;

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

    /// The columns of a table in the order in which they stand. None where there is no such table.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn columns(&self, table: &str) -> Result<Vec<String>, LegacyError> {
        let read = || -> Result<Vec<String>, rusqlite::Error> {
            let sql = "SELECT name FROM pragma_table_info(?1) ORDER BY cid";
            let mut query = self.connection().prepare(sql)?;
            query.query_map([table], |row| row.get(0))?.collect()
        };
        read().map_err(|source| self.failed(source))
    }

    /// Whether a table has a row.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn has_rows(&self, table: &str) -> Result<bool, LegacyError> {
        // Those of a file were found by their days.
        let Held::Scratch(connection) = &self.held else {
            return Ok(true);
        };
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {table})");
        let found = connection.query_row(&sql, [], |row| row.get(0));
        found.map_err(|source| self.failed(source))
    }

    /// Gives each row of a table to `each`: those with a time in its order, others as they lie there.
    ///
    /// # Errors
    /// When it cannot be read, and whatever `each` fails with.
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

fn cell(value: ValueRef<'_>) -> Result<Option<OldCell<'_>>, &'static str> {
    Ok(match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(OldCell::Integer(number)),
        ValueRef::Real(number) => Some(OldCell::Real(number)),
        ValueRef::Text(bytes) => {
            let text = std::str::from_utf8(bytes);
            Some(OldCell::Text(text.map_err(|_| "text that is not UTF-8")?))
        }
        ValueRef::Blob(_) => return Err("bytes"),
    })
}

fn written_days(file: &OldFile, from: Date, to: Date) -> Result<BTreeSet<Date>, rusqlite::Error> {
    let mut days = BTreeSet::new();
    for table in [CardRow::TABLE, ProcessRow::TABLE] {
        let sql = format!(
            "SELECT DISTINCT substr(ts, 1, 10) AS day FROM {table} WHERE day >= ?1 AND day < ?2"
        );
        let mut query = file.connection.prepare(&sql)?;
        let window = [from.to_string(), to.to_string()];
        let words = query.query_map(window, |row| row.get::<_, String>(0))?;
        for word in words {
            // What is no date has no name in an archive.
            days.extend(word?.parse::<Date>());
        }
    }
    Ok(days)
}

/// The first moment of a day in UTC, in microseconds since 1970.
fn start(day: Date) -> i64 {
    match TimeZone::UTC.to_timestamp(day.to_datetime(jiff::civil::Time::midnight())) {
        Ok(moment) => moment.as_microsecond(),
        Err(_) if day.year() > 1970 => i64::MAX,
        Err(_) => i64::MIN,
    }
}
