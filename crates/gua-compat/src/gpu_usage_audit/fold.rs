//! Folds the rows of a file of gpu-usage-audit in place, and reads its metadata.

use gua_model::legacy::LegacyMoment;
use gua_model::{Period, sane};
use gua_query::records::ImportedFacts;
use gua_store::imported::{
    GpuRow, ImportedRow as _, Intervals, LegacyError, Merged, ProcessRow, Stamp, Texts, merge,
    old_text, read_gpus, read_host, read_interval,
};
use jiff::Timestamp;
use rusqlite::OptionalExtension as _;

use super::open::OldFile;
use super::rows::{Choice, Extent, Scan};

impl OldFile {
    /// Folds every moment of a window in order of time, with the chosen cells. If the file's rows turn out not to be in that
    /// order, the fold starts over with sorted rows; `start` therefore creates the initial value and may be called twice. Also
    /// returns the number of rows of GPUs without a valid name, which are left out.
    pub(crate) fn fold<A>(
        &self,
        window: Period,
        extent: Extent,
        start: impl Fn() -> A,
        mut step: impl FnMut(&mut A, &LegacyMoment<'_>),
    ) -> Result<(A, u64), LegacyError> {
        let intervals = self.intervals()?;
        let first = self.narrow(window, extent)?;
        let first = first.unwrap_or_else(|| Choice::by_row(Some(ends(window)), extent));
        for choice in [first, sorted(window, extent)] {
            let read = |source| self.failed(source);
            let kilobytes = match choice.parameters.is_empty() {
                true => SCAN_CACHE,
                false => SORT_CACHE,
            };
            self.connection
                .pragma_update(None, "cache_size", -kilobytes)
                .map_err(read)?;
            let mut sum = start();
            let mut texts = Texts::default();
            let mut gpus = self.select::<GpuRow>(&choice)?;
            let mut processes = self.select::<ProcessRow>(&choice)?;
            let gpus = Scan::<GpuRow>::new(self, &mut gpus, &choice, &mut texts)?;
            let processes = Scan::<ProcessRow>::new(self, &mut processes, &choice, &mut texts)?;
            let merged = merge(gpus, processes, &mut texts, &intervals, &mut |moment| {
                step(&mut sum, moment);
            });
            if let Merged::Whole { unreadable } = merged? {
                self.confirm()?;
                return Ok((sum, unreadable));
            }
        }
        Err(LegacyError::Disorder {
            path: self.path.clone(),
            why: "some are not written as gpu-usage-audit writes them; `gua import` can take them"
                .to_owned(),
        })
    }

    /// Recorded interval of every run.
    fn intervals(&self) -> Result<Intervals, LegacyError> {
        if !self.columns().has("daemon_run", "interval_seconds") {
            return Ok(Intervals::default());
        }
        let read = || -> Result<Vec<(i64, f64)>, rusqlite::Error> {
            let sql = "SELECT id, interval_seconds FROM daemon_run";
            let mut query = self.connection.prepare(sql)?;
            query
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        };
        let seconds = read().map_err(|source| self.failed(source))?;
        Ok(Intervals::new(seconds))
    }

    /// Selects the rows of a small window by the index on GPU and time. `None` if a scan of the whole file is no
    /// slower, or if there is no such index.
    fn narrow(&self, window: Period, extent: Extent) -> Result<Option<Choice>, LegacyError> {
        let read = |source| self.failed(source);
        let indexes: i64 = self
            .connection
            .query_row(
                "SELECT count(*) FROM sqlite_master WHERE type = 'index' \
                 AND name IN ('idx_gpu_sample_uuid_ts', 'idx_proc_sample_uuid_ts')",
                [],
                |row| row.get(0),
            )
            .map_err(read)?;
        if indexes != 2 {
            return Ok(None);
        }
        let mut gpus = self.gpus_in(GpuRow::TABLE).map_err(read)?;
        let mut ends: Option<(i64, i64)> = None;
        for gpu in &gpus {
            let (Some(first), Some(last)) = self.ends(gpu)? else {
                return Ok(None);
            };
            let (low, high) = ends.unwrap_or((first, last));
            ends = Some((low.min(first), high.max(last)));
        }
        let Some((first, last)) = ends else {
            return Ok(None);
        };
        let from = window.from().as_microsecond().clamp(first, last);
        let to = window.to().as_microsecond().clamp(first, last);
        if gpus.len() > MAX_GPUS || (to - from).saturating_mul(NARROW) > last - first {
            return Ok(None);
        }
        gpus.extend(self.gpus_in(ProcessRow::TABLE).map_err(read)?);
        gpus.sort();
        gpus.dedup();
        let places: Vec<_> = (3..3 + gpus.len())
            .map(|place| format!("?{place}"))
            .collect();
        let places = places.join(", ");
        let mut choice = sorted(window, extent);
        choice.clause =
            format!("WHERE gpu_uuid IN ({places}) AND ts >= ?1 AND ts < ?2 ORDER BY ts, rowid");
        choice.parameters.extend(gpus);
        Ok(Some(choice))
    }

    /// Times of the first and the last row of a GPU, which the index has; `None` for a time that gpu-usage-audit does not
    /// write.
    fn ends(&self, gpu: &str) -> Result<(Option<i64>, Option<i64>), LegacyError> {
        let (first, end) = sane_texts();
        let texts: (Option<String>, Option<String>) = self
            .connection
            .query_row(
                "SELECT (SELECT min(ts) FROM gpu_sample WHERE gpu_uuid = ?1 AND ts >= ?2), \
                 (SELECT max(ts) FROM gpu_sample WHERE gpu_uuid = ?1 AND ts < ?3)",
                [gpu, &first, &end],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .map_err(|source| self.failed(source))?;
        let micros = |text: Option<String>| Stamp::micros(&text?);
        Ok((micros(texts.0), micros(texts.1)))
    }

    /// Number of rows of a GPU with an impossible time.
    fn damaged(&self, gpu: &str) -> Result<u64, rusqlite::Error> {
        let (first, end) = sane_texts();
        let count: i64 = self.connection.query_row(
            "SELECT (SELECT count(*) FROM gpu_sample WHERE gpu_uuid = ?1 AND ts < ?2) + \
             (SELECT count(*) FROM gpu_sample WHERE gpu_uuid = ?1 AND ts >= ?3)",
            [gpu, &first, &end],
            |row| row.get(0),
        )?;
        Ok(count.unsigned_abs())
    }

    /// Every GPU of a table, found by skipping from one to the next in the index.
    fn gpus_in(&self, table: &str) -> Result<Vec<String>, rusqlite::Error> {
        let sql =
            format!("SELECT gpu_uuid FROM {table} WHERE gpu_uuid > ?1 ORDER BY gpu_uuid LIMIT 1");
        let mut next = self.connection.prepare(&sql)?;
        let mut gpus: Vec<String> = Vec::new();
        loop {
            let last = gpus.last().map_or("", String::as_str);
            match next.query_row([last], |row| row.get(0)).optional()? {
                Some(gpu) if gpus.len() < MAX_GPUS_OF_ROW => gpus.push(gpu),
                _ => return Ok(gpus),
            }
        }
    }

    /// Metadata: the host, the models of its GPUs, and the time range.
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
        for gpu in self.gpus_in(GpuRow::TABLE).map_err(read)? {
            if let Ok(uuid) = gpu.parse() {
                facts.gpus.entry(uuid).or_default().index = self.index(&gpu).map_err(read)?;
            }
            let (first, last) = self.ends(&gpu)?;
            let (first, last) = (first.and_then(sane::time), last.and_then(sane::time));
            facts.began = facts.began.into_iter().chain(first).min();
            facts.ended = facts.ended.max(last);
            facts.damaged += self.damaged(&gpu).map_err(read)?;
        }
        Ok(facts)
    }

    /// Last known index of a GPU.
    fn index(&self, gpu: &str) -> Result<Option<u32>, rusqlite::Error> {
        if !self.columns().has("gpu_sample", "gpu_index") {
            return Ok(None);
        }
        let index = self.connection.query_row(
            "SELECT gpu_index FROM gpu_sample WHERE gpu_uuid = ?1 ORDER BY ts DESC LIMIT 1",
            [gpu],
            |row| row.get_ref(0).map(|cell| cell.as_i64().ok()),
        );
        let index = index.optional()?.flatten();
        Ok(index.and_then(|index| u32::try_from(index).ok()))
    }
}

/// A window is narrow if it is at most this fraction (1/N) of the file: sorting more takes longer than a scan.
const NARROW: i64 = 10;
/// Page cache of a scan. A scan never returns to a page, so a small cache that fits the CPU caches is faster.
const SCAN_CACHE: i64 = 256;
/// Memory for sorting, in kilobytes; the rest goes to a temporary file.
const SORT_CACHE: i64 = 8_000;
/// Maximum number of GPUs. More cannot belong to one host.
const MAX_GPUS_OF_ROW: usize = 4096;
/// Maximum number of GPUs for the index; with more, the file is scanned.
const MAX_GPUS: usize = 500;

/// Selects the rows of a window, sorted by time. The unary plus prevents SQLite from trying to convert every text to a
/// number, as the declared column type would require.
fn sorted(window: Period, extent: Extent) -> Choice {
    let (from, to) = ends(window);
    Choice {
        clause: "WHERE +ts >= ?1 AND +ts < ?2 ORDER BY +ts, rowid".to_owned(),
        parameters: vec![from.clone(), to.clone()],
        window: Some((from, to)),
        extent,
    }
}

fn ends(window: Period) -> (String, String) {
    let (from, to) = sane::bounds(window);
    (old_text(sane::nearest(from)), old_text(sane::nearest(to)))
}

/// First sane time and the end of the sane times, as gpu-usage-audit writes them.
fn sane_texts() -> (String, String) {
    ends(Period::new(Timestamp::MIN, Timestamp::MAX))
}
