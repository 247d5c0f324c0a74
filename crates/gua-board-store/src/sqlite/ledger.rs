//! The ledger in SQLite. Every call is one transaction: it is stored as a whole when it returns `Ok`, and survives a crash of
//! the process.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use jiff::Timestamp;
use jiff::civil::Date;
use rusqlite::{Params, Row, params};

use super::{SqliteStore, time, word};
use crate::error::{Result, StoreError};
use crate::id::HostId;
use crate::ledger::{ArchiveName, Form, Ledger, MAX_CLOCK_LEAD, Observation};

/// Upper bound of a stored body when it is read back. A larger one is damage.
const MAX_BODY: u64 = 64 << 20;

impl Ledger for SqliteStore {
    fn record(&self, batch: &[Observation]) -> Result<()> {
        // Compressed before the transaction, so that other writers wait less.
        let bodies: Vec<Vec<u8>> = batch.iter().map(|one| compressed(&one.body)).collect();
        let lead = i64::try_from(MAX_CLOCK_LEAD.as_micros()).expect("a few minutes fit");
        self.write(|transaction| {
            let mut history = transaction.prepare_cached(
                "INSERT INTO snapshot (observed_at, host, received_at, body) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (observed_at, host) DO NOTHING",
            )?;
            let mut latest = transaction.prepare_cached(
                "INSERT INTO latest (host, form, observed_at, received_at, body) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (host, form) DO UPDATE SET observed_at = ?3, received_at = ?4, body = ?5
                 WHERE ?3 > observed_at OR observed_at > ?4 + ?6",
            )?;
            for (one, body) in batch.iter().zip(&bodies) {
                let observed_at = one.observed_at.as_microsecond();
                let received_at = one.received_at.as_microsecond();
                if one.form == Form::Snapshot {
                    history.execute(params![observed_at, one.host, received_at, body])?;
                }
                let form = one.form.as_str();
                latest.execute(params![one.host, form, observed_at, received_at, body, lead])?;
            }
            Ok(())
        })
    }

    fn latest(&self) -> Result<Vec<Observation>> {
        let sql =
            "SELECT host, form, observed_at, received_at, body FROM latest ORDER BY host, form";
        let packed = self.many(sql, [], packed)?;
        // The board does not answer before this is done, so all cores decompress.
        on_all_cores(packed, unpacked).into_iter().collect()
    }

    fn snapshots(
        &self,
        host: &HostId,
        from: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Observation>> {
        let sql = "SELECT host, 'snapshot', observed_at, received_at, body FROM snapshot
                   WHERE observed_at >= ?2 AND observed_at < ?3 AND host = ?1 ORDER BY observed_at";
        let range = params![host, from.as_microsecond(), until.as_microsecond()];
        self.many(sql, range, |row| unpacked(packed(row)?))
    }

    fn snapshot_keys(&self) -> Result<Vec<(HostId, Timestamp)>> {
        let sql = "SELECT host, observed_at FROM snapshot ORDER BY observed_at, host";
        self.many(sql, [], |row| Ok((row.get(0)?, time(row, 1)?)))
    }

    fn expire_snapshots(&self, before: Timestamp, most: u32) -> Result<usize> {
        self.run(
            "DELETE FROM snapshot WHERE rowid IN
             (SELECT rowid FROM snapshot WHERE observed_at < ?1 ORDER BY observed_at LIMIT ?2)",
            params![before.as_microsecond(), most],
        )
    }

    fn put_days(&self, days: &[(HostId, Vec<u8>)]) -> Result<()> {
        let bodies: Vec<Vec<u8>> = days.iter().map(|(_, body)| compressed(body)).collect();
        self.write(|transaction| {
            let mut put = transaction.prepare_cached(
                "INSERT INTO day (host, body) VALUES (?1, ?2) ON CONFLICT (host) DO UPDATE SET body = ?2",
            )?;
            for ((host, _), body) in days.iter().zip(&bodies) {
                put.execute(params![host, body])?;
            }
            Ok(())
        })
    }

    fn days(&self) -> Result<Vec<(HostId, Vec<u8>)>> {
        self.many("SELECT host, body FROM day", [], |row| {
            let body: Vec<u8> = row.get(1)?;
            Ok((row.get(0)?, decompressed(&body)?))
        })
    }

    fn put_archive(
        &self,
        host: &HostId,
        name: &ArchiveName,
        content: &[u8],
        at: Timestamp,
    ) -> Result<()> {
        let at = at.as_microsecond();
        self.run(
            "INSERT INTO archive (host, day, name, stored, content) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (host, day, name) DO UPDATE SET stored = ?4, content = ?5",
            params![host, name.day_text(), name.table, at, content],
        )?;
        Ok(())
    }

    fn archives(&self, host: &HostId) -> Result<Vec<ArchiveName>> {
        let sql = "SELECT day, name FROM archive WHERE host = ?1 ORDER BY day, name";
        self.many(sql, [host], |row| {
            let day: String = row.get(0)?;
            let day = match day.as_str() {
                ArchiveName::FULL => None,
                day => Some(day.parse().map_err(|_| StoreError::Invalid("day"))?),
            };
            let table = row.get(1)?;
            Ok(ArchiveName { day, table })
        })
    }

    fn prune_archives(&self, host: &HostId, before: Date) -> Result<usize> {
        // Days as text sort like days, and `_full` sorts after all of them.
        let sql = "DELETE FROM archive WHERE host = ?1 AND day < ?2";
        self.run(sql, params![host, before.to_string()])
    }
}

impl SqliteStore {
    /// Runs one statement in a transaction, and returns how many rows it changed.
    fn run(&self, sql: &str, values: impl Params) -> Result<usize> {
        self.write(|transaction| Ok(transaction.prepare_cached(sql)?.execute(values)?))
    }
}

/// Converts each item, in order, on as many threads as there are cores.
fn on_all_cores<T: Send, R: Send>(items: Vec<T>, convert: impl Fn(T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let size = items.len().div_ceil(cores).max(1);
    let mut items = items.into_iter();
    let parts = std::iter::repeat_with(|| items.by_ref().take(size).collect::<Vec<T>>());
    let parts: Vec<Vec<T>> = parts.take_while(|part| !part.is_empty()).collect();
    let convert = &convert;
    std::thread::scope(|scope| {
        let threads: Vec<_> = parts
            .into_iter()
            .map(|part| scope.spawn(move || part.into_iter().map(convert).collect::<Vec<R>>()))
            .collect();
        let parts = threads.into_iter().map(|thread| thread.join());
        parts
            .flat_map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Reads an observation with its body as it is stored.
fn packed(row: &Row<'_>) -> Result<Observation> {
    Ok(Observation {
        host: row.get(0)?,
        form: word(row, 1, "form")?,
        observed_at: time(row, 2)?,
        received_at: time(row, 3)?,
        body: row.get(4)?,
    })
}

fn unpacked(packed: Observation) -> Result<Observation> {
    let body = decompressed(&packed.body)?;
    Ok(Observation { body, ..packed })
}

fn decompressed(stored: &[u8]) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    ZlibDecoder::new(stored)
        .take(MAX_BODY)
        .read_to_end(&mut body)
        .map_err(|_| StoreError::Invalid("observation"))?;
    Ok(body)
}

fn compressed(body: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).expect("memory takes every byte");
    encoder.finish().expect("memory takes every byte")
}
