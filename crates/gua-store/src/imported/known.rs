//! State of a source that was imported before, for importers that decide row by row.

use std::path::Path;
use std::time::Duration;

use rusqlite::OptionalExtension as _;

use super::covered::Covered;
use super::error::LegacyError;
use super::totals::mark_all_stale;
use crate::sql::rows;
use crate::store::Store;

/// State of a source after earlier imports.
#[derive(Debug)]
pub struct KnownImport {
    pub source: i64,
    /// Recorded interval of the requested run; `None` if the import did not complete.
    pub interval: Option<Duration>,
    /// Number of the last row that was considered.
    pub last_row: i64,
    /// Whether a user was erased from it.
    pub is_erased: bool,
    /// First and last row of each block, in order.
    blocks: Vec<(i64, i64)>,
}

impl KnownImport {
    /// Returns whether a row was imported.
    #[must_use]
    pub fn has(&self, row: i64) -> bool {
        let block = self.blocks.partition_point(|(_, last)| *last < row);
        self.blocks
            .get(block)
            .is_some_and(|(first, _)| *first <= row)
    }
}

impl Store {
    /// Source identified by a fact, with the interval of its run `run`.
    pub fn known_import(&self, fact: &str, run: i64) -> Result<Option<KnownImport>, LegacyError> {
        let found = self
            .connection
            .query_row(
                "SELECT id, last_card_row, erased, \
                 (SELECT interval_seconds FROM old_run WHERE old_run.source = id AND row = ?2) \
                 FROM old_source JOIN old_source_fact ON source = id WHERE fact = ?1",
                (fact, run),
                |row| {
                    let seconds: Option<f64> = row.get(3)?;
                    Ok(KnownImport {
                        source: row.get(0)?,
                        interval: seconds.and_then(|it| Duration::try_from_secs_f64(it).ok()),
                        last_row: row.get(1)?,
                        is_erased: row.get(2)?,
                        blocks: Vec::new(),
                    })
                },
            )
            .optional()?;
        let Some(mut known) = found else {
            return Ok(None);
        };
        let blocks = "SELECT first_row, first_row + rows - 1 FROM old_card_block WHERE source = ?1 ORDER BY first_row";
        known.blocks = rows(&self.connection, blocks, [known.source], |row| {
            Ok::<_, LegacyError>((row.get(0)?, row.get(1)?))
        })?;
        Ok(Some(known))
    }

    /// Sources of files without a host table and with this file name that no fact beginning with `prefix` recognises.
    pub fn hostless_imports(&self, path: &Path, prefix: &str) -> Result<Vec<i64>, LegacyError> {
        let sql = "SELECT id, path FROM old_source WHERE columns NOT LIKE '%host.%' AND NOT EXISTS \
             (SELECT 1 FROM old_source_fact WHERE source = id AND substr(fact, 1, length(?1)) = ?1)";
        let found = rows(&self.connection, sql, [prefix], |row| {
            Ok::<(i64, String), LegacyError>((row.get(0)?, row.get(1)?))
        })?;
        let is_its = |known: &str| {
            path.file_name().is_some() && Path::new(known).file_name() == path.file_name()
        };
        let found = found.into_iter().filter(|(_, known)| is_its(known));
        Ok(found.map(|(id, _)| id).collect())
    }

    /// Removes everything imported from a source. Part of a larger change, which also settles the totals.
    pub fn remove_import(&self, source: i64) -> Result<(), LegacyError> {
        mark_all_stale(&self.connection, Some(source))?;
        for table in [
            "old_card_block",
            "old_process_block",
            "old_run",
            "old_source_fact",
        ] {
            let sql = format!("DELETE FROM {table} WHERE source = ?1");
            self.connection.execute(&sql, [source])?;
        }
        self.connection
            .execute("DELETE FROM old_source WHERE id = ?1", [source])?;
        Ok(())
    }

    /// Times within `[from, to)` that this history observed itself or has from rows of gpu-usage-audit.
    pub fn covered(&self, ends: (i64, i64)) -> Result<Covered, LegacyError> {
        Covered::of(&self.connection, ends)
    }
}
