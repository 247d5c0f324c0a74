//! Metadata of imported files: the host, the models of its GPUs, and the time range.

use std::collections::BTreeMap;
use std::time::Duration;

use gua_model::report::Host;
use gua_model::{Bytes, GpuUuid, UtcDay, sane};
use gua_query::records::{ImportedFacts, ImportedGpu};
use rusqlite::{Connection, OptionalExtension as _};

use super::error::LegacyError;
use super::rows::GpuRow;
use super::stored::{load_texts, stored_block};
use crate::history::History;
use crate::sql;

impl History {
    /// Metadata of everything imported; `None` if nothing was.
    pub fn imported_facts(&self) -> Result<Option<ImportedFacts>, LegacyError> {
        let connection = &self.connection;
        let (began, ended, damaged): (Option<i64>, Option<i64>, i64) = connection.query_row(
            // Each subquery reads the ends of an index; one scan of all blocks took more than half of a report.
            "SELECT min((SELECT min(at_us) FROM old_card_block WHERE source = id AND at_us >= ?1)),
             max((SELECT max(at_us) FROM old_card_block WHERE source = id AND at_us < ?2)),
             ifnull(sum((SELECT count(*) FROM old_card_block WHERE source = id AND at_us < ?1)
                 + (SELECT count(*) FROM old_card_block WHERE source = id AND at_us >= ?2)), 0) FROM old_source",
            [sane::FIRST, sane::END],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )?;
        if began.is_none() {
            return Ok(None);
        }
        let mut gpus = read_gpus(
            connection,
            "SELECT gpu_uuid, name, memory_total_mb FROM old_device",
        )?;
        for (gpu, index) in last_indexes(connection)? {
            gpus.entry(gpu).or_default().index = Some(index);
        }
        Ok(Some(ImportedFacts {
            host: read_host(
                connection,
                "SELECT hostname, env_kind, driver_version FROM old_host ORDER BY source, row LIMIT 1",
            )?,
            gpus,
            began: began.and_then(sane::time),
            ended: ended.and_then(sane::time),
            damaged: damaged.unsigned_abs(),
            interval: read_interval(
                connection,
                "SELECT interval_seconds FROM old_run ORDER BY source DESC, row DESC LIMIT 1",
            )?,
        }))
    }
}

/// The last known index of each GPU. Rows are packed, so the last block of each UTC day is read instead of all of them.
fn last_indexes(connection: &Connection) -> Result<BTreeMap<GpuUuid, u32>, LegacyError> {
    let texts = load_texts(connection)?;
    let mut query = connection.prepare(
        "SELECT first_row, at_us, written_as, run, rows, cells FROM old_card_block
         WHERE source = ?1 AND at_us >= ?2 AND at_us < ?3 ORDER BY at_us DESC, first_row DESC LIMIT 1",
    )?;
    let sources = "SELECT id FROM old_source ORDER BY last_us DESC, id DESC";
    let sources: Vec<i64> = sql::rows(connection, sources, [], |row| row.get(0))?;
    let mut found = BTreeMap::new();
    for source in sources {
        let mut end = sane::END;
        loop {
            let mut blocks = query.query((source, sane::FIRST, end))?;
            let Some(row) = blocks.next()? else { break };
            let at: i64 = row.get(1)?;
            // A damaged block is reported where its rows are read.
            let block = stored_block::<GpuRow>(row, &texts).ok();
            for row in block.iter().flat_map(|block| block.rows.iter().rev()) {
                let gpu = texts.get(row.gpu).and_then(|gpu| gpu.parse().ok());
                let index = row.gpu_index.and_then(|index| u32::try_from(index).ok());
                if let (Some(gpu), Some(index)) = (gpu, index) {
                    found.entry(gpu).or_insert(index);
                }
            }
            end = UtcDay::of(sane::nearest(at))
                .first_quarter()
                .period()
                .from()
                .as_microsecond();
        }
    }
    Ok(found)
}

/// First host that a query returns, by name, environment and driver.
pub fn read_host(connection: &Connection, sql: &str) -> Result<Option<Host>, rusqlite::Error> {
    let row = connection.query_row(sql, [], |row| {
        Ok(Host {
            name: row.get(0)?,
            environment: row.get(1)?,
            driver: row.get(2)?,
        })
    });
    row.optional()
}

/// GPUs that a query returns, by UUID, name and memory in megabytes.
pub fn read_gpus(
    connection: &Connection,
    sql: &str,
) -> rusqlite::Result<BTreeMap<GpuUuid, ImportedGpu>> {
    let mut gpus = BTreeMap::new();
    sql::each(connection, sql, [], |row| {
        let uuid: String = row.get(0)?;
        let memory: i64 = row.get(2)?;
        // Skip an invalid GPU UUID; its rows are rejected when they are read.
        if let Ok(uuid) = uuid.parse() {
            let gpu = ImportedGpu {
                index: None,
                name: row.get(1)?,
                memory_total: Some(Bytes::from_mb(memory.unsigned_abs())),
            };
            gpus.insert(uuid, gpu);
        }
        Ok::<_, rusqlite::Error>(())
    })?;
    Ok(gpus)
}

/// First interval that a query returns, in seconds.
pub fn read_interval(
    connection: &Connection,
    sql: &str,
) -> Result<Option<Duration>, rusqlite::Error> {
    let seconds: Option<f64> = sql::find(connection, sql, [])?;
    let interval = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Ok(interval.filter(|interval| sane::is_interval(*interval)))
}
