//! The records of a file of gpu-usage-audit for `gua-query`, read in place.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use gua_model::refusal::Refusal;
use gua_model::{
    Floors, GpuQuarter, ImportedFold, LegacyMoment, Outage, OwnCoverage, OwnerKey, Period, Quarter,
    Session, Span, Thresholds, Tick,
};
use gua_query::records::{ImportedFacts, LeftOut, QuarterVisitor, TickAt, TickVisitor};
use gua_query::{GpuInfo, Records, RecordsError, WatchedRun};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::open::OldFile;

type Result<T> = std::result::Result<T, RecordsError>;

/// A file of gpu-usage-audit has imported rows and nothing else.
impl Records for OldFile {
    fn gpus(&self) -> Result<Vec<GpuInfo>> {
        Ok(Vec::new())
    }

    fn owners(&self) -> Result<BTreeSet<OwnerKey>> {
        Ok(BTreeSet::new())
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

    fn sessions(&self, _window: Period, _each: &mut dyn FnMut(&Session)) -> Result<u32> {
        Ok(0)
    }

    fn spans(
        &self,
        _window: Period,
        _thresholds: Thresholds,
        _each: &mut dyn FnMut(&Span),
    ) -> Result<()> {
        Ok(())
    }

    fn ticks(&self, _window: Period, _each: &mut dyn FnMut(Tick)) -> Result<u32> {
        Ok(0)
    }

    fn ticks_with_spans(
        &self,
        _window: Period,
        _thresholds: Thresholds,
        _each: &mut TickVisitor<'_>,
    ) -> Result<u32> {
        Ok(0)
    }

    fn absurd_ticks(&self) -> Result<u32> {
        Ok(0)
    }

    fn damaged_rows(&self) -> Result<u32> {
        Ok(0)
    }

    fn days_with_rows(&self) -> Result<BTreeSet<Date>> {
        let mut days = BTreeSet::new();
        let ever = Period::new(Timestamp::MIN, Timestamp::MAX);
        self.imported_moments(ever, &mut |moment| {
            days.insert(TimeZone::UTC.to_datetime(moment.at).date());
        })?;
        Ok(days)
    }

    fn own_coverage(&self, _window: Period) -> Result<OwnCoverage> {
        Ok(OwnCoverage::default())
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

    fn imported(
        &self,
        window: Period,
        thresholds: Thresholds,
        interval: Option<Duration>,
        visitor: &mut dyn QuarterVisitor,
    ) -> Result<LeftOut> {
        let own = OwnCoverage::default();
        let visitor = RefCell::new(visitor);
        let mut give =
            |quarter: Quarter, gpus: &[GpuQuarter]| visitor.borrow_mut().quarter(quarter, gpus);
        // The fold starts over if rows turn out not to be in order.
        let start = || {
            visitor.borrow_mut().begin(window);
            ImportedFold::new(thresholds, interval, &own)
        };
        let (fold, damaged) =
            self.fold(window, start, |fold, moment| fold.push(moment, &mut give))?;
        Ok(LeftOut {
            observed: fold.finish(&mut give),
            damaged,
        })
    }

    fn imported_moments(
        &self,
        window: Period,
        each: &mut dyn FnMut(&LegacyMoment<'_>),
    ) -> Result<()> {
        self.fold(window, || (), |(), moment| each(moment))?;
        Ok(())
    }
}
