//! Metadata of a file of gpu-usage-audit: the host, the models of its GPUs, and the time range.

use gua_model::sane;
use gua_query::records::ImportedFacts;
use gua_store::imported::{LegacyError, read_gpus, read_host, read_interval};
use rusqlite::OptionalExtension as _;

use super::open::OldFile;

impl OldFile {
    pub fn facts(&self) -> Result<ImportedFacts, LegacyError> {
        let read = |source| self.failed(source);
        let connection = &self.connection;
        let mut facts = ImportedFacts::default();
        if self.columns().has("host", "hostname") {
            facts.host = read_host(
                connection,
                "SELECT hostname, env_kind, driver_version FROM host ORDER BY rowid LIMIT 1",
            )
            .map_err(read)?;
        }
        if self.columns().has("gpu_device", "gpu_uuid") {
            facts.gpus = read_gpus(
                connection,
                "SELECT gpu_uuid, name, memory_total_mb FROM gpu_device",
            )
            .map_err(read)?;
        }
        if self.columns().has("daemon_run", "interval_seconds") {
            facts.interval = read_interval(
                connection,
                "SELECT interval_seconds FROM daemon_run ORDER BY id DESC LIMIT 1",
            )
            .map_err(read)?;
        }
        for card in self.seen_gpus().map_err(read)? {
            if let Ok(uuid) = card.parse() {
                facts.gpus.entry(uuid).or_default().index = self.index(&card).map_err(read)?;
            }
            let (first, last) = self.ends(&card)?;
            let (first, last) = (first.and_then(sane::time), last.and_then(sane::time));
            facts.began = facts.began.into_iter().chain(first).min();
            facts.ended = facts.ended.max(last);
            facts.damaged += self.damaged(&card).map_err(read)?;
        }
        Ok(facts)
    }

    /// Last known index of a GPU.
    fn index(&self, card: &str) -> Result<Option<u32>, rusqlite::Error> {
        if !self.columns().has("gpu_sample", "gpu_index") {
            return Ok(None);
        }
        let index = self.connection.query_row(
            "SELECT gpu_index FROM gpu_sample WHERE gpu_uuid = ?1 ORDER BY ts DESC LIMIT 1",
            [card],
            |row| row.get_ref(0).map(|cell| cell.as_i64().ok()),
        );
        let index = index.optional()?.flatten();
        Ok(index.and_then(|index| u32::try_from(index).ok()))
    }
}
