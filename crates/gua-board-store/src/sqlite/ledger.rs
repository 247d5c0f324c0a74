//! The ledger in SQLite.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use jiff::Timestamp;
use jiff::civil::Date;
use rusqlite::{OptionalExtension as _, Row, params};

use super::SqliteStore;
use crate::error::StoreError;
use crate::id::HostId;
use crate::ledger::{ArchiveName, Form, Ledger, MOST_CLOCK_LEAD, Observation};

/// Name of an archive file that covers all days.
const FULL: &str = "_full";
/// Upper bound of a stored body when it is read back. A larger one is damage.
const LONGEST_BODY: u64 = 64 << 20;

impl Ledger for SqliteStore {
    fn record(&self, batch: &[Observation]) -> Result<(), StoreError> {
        // Compressed before the transaction, so that other writers wait less.
        let bodies: Vec<Vec<u8>> = batch.iter().map(|one| compressed(&one.body)).collect();
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
            for (observation, body) in batch.iter().zip(&bodies) {
                let host = observation.host.as_str();
                let observed_at = observation.observed_at.as_microsecond();
                let received_at = observation.received_at.as_microsecond();
                if observation.form == Form::Snapshot {
                    history.execute(params![observed_at, host, received_at, body])?;
                }
                latest.execute(params![
                    host,
                    observation.form.as_str(),
                    observed_at,
                    received_at,
                    body,
                    i64::try_from(MOST_CLOCK_LEAD.as_micros()).expect("a few minutes fit"),
                ])?;
            }
            Ok(())
        })
    }

    fn latest(&self) -> Result<Vec<Observation>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT host, form, observed_at, received_at, body FROM latest ORDER BY host, form",
            )?;
            let rows =
                statement.query_map([], |row| Ok((row.get::<_, String>(1)?, stored(row)?)))?;
            let rows: Vec<(String, Stored)> = rows.collect::<Result<_, _>>()?;
            // The board does not answer before this is done, so all cores decompress.
            let observation = |(form, stored): (String, Stored)| {
                let forms = [Form::Snapshot, Form::Live];
                let form = forms.into_iter().find(|known| known.as_str() == form);
                stored.observation(form.ok_or(StoreError::Invalid("form"))?)
            };
            on_all_cores(rows, observation).into_iter().collect()
        })
    }

    fn snapshots(
        &self,
        host: &HostId,
        from: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Observation>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT host, '', observed_at, received_at, body FROM snapshot
                 WHERE observed_at >= ?2 AND observed_at < ?3 AND host = ?1 ORDER BY observed_at",
            )?;
            let range = params![host.as_str(), from.as_microsecond(), until.as_microsecond()];
            let rows = statement.query_map(range, stored)?;
            rows.map(|row| row?.observation(Form::Snapshot)).collect()
        })
    }

    fn expire_snapshots(&self, before: Timestamp, most: u32) -> Result<usize, StoreError> {
        self.write(|transaction| {
            let deleted = transaction
                .prepare_cached(
                    "DELETE FROM snapshot WHERE rowid IN
                     (SELECT rowid FROM snapshot WHERE observed_at < ?1 ORDER BY observed_at LIMIT ?2)",
                )?
                .execute(params![before.as_microsecond(), most])?;
            Ok(deleted)
        })
    }

    fn put_days(&self, days: &[(HostId, Vec<u8>)]) -> Result<(), StoreError> {
        let bodies: Vec<Vec<u8>> = days.iter().map(|(_, body)| compressed(body)).collect();
        self.write(|transaction| {
            let mut put = transaction.prepare_cached(
                "INSERT INTO day (host, body) VALUES (?1, ?2) ON CONFLICT (host) DO UPDATE SET body = ?2",
            )?;
            for ((host, _), body) in days.iter().zip(&bodies) {
                put.execute(params![host.as_str(), body])?;
            }
            Ok(())
        })
    }

    fn days(&self) -> Result<Vec<(HostId, Vec<u8>)>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached("SELECT host, body FROM day")?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.map(|row| {
                let (host, body): (String, Vec<u8>) = row?;
                Ok((HostId(host), decompressed(&body)?))
            })
            .collect()
        })
    }

    fn put_archive(
        &self,
        host: &HostId,
        name: &ArchiveName,
        content: &[u8],
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(|transaction| {
            transaction
                .prepare_cached(
                    "INSERT INTO archive (host, day, name, stored, content) VALUES (?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT (host, day, name) DO UPDATE SET stored = ?4, content = ?5",
                )?
                .execute(params![
                    host.as_str(),
                    day_text(name.day),
                    name.table,
                    at.as_microsecond(),
                    content
                ])?;
            Ok(())
        })
    }

    fn archives(&self, host: &HostId) -> Result<Vec<ArchiveName>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT day, name FROM archive WHERE host = ?1 ORDER BY day, name",
            )?;
            let rows = statement.query_map([host.as_str()], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })?;
            rows.map(|row| {
                let (day, table) = row?;
                let day = match day.as_str() {
                    FULL => None,
                    day => Some(day.parse().map_err(|_| StoreError::Invalid("day"))?),
                };
                Ok(ArchiveName { day, table })
            })
            .collect()
        })
    }

    fn archive(&self, host: &HostId, name: &ArchiveName) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|connection| {
            let content = connection
                .prepare_cached(
                    "SELECT content FROM archive WHERE host = ?1 AND day = ?2 AND name = ?3",
                )?
                .query_row(
                    params![host.as_str(), day_text(name.day), name.table],
                    |row| row.get(0),
                )
                .optional()?;
            Ok(content)
        })
    }

    fn prune_archives(&self, host: &HostId, before: Date) -> Result<usize, StoreError> {
        self.write(|transaction| {
            // Days as text sort like days, and `_full` sorts after all of them.
            let deleted = transaction
                .prepare_cached("DELETE FROM archive WHERE host = ?1 AND day < ?2")?
                .execute(params![host.as_str(), before.to_string()])?;
            Ok(deleted)
        })
    }
}

impl SqliteStore {
    /// Returns host and time of every stored snapshot, without its content.
    pub fn snapshot_keys(&self) -> Result<Vec<(HostId, Timestamp)>, StoreError> {
        self.read(|connection| {
            let sql = "SELECT host, observed_at FROM snapshot ORDER BY observed_at, host";
            let mut statement = connection.prepare(sql)?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.map(|row| {
                let (host, observed_at) = row?;
                Ok((HostId(host), super::registry::time(observed_at)?))
            })
            .collect()
        })
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

fn day_text(day: Option<Date>) -> String {
    day.map_or_else(|| FULL.to_owned(), |day| day.to_string())
}

/// A row as it is stored.
struct Stored {
    host: String,
    observed_at: i64,
    received_at: i64,
    body: Vec<u8>,
}

fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    Ok(Stored {
        host: row.get(0)?,
        observed_at: row.get(2)?,
        received_at: row.get(3)?,
        body: row.get(4)?,
    })
}

impl Stored {
    fn observation(self, form: Form) -> Result<Observation, StoreError> {
        let body = decompressed(&self.body)?;
        Ok(Observation {
            host: HostId(self.host),
            form,
            observed_at: super::registry::time(self.observed_at)?,
            received_at: super::registry::time(self.received_at)?,
            body,
        })
    }
}

fn decompressed(stored: &[u8]) -> Result<Vec<u8>, StoreError> {
    let mut body = Vec::new();
    ZlibDecoder::new(stored)
        .take(LONGEST_BODY)
        .read_to_end(&mut body)
        .map_err(|_| StoreError::Invalid("observation"))?;
    Ok(body)
}

fn compressed(body: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).expect("memory takes every byte");
    encoder.finish().expect("memory takes every byte")
}
