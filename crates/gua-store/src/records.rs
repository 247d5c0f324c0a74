//! The records of a history file for `gua-query`.

use std::collections::BTreeSet;
use std::time::Duration;

use gua_model::refusal::Refusal;
use gua_model::{
    Floors, LegacyMoment, Outage, OwnCoverage, OwnerKey, Period, Span, Thresholds, Tick,
};
use gua_query::records::{
    ImportedFacts, LeftOut, Origin, QuarterVisitor, SessionVisitor, TickAt, TickVisitor,
};
use gua_query::{GpuInfo, Records, RecordsError, WatchedRun};
use jiff::Timestamp;
use jiff::civil::Date;

use crate::error::ReadError;
use crate::history::History;
use crate::imported::LegacyError;

type Result<T> = std::result::Result<T, RecordsError>;

impl From<ReadError> for RecordsError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Changed => RecordsError::Changed,
            other => RecordsError::read(other),
        }
    }
}

impl From<LegacyError> for RecordsError {
    fn from(error: LegacyError) -> Self {
        match error {
            LegacyError::Ticks(error) => error.into(),
            other => RecordsError::read(other),
        }
    }
}

/// Implements methods by those of the same name.
macro_rules! as_named {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $($argument: $type),*) -> Result<$answer> {
            Ok(History::$name(self, $($argument),*)?)
        }
    )*};
}

impl Records for History {
    as_named! {
        owners() -> BTreeSet<OwnerKey>;
        host() -> Option<String>;
        thresholds() -> Thresholds;
        raw_from() -> Option<Timestamp>;
        outages(window: Period) -> Vec<Outage>;
        absurd_ticks() -> u32;
        damaged_rows() -> u32;
        own_coverage(window: Period) -> OwnCoverage;
        tick_at(at: Timestamp, thresholds: Thresholds) -> Option<TickAt>;
        floors(at: Timestamp) -> Floors;
        gpus() -> Vec<GpuInfo>;
        spans(window: Period, thresholds: Thresholds, each: &mut dyn FnMut(&Span)) -> ();
        sessions(window: Period, visitor: &mut dyn SessionVisitor) -> u32;
        imported_facts() -> Option<ImportedFacts>;
        imported_moments(window: Period, each: &mut dyn FnMut(&LegacyMoment<'_>)) -> ();
        runs_with_prefix(prefix: &str) -> Vec<WatchedRun>;
        refusals(window: Period) -> Vec<Refusal>;
    }

    fn totals(
        &self,
        origin: Origin,
        window: Period,
        thresholds: Thresholds,
        visitor: &mut dyn QuarterVisitor,
    ) -> Result<LeftOut> {
        Ok(match origin {
            Origin::Own => LeftOut {
                damaged: self.quarters(window, thresholds, visitor)?.into(),
                observed: 0,
            },
            Origin::Imported => self.imported(window, thresholds, visitor)?,
        })
    }

    fn tick_interval(&self) -> Result<Option<Duration>> {
        Ok(self.runs()?.last().map(|run| run.interval))
    }

    fn ticks(&self, window: Period, each: &mut dyn FnMut(Tick)) -> Result<u32> {
        let mut damaged = 0;
        self.ticks(window, |tick| {
            match tick {
                Ok(stored) => each(stored.tick),
                Err(ReadError::Tick { .. }) => damaged += 1,
                Err(error) => return Err(RecordsError::from(error)),
            }
            Ok(())
        })?;
        Ok(damaged)
    }

    fn ticks_with_spans(
        &self,
        window: Period,
        thresholds: Thresholds,
        each: &mut TickVisitor<'_>,
    ) -> Result<u32> {
        self.ticks_with_spans(window, thresholds, each)
    }

    fn days_with_rows(&self) -> Result<BTreeSet<Date>> {
        let days = self.days(Date::MIN, Date::MAX)?;
        Ok(&days.whole | &days.cut)
    }

    fn last_tick_before(&self, moment: Timestamp) -> Result<Option<Tick>> {
        Ok(self.last_tick_before(moment)?.map(|stored| stored.tick))
    }

    fn runs(&self, window: Period, limit: u32) -> Result<Vec<WatchedRun>> {
        Ok(self.watched_runs(window, limit)?)
    }
}
