//! The records of a history file for `gua-query`.

use std::collections::BTreeMap;
use std::time::Duration;

use gua_model::refusal::Refusal;
use gua_model::{Floors, LegacyMoment, Outage, Period, Session, Span, Thresholds, Tick, Uid};
use gua_query::records::{ImportedFacts, QuarterVisitor, TickAt};
use gua_query::{GpuInfo, Records, RecordsError, WatchedRun};
use jiff::Timestamp;

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

impl Records for History {
    fn gpus(&self) -> Result<Vec<GpuInfo>> {
        Ok(self.cards()?)
    }

    fn people(&self) -> Result<BTreeMap<Uid, String>> {
        Ok(self.people()?)
    }

    fn host(&self) -> Result<Option<String>> {
        Ok(self.host()?)
    }

    fn tick_interval(&self) -> Result<Option<Duration>> {
        Ok(self.runs()?.last().map(|run| run.interval))
    }

    fn thresholds(&self) -> Result<Thresholds> {
        Ok(self.thresholds()?)
    }

    fn raw_from(&self) -> Result<Option<Timestamp>> {
        Ok(self.raw_from()?)
    }

    fn outages(&self, window: Period) -> Result<Vec<Outage>> {
        Ok(self.outages(window)?)
    }

    fn quarters(
        &self,
        window: Period,
        thresholds: Thresholds,
        visitor: &mut dyn QuarterVisitor,
    ) -> Result<u32> {
        Ok(self.visit_totals(window, Some(thresholds), visitor)?)
    }

    fn sessions(&self, window: Period, each: &mut dyn FnMut(&Session)) -> Result<()> {
        Ok(self.each_session(window, each)?)
    }

    fn spans(
        &self,
        window: Period,
        thresholds: Thresholds,
        each: &mut dyn FnMut(&Span),
    ) -> Result<()> {
        Ok(self.each_span(window, thresholds, each)?)
    }

    fn ticks(&self, window: Period, each: &mut dyn FnMut(Tick)) -> Result<()> {
        self.ticks(window, |tick| {
            if let Ok(stored) = tick {
                each(stored.tick);
            }
            Ok(())
        })
    }

    fn last_tick_before(&self, moment: Timestamp) -> Result<Option<Tick>> {
        Ok(self.last_tick_before(moment)?.map(|stored| stored.tick))
    }

    fn tick_at(&self, at: Timestamp, thresholds: Thresholds) -> Result<Option<TickAt>> {
        Ok(self.tick_at(at, thresholds)?)
    }

    fn floors(&self, at: Timestamp) -> Result<Floors> {
        Ok(self.floors(at)?)
    }

    fn refusals(&self, window: Period) -> Result<Vec<Refusal>> {
        Ok(self.refusals(window)?)
    }

    fn runs(&self, window: Period, limit: u32) -> Result<Vec<WatchedRun>> {
        Ok(self.watched_runs(window, limit)?)
    }

    fn runs_with_prefix(&self, prefix: &str) -> Result<Vec<WatchedRun>> {
        Ok(self.watched_runs_called(prefix)?)
    }

    fn imported_facts(&self) -> Result<Option<ImportedFacts>> {
        Ok(self.old_facts()?)
    }

    fn imported(
        &self,
        window: Period,
        thresholds: Thresholds,
        interval: Option<Duration>,
        visitor: &mut dyn QuarterVisitor,
    ) -> Result<u64> {
        Ok(self.imported(window, thresholds, interval, visitor)?)
    }

    fn imported_moments(
        &self,
        window: Period,
        each: &mut dyn FnMut(&LegacyMoment<'_>),
    ) -> Result<()> {
        Ok(self.old_moments(window, each)?)
    }
}
