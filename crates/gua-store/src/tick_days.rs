//! Days of a history: days with ticks or imported rows, and days that lost ticks to retention.

use std::collections::BTreeSet;

use gua_model::sane;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use rusqlite::Connection;

use crate::error::ReadError;
use crate::history::History;
use crate::imported::{GpuRow, ImportedRow as _, ProcessRow, source_ids};
use crate::maintain::RAW_FROM;
use crate::sql;
use crate::store::{meta, quarter};
use crate::ticks::MICROS_PER_QUARTER;

/// Days in UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TickDays {
    /// Days with all their recorded data.
    pub whole: BTreeSet<Date>,
    /// Days that lost some or all of their ticks to retention.
    pub cut: BTreeSet<Date>,
    /// Time from which ticks are kept, if retention has deleted any.
    pub raw_from: Option<Timestamp>,
}

impl History {
    /// Days of `[from, to)` that have ticks or imported rows.
    pub fn days(&self, from: Date, to: Date) -> Result<TickDays, ReadError> {
        self.read(|connection| {
            let mut days = TickDays {
                whole: with_rows(connection, (from, to))?,
                ..TickDays::default()
            };
            if let Some(raw_from) = meta(connection, RAW_FROM)? {
                days.raw_from = Some(sane::nearest(raw_from));
                days.cut = cut(connection, raw_from, (from, to))?;
                days.whole.retain(|day| !days.cut.contains(day));
            }
            Ok(days)
        })
    }
}

fn with_rows(
    connection: &Connection,
    window: (Date, Date),
) -> Result<BTreeSet<Date>, rusqlite::Error> {
    let mut days = BTreeSet::new();
    let own = "SELECT min(at) FROM tick WHERE at >= ?1";
    hop(connection, own, window, &mut days)?;
    for source in source_ids(connection)? {
        for table in [GpuRow::BLOCKS, ProcessRow::BLOCKS] {
            let sql =
                format!("SELECT min(at_us) FROM {table} WHERE source = {source} AND at_us >= ?1");
            hop(connection, &sql, window, &mut days)?;
        }
    }
    Ok(days)
}

/// Days whose ticks have been deleted. Their totals still exist.
fn cut(
    connection: &Connection,
    raw_from: i64,
    window: (Date, Date),
) -> Result<BTreeSet<Date>, rusqlite::Error> {
    let sql = format!(
        "SELECT min(quarter) * {MICROS_PER_QUARTER} FROM quarter_total \
         WHERE quarter >= ?1 / {MICROS_PER_QUARTER} AND quarter < {}",
        quarter(raw_from)
    );
    let mut days = BTreeSet::new();
    hop(connection, &sql, window, &mut days)?;
    Ok(days)
}

/// Jumps from the start of a day to the first row of the next day that has any; the rows in between are not read.
fn hop(
    connection: &Connection,
    sql: &str,
    (from, to): (Date, Date),
    days: &mut BTreeSet<Date>,
) -> Result<(), rusqlite::Error> {
    let mut begin = start_of_day(from).max(sane::FIRST);
    loop {
        let first: Option<i64> = sql::value(connection, sql, [begin])?;
        let day = first
            .and_then(sane::time)
            .map(|at| TimeZone::UTC.to_datetime(at).date());
        let Some(day) = day.filter(|day| *day < to) else {
            return Ok(());
        };
        days.insert(day);
        let Ok(next) = day.tomorrow() else {
            return Ok(());
        };
        begin = start_of_day(next);
    }
}

/// Start of a day in UTC, in microseconds since 1970.
pub fn start_of_day(day: Date) -> i64 {
    match TimeZone::UTC.to_timestamp(day.to_datetime(jiff::civil::Time::midnight())) {
        Ok(moment) => moment.as_microsecond(),
        Err(_) if day.year() > 1970 => i64::MAX,
        Err(_) => i64::MIN,
    }
}
