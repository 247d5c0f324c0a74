//! Part of a history to be exported, and the run numbers used in the export.

use gua_store::History;
use gua_store::imported::LegacyError;

/// Part to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Everything,
    /// Rows of GPUs and processes with a time in `[from, to)`, in microseconds since 1970.
    Rows(i64, i64),
    /// Runs and GPUs, and hosts if they were imported.
    Lists,
}

impl Part {
    pub(super) fn has_rows(self) -> bool {
        self != Part::Lists
    }

    pub(super) fn has_lists(self) -> bool {
        !matches!(self, Part::Rows(..))
    }

    /// Time range that is read.
    pub(super) fn window(self) -> (i64, i64) {
        match self {
            Part::Rows(from, to) => (from, to),
            Part::Everything | Part::Lists => (i64::MIN, i64::MAX),
        }
    }
}

/// Offsets added to run numbers, so that no two sources share one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbering {
    pub(super) sources: Vec<Source>,
    pub(super) own_offset: i64,
}

/// An imported file.
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
            numbering.own_offset = run_offset.saturating_add(source.highest_run);
        }
        Ok(numbering)
    }
}
