//! How much of a history is written in the old form, and which numbers its runs have there.

use super::LegacyError;
use crate::history::History;

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Everything,
    /// The rows of cards and processes with a time from the first and before the second, in microseconds since 1970.
    Rows(i64, i64),
    /// Runs and cards, and hosts as far as they were imported.
    Lists,
}

impl Part {
    pub(super) fn has_rows(self) -> bool {
        self != Part::Lists
    }

    pub(super) fn has_lists(self) -> bool {
        !matches!(self, Part::Rows(..))
    }

    /// The times that are looked at.
    pub(super) fn window(self) -> (i64, i64) {
        match self {
            Part::Rows(from, to) => (from, to),
            Part::Everything | Part::Lists => (i64::MIN, i64::MAX),
        }
    }
}

/// What is added to the numbers of runs, so that no two sources share one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbering {
    pub(crate) sources: Vec<Source>,
    pub(super) own_offset: i64,
}

/// A file that was imported.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) id: i64,
    pub(super) run_offset: i64,
}

impl Numbering {
    pub(crate) fn of(history: &History) -> Result<Self, LegacyError> {
        // Rows may name a run that is gone.
        let sql = "SELECT id, max(ifnull((SELECT max(row) FROM old_run WHERE source = id), 0), \
             ifnull((SELECT max(run) FROM old_card_block WHERE source = id), 0), \
             ifnull((SELECT max(run) FROM old_process_block WHERE source = id), 0)) FROM old_source ORDER BY id";
        let read = || -> Result<Vec<(i64, i64)>, rusqlite::Error> {
            let mut query = history.connection.prepare(sql)?;
            query
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        };
        let mut numbering = Self::default();
        for (id, highest_run) in read().map_err(LegacyError::Write)? {
            let run_offset = numbering.own_offset;
            numbering.sources.push(Source { id, run_offset });
            numbering.own_offset = run_offset + highest_run;
        }
        Ok(numbering)
    }
}
