//! The records of a file of gpu-usage-audit for `gua-query`, read in place.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use gua_model::refusal::Refusal;
use gua_model::{
    Floors, GpuQuarter, ImportedFold, LegacyMoment, Outage, OwnCoverage, OwnerKey, Period, Quarter,
    Span, Thresholds, Tick,
};
use gua_query::records::{
    ImportedFacts, LeftOut, Origin, QuarterVisitor, SessionVisitor, TickAt, TickVisitor,
};
use gua_query::{GpuInfo, Records, RecordsError, WatchedRun};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::open::OldFile;
use super::rows::Extent;

type Result<T> = std::result::Result<T, RecordsError>;

/// Implements methods whose result is always empty, because the file has no such records.
macro_rules! nothing {
    ($($name:ident($($argument:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $(_: $argument),*) -> Result<$answer> {
            Ok(<$answer>::default())
        }
    )*};
}

/// A file of gpu-usage-audit has imported rows and nothing else.
impl Records for OldFile {
    nothing! {
        gpus() -> Vec<GpuInfo>;
        owners() -> BTreeSet<OwnerKey>;
        host() -> Option<String>;
        tick_interval() -> Option<Duration>;
        thresholds() -> Thresholds;
        raw_from() -> Option<Timestamp>;
        outages(Period) -> Vec<Outage>;
        sessions(Period, &mut dyn SessionVisitor) -> u32;
        spans(Period, Thresholds, &mut dyn FnMut(&Span)) -> ();
        ticks(Period, &mut dyn FnMut(Tick)) -> u32;
        ticks_with_spans(Period, Thresholds, &mut TickVisitor<'_>) -> u32;
        absurd_ticks() -> u32;
        damaged_rows() -> u32;
        own_coverage(Period) -> OwnCoverage;
        last_tick_before(Timestamp) -> Option<Tick>;
        tick_at(Timestamp, Thresholds) -> Option<TickAt>;
        floors(Timestamp) -> Floors;
        refusals(Period) -> Vec<Refusal>;
        runs(Period, u32) -> Vec<WatchedRun>;
        runs_with_prefix(&str) -> Vec<WatchedRun>;
    }

    fn days_with_rows(&self) -> Result<BTreeSet<Date>> {
        let mut days = BTreeSet::new();
        let ever = Period::new(Timestamp::MIN, Timestamp::MAX);
        self.imported_moments(ever, &mut |moment| {
            days.insert(TimeZone::UTC.to_datetime(moment.at).date());
        })?;
        Ok(days)
    }

    fn imported_facts(&self) -> Result<Option<ImportedFacts>> {
        Ok(Some(self.facts()?))
    }

    fn totals(
        &self,
        origin: Origin,
        window: Period,
        thresholds: Thresholds,
        visitor: &mut dyn QuarterVisitor,
    ) -> Result<LeftOut> {
        if origin == Origin::Own {
            visitor.begin(window);
            return Ok(LeftOut::default());
        }
        let own = OwnCoverage::default();
        let visitor = RefCell::new(visitor);
        let mut give =
            |quarter: Quarter, gpus: &[GpuQuarter]| visitor.borrow_mut().quarter(quarter, gpus);
        // The fold starts over if rows turn out not to be in order.
        let start = || {
            visitor.borrow_mut().begin(window);
            ImportedFold::new(thresholds, &own)
        };
        let (fold, damaged) = self.fold(window, Extent::Totals, start, |fold, moment| {
            fold.push(moment, &mut give);
        })?;
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
        self.fold(window, Extent::Counted, || (), |(), moment| each(moment))?;
        Ok(())
    }
}
