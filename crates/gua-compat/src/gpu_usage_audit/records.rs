//! The records of a file of gpu-usage-audit for `gua-query`, read in place.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gua_model::refusal::Refusal;
use gua_model::{Floors, LegacyMoment, Outage, Period, Session, Span, Thresholds, Tick, Uid};
use gua_query::records::{ImportedFacts, MomentVisitor, QuarterVisitor, TickAt};
use gua_query::{GpuInfo, Records, RecordsError, WatchedRun};
use jiff::Timestamp;

use super::open::OldFile;

type Result<T> = std::result::Result<T, RecordsError>;

/// A file of gpu-usage-audit has imported rows and nothing else.
impl Records for OldFile {
    fn gpus(&self) -> Result<Vec<GpuInfo>> {
        Ok(Vec::new())
    }

    fn people(&self) -> Result<BTreeMap<Uid, String>> {
        Ok(BTreeMap::new())
    }

    fn host(&self) -> Result<Option<String>> {
        Ok(None)
    }

    fn tick_interval(&self) -> Result<Option<Duration>> {
        Ok(None)
    }

    fn thresholds(&self) -> Result<Thresholds> {
        Ok(Thresholds::default())
    }

    fn raw_from(&self) -> Result<Option<Timestamp>> {
        Ok(None)
    }

    fn outages(&self, _window: Period) -> Result<Vec<Outage>> {
        Ok(Vec::new())
    }

    fn quarters(
        &self,
        window: Period,
        _thresholds: Thresholds,
        visitor: &mut dyn QuarterVisitor,
    ) -> Result<u32> {
        visitor.begin(window);
        Ok(0)
    }

    fn sessions(&self, _window: Period, _each: &mut dyn FnMut(&Session)) -> Result<()> {
        Ok(())
    }

    fn spans(
        &self,
        _window: Period,
        _thresholds: Thresholds,
        _each: &mut dyn FnMut(&Span),
    ) -> Result<()> {
        Ok(())
    }

    fn ticks(&self, _window: Period, _each: &mut dyn FnMut(Tick)) -> Result<()> {
        Ok(())
    }

    fn last_tick_before(&self, _moment: Timestamp) -> Result<Option<Tick>> {
        Ok(None)
    }

    fn tick_at(&self, _at: Timestamp, _thresholds: Thresholds) -> Result<Option<TickAt>> {
        Ok(None)
    }

    fn floors(&self, _at: Timestamp) -> Result<Floors> {
        Ok(Floors::new())
    }

    fn refusals(&self, _window: Period) -> Result<Vec<Refusal>> {
        Ok(Vec::new())
    }

    fn runs(&self, _window: Period, _limit: u32) -> Result<Vec<WatchedRun>> {
        Ok(Vec::new())
    }

    fn runs_with_prefix(&self, _prefix: &str) -> Result<Vec<WatchedRun>> {
        Ok(Vec::new())
    }

    fn imported_facts(&self) -> Result<Option<ImportedFacts>> {
        Ok(Some(self.facts()?))
    }

    fn imported_people(&self) -> Result<BTreeSet<String>> {
        Ok(self.people()?)
    }

    fn imported_moments(&self, window: Period, visitor: &mut dyn MomentVisitor) -> Result<()> {
        // The fold starts over if rows turn out not to be in order.
        let visitor = RefCell::new(visitor);
        let begin = || visitor.borrow_mut().begin();
        let each = |(): &mut (), moment: &LegacyMoment<'_>| visitor.borrow_mut().moment(moment);
        Ok(self.fold(window, begin, each)?)
    }
}
