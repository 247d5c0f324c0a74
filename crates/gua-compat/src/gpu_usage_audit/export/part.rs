//! How much of a history is written in the old form, and which numbers its runs have there.

use gua_store::History;
use gua_store::imported::LegacyError;

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
    pub(super) sources: Vec<Source>,
    pub(super) own_offset: i64,
}

/// A file that was imported.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(super) id: i64,
    pub(super) run_offset: i64,
}

impl Numbering {
    pub(crate) fn of(history: &History) -> Result<Self, LegacyError> {
        let mut numbering = Self::default();
        for source in history.old_sources()? {
            let run_offset = numbering.own_offset;
            let id = source.id;
            numbering.sources.push(Source { id, run_offset });
            numbering.own_offset = run_offset + source.highest_run;
        }
        Ok(numbering)
    }
}
