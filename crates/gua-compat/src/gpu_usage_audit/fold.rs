//! Folds the rows of a file of gpu-usage-audit in place.

use gua_model::Period;
use gua_model::legacy::LegacyMoment;
use gua_store::imported::{
    CardRow, ImportedRow as _, Intervals, LegacyError, Merged, ProcessRow, Stamp, Texts, merge,
    old_text,
};
use rusqlite::OptionalExtension as _;

use super::cursor::{Cursor, Wanted};
use super::open::OldFile;
use super::scan::Choice;

impl OldFile {
    /// Folds every moment of a window in order of time. If the file's rows turn out not to be in that order, the fold
    /// starts over with sorted rows; `start` therefore creates the initial value and may be called twice.
    pub fn fold<A>(
        &self,
        window: Period,
        start: impl Fn() -> A,
        mut step: impl FnMut(&mut A, &LegacyMoment<'_>),
    ) -> Result<A, LegacyError> {
        let intervals = self.intervals()?;
        let mut orders =
            vec![self.narrow(window)?.unwrap_or_else(by_row), sorted(window)].into_iter();
        loop {
            let Some(rows) = orders.next() else {
                let why = "some are not written as gpu-usage-audit writes them; `gua import` can take them".to_owned();
                return Err(LegacyError::Disorder {
                    path: self.path.clone(),
                    why,
                });
            };
            let wanted = Wanted {
                rows,
                window: ends(window),
            };
            let read = |source| self.failed(source);
            let kilobytes = if wanted.rows.parameters.is_empty() {
                SCAN_CACHE
            } else {
                SORT_CACHE
            };
            self.connection
                .pragma_update(None, "cache_size", -kilobytes)
                .map_err(read)?;
            let mut sum = start();
            let mut texts = Texts::default();
            let mut cards = self.select_counted::<CardRow>(&wanted)?;
            let mut processes = self.select_counted::<ProcessRow>(&wanted)?;
            let cards = Cursor::<CardRow>::new(self, &mut cards, &wanted, &mut texts)?;
            let processes = Cursor::<ProcessRow>::new(self, &mut processes, &wanted, &mut texts)?;
            match merge(cards, processes, &mut texts, &intervals, &mut |moment| {
                step(&mut sum, moment);
            })? {
                Merged::Whole => {
                    self.confirm()?;
                    return Ok(sum);
                }
                Merged::Disordered => {}
            }
        }
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
    fn narrow(&self, window: Period) -> Result<Option<Choice>, LegacyError> {
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
        let mut cards = self.cards(CardRow::TABLE).map_err(read)?;
        let mut ends: Option<(i64, i64)> = None;
        for card in &cards {
            let (Some(first), Some(last)) = self.ends(card)? else {
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
        if cards.len() > MOST_CARDS || (to - from).saturating_mul(NARROW) > last - first {
            return Ok(None);
        }
        cards.extend(self.cards(ProcessRow::TABLE).map_err(read)?);
        cards.sort();
        cards.dedup();
        let places = (3..3 + cards.len())
            .map(|place| format!("?{place}"))
            .collect::<Vec<_>>()
            .join(", ");
        let mut choice = sorted(window);
        choice.clause =
            format!("WHERE gpu_uuid IN ({places}) AND ts >= ?1 AND ts < ?2 ORDER BY ts, rowid");
        choice.parameters.extend(cards);
        Ok(Some(choice))
    }

    /// Times of the first and the last row of a GPU, which the index has; `None` for a time that gpu-usage-audit does not
    /// write.
    pub(super) fn ends(&self, card: &str) -> Result<(Option<i64>, Option<i64>), LegacyError> {
        let texts: (Option<String>, Option<String>) = self
            .connection
            .query_row(
                "SELECT (SELECT min(ts) FROM gpu_sample WHERE gpu_uuid = ?1), \
                 (SELECT max(ts) FROM gpu_sample WHERE gpu_uuid = ?1)",
                [card],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .map_err(|source| self.failed(source))?;
        let micros = |text: Option<String>| Stamp::micros(&text?);
        Ok((micros(texts.0), micros(texts.1)))
    }

    /// Every GPU that has rows.
    pub(super) fn seen_cards(&self) -> Result<Vec<String>, rusqlite::Error> {
        self.cards(CardRow::TABLE)
    }

    /// Every GPU of a table, found by skipping from one to the next in the index.
    fn cards(&self, table: &str) -> Result<Vec<String>, rusqlite::Error> {
        let sql =
            format!("SELECT gpu_uuid FROM {table} WHERE gpu_uuid > ?1 ORDER BY gpu_uuid LIMIT 1");
        let mut next = self.connection.prepare(&sql)?;
        let mut cards: Vec<String> = Vec::new();
        loop {
            let last = cards.last().map_or("", String::as_str);
            match next.query_row([last], |row| row.get(0)).optional()? {
                Some(card) if cards.len() < MOST => cards.push(card),
                _ => return Ok(cards),
            }
        }
    }
}

/// A window is narrow if it is at most this fraction (1/N) of the file: sorting more takes longer than a scan.
const NARROW: i64 = 10;
/// Page cache of a scan. A scan never returns to a page, so a small cache that fits the CPU caches is faster.
const SCAN_CACHE: i64 = 256;
/// Memory for sorting, in kilobytes; the rest goes to a temporary file.
const SORT_CACHE: i64 = 8_000;
/// Maximum number of GPUs. More cannot belong to one host.
const MOST: usize = 4096;
/// Maximum number of GPUs for the index; with more, the file is scanned.
const MOST_CARDS: usize = 500;

/// Selects all rows in the order of writing, which is the order of time unless the clock was set back or two collectors
/// wrote. A filter on the time in SQLite would take longer than reading all rows.
fn by_row() -> Choice {
    Choice {
        clause: "ORDER BY rowid".to_owned(),
        parameters: Vec::new(),
    }
}

/// Selects the rows of a window, sorted by time. The unary plus prevents SQLite from trying to convert every text to a
/// number, as the declared column type would require.
fn sorted(window: Period) -> Choice {
    let (from, to) = ends(window);
    Choice {
        clause: "WHERE +ts >= ?1 AND +ts < ?2 ORDER BY +ts, rowid".to_owned(),
        parameters: vec![from, to],
    }
}

fn ends(window: Period) -> (String, String) {
    (old_text(window.from()), old_text(window.to()))
}
