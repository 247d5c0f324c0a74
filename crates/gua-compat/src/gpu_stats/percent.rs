//! The percentages of gpu_stats' notes, from single ticks as the daily CSV shows them: one user for each GPU.

use gua_model::legacy::LegacyMoment;
use gua_model::period::micros_between;
use gua_model::quota::percent::Percentages;
use gua_model::{Micros, Period, Tick};
use gua_query::{Records, RecordsError};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::{Minute, rows};

/// Question for the percentages of some periods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PercentQuestion {
    pub periods: Vec<Period>,
    #[serde(with = "jiff::fmt::serde::tz::required")]
    pub zone: TimeZone,
}

/// Percentages of each period that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PercentAnswer {
    pub periods: Vec<Percentages>,
    /// Time of the oldest tick that is kept; `None` if none was removed.
    pub kept_from: Option<Timestamp>,
}

/// Adds up every sample of each period: own ticks and imported rows.
pub fn percentages(
    records: &dyn Records,
    question: &PercentQuestion,
) -> Result<PercentAnswer, RecordsError> {
    let periods = question.periods.iter();
    let sums = periods.map(|period| sums(records, *period, &question.zone));
    Ok(PercentAnswer {
        periods: sums.collect::<Result<_, _>>()?,
        kept_from: records.raw_from()?,
    })
}

fn sums(
    records: &dyn Records,
    window: Period,
    zone: &TimeZone,
) -> Result<Percentages, RecordsError> {
    let mut sums = Percentages::default();
    let mut before: Option<Tick> = None;
    records.ticks(window, &mut |tick| {
        let until = tick.sample.at;
        if let Some(last) = before.replace(tick) {
            add(&mut sums, &last, until, zone);
        }
    })?;
    if let Some(last) = before {
        add(&mut sums, &last, window.to(), zone);
    }
    let own = records.own_coverage(window)?;
    records.imported_moments(window, &mut |moment| {
        own.rest(moment, |rest| add_old(&mut sums, rest));
    })?;
    Ok(sums)
}

fn add_old(sums: &mut Percentages, moment: &LegacyMoment<'_>) {
    for tick in moment.ticks {
        let first = tick.processes.first().and_then(|row| row.counted_as());
        let usage = u32::try_from(tick.util).ok();
        if let (Some(user), Some(usage)) = (first, usage) {
            let interval = u64::try_from(tick.run.interval.as_micros()).unwrap_or(0);
            sums.add(user, usage, Micros(interval));
        }
    }
}

/// A tick covers its interval, or less if the next one or the end comes earlier.
fn add(sums: &mut Percentages, tick: &Tick, until: Timestamp, zone: &TimeZone) {
    let interval = u64::try_from(tick.interval.as_micros()).unwrap_or(u64::MAX);
    let covered = Micros(interval.min(micros_between(tick.sample.at, until).0));
    let minute = Minute::of(tick.sample.at, zone);
    for row in rows(&tick.sample, minute) {
        if let Some(holder) = row.holder
            && let Some(usage) = holder.usage
        {
            sums.add(&holder.user, usage, covered);
        }
    }
}
