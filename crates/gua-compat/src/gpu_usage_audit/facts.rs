//! Metadata of a file of gpu-usage-audit: the host, the models of its GPUs, and the time range.

use std::collections::BTreeMap;
use std::time::Duration;

use gua_model::{Bytes, GpuUuid};
use gua_query::records::{ImportedFacts, ImportedGpu, ImportedHost};
use gua_store::imported::{LegacyError, Stamp};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _};

use super::open::OldFile;

impl OldFile {
    pub fn facts(&self) -> Result<ImportedFacts, LegacyError> {
        let read = |source| self.failed(source);
        let connection = &self.connection;
        let mut facts = ImportedFacts::default();
        if self.columns().has("host", "hostname") {
            facts.host = host(
                connection,
                "SELECT hostname, env_kind, driver_version FROM host ORDER BY rowid LIMIT 1",
            )
            .map_err(read)?;
        }
        if self.columns().has("gpu_device", "gpu_uuid") {
            facts.gpus = cards(
                connection,
                "SELECT gpu_uuid, name, memory_total_mb FROM gpu_device",
            )
            .map_err(read)?;
        }
        if self.columns().has("daemon_run", "interval_seconds") {
            facts.interval = interval(
                connection,
                "SELECT interval_seconds FROM daemon_run ORDER BY id DESC LIMIT 1",
            )
            .map_err(read)?;
        }
        for card in self.known_cards()? {
            if let Ok(uuid) = card.uuid.parse() {
                facts.gpus.entry(uuid).or_default().index = card.index;
            }
        }
        // One query per GPU, so that the index is used.
        for card in self.seen_cards().map_err(read)? {
            let (first, last): (Option<String>, Option<String>) = connection
                .query_row(
                    "SELECT (SELECT min(ts) FROM gpu_sample WHERE gpu_uuid = ?1), \
                     (SELECT max(ts) FROM gpu_sample WHERE gpu_uuid = ?1)",
                    [card],
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .map_err(read)?;
            let time = |text: Option<String>| {
                let stamp = Stamp::parse(&text?)?;
                Timestamp::from_microsecond(stamp.at_us).ok()
            };
            facts.began = facts.began.into_iter().chain(time(first)).min();
            facts.ended = facts.ended.max(time(last));
        }
        Ok(facts)
    }
}

fn host(connection: &Connection, sql: &str) -> Result<Option<ImportedHost>, rusqlite::Error> {
    let row = connection.query_row(sql, [], |row| {
        Ok(ImportedHost {
            name: row.get(0)?,
            environment: row.get(1)?,
            driver: row.get(2)?,
        })
    });
    row.optional()
}

fn cards(
    connection: &Connection,
    sql: &str,
) -> Result<BTreeMap<GpuUuid, ImportedGpu>, rusqlite::Error> {
    let mut query = connection.prepare(sql)?;
    let mut rows = query.query([])?;
    let mut cards = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let uuid: String = row.get(0)?;
        let memory: i64 = row.get(2)?;
        // Skip an invalid GPU UUID; its rows are rejected when they are read.
        if let Ok(uuid) = uuid.parse() {
            let card = ImportedGpu {
                index: None,
                name: row.get(1)?,
                memory_total: Some(Bytes::from_mb(memory.unsigned_abs())),
            };
            cards.insert(uuid, card);
        }
    }
    Ok(cards)
}

fn interval(connection: &Connection, sql: &str) -> Result<Option<Duration>, rusqlite::Error> {
    let seconds: Option<f64> = connection.query_row(sql, [], |row| row.get(0)).optional()?;
    Ok(seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()))
}
