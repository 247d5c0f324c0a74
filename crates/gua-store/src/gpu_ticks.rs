//! Counts the GPU readings stored in a history. Closed quarter hours are counted from their totals, which remain when
//! retention deletes the ticks; only later ticks are read one by one.

use rusqlite::Connection;

use crate::error::ReadError;
use crate::history::History;
use crate::maintain::TOTALS_UNTIL;
use crate::store::{meta, quarter};
use crate::ticks::{self, Ticks};
use crate::totals;

impl History {
    /// Number of GPU readings ever stored: one per GPU and tick, including imported rows. Damaged ticks are not
    /// counted.
    pub fn gpu_ticks(&self) -> Result<u64, ReadError> {
        self.read(|connection| {
            let until = meta(connection, TOTALS_UNTIL)?.unwrap_or(i64::MIN);
            Ok(imported(connection)? + closed(connection, until)? + open(connection, until)?)
        })
    }
}

fn imported(connection: &Connection) -> rusqlite::Result<u64> {
    let rows: Option<i64> =
        connection.query_row("SELECT sum(rows) FROM old_card_block", [], |row| row.get(0))?;
    Ok(rows.unwrap_or(0).unsigned_abs())
}

fn closed(connection: &Connection, until: i64) -> Result<u64, ReadError> {
    let mut found = 0;
    totals::each(
        connection,
        totals::Source::Own,
        (i64::MIN, quarter(until)),
        |_, cards| {
            found += cards.iter().map(|card| card.total.card.ticks).sum::<u64>();
        },
    )?;
    Ok(found)
}

fn open(connection: &Connection, until: i64) -> Result<u64, ReadError> {
    let mut statement = ticks::statement(connection)?;
    let mut stored = Ticks::new(connection, &mut statement, until, i64::MAX)?;
    let mut found = 0;
    while let Some((_, tick)) = stored.step()? {
        found += tick.map_or(0, |stored| stored.tick.sample.gpus.len() as u64);
    }
    Ok(found)
}
