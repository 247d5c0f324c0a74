//! Selects the imported rows that count beside ticks of this program.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::{LegacyGpuTick, LegacyMoment, LegacyRun};
use crate::cadence::Cadence;
use crate::id::GpuUuid;
use crate::lookup::entry;
use crate::period::Period;
use crate::period_set::PeriodSet;

/// Time of each GPU that ticks of this program cover. Imported rows that begin in it are left out, and a row before it
/// ends where it begins, so that no time counts twice.
#[derive(Clone, Debug, Default)]
pub struct OwnCoverage(BTreeMap<GpuUuid, PeriodSet>);

impl OwnCoverage {
    /// Adds time that ticks cover. A late tick leaves no gap.
    pub fn add(&mut self, gpu: &GpuUuid, period: Period) {
        entry(&mut self.0, gpu).add_near(period, Cadence::JITTER);
    }

    /// Whether own ticks cover any of a period.
    pub fn touches(&self, gpu: &GpuUuid, period: Period) -> bool {
        self.next(gpu, period).is_some()
    }

    /// Moments at which the covered time of any GPU begins or ends.
    pub fn edges(&self) -> impl Iterator<Item = Timestamp> {
        let always = Period::new(Timestamp::MIN, Timestamp::MAX);
        let parts = self.0.values().flat_map(move |own| own.parts(always));
        parts.flat_map(|part| [part.from(), part.to()])
    }

    /// Returns the part of a row's interval before own ticks begin.
    fn clip(&self, gpu: &GpuUuid, at: Timestamp, interval: Duration) -> Duration {
        let next = self.next(gpu, Period::starting(at, interval));
        next.map_or(interval, |own| {
            let before = own.from().duration_since(at);
            Duration::try_from(before).unwrap_or_default()
        })
    }

    /// Passes the part of a moment that counts to `each`, and returns the number of GPU ticks that were left out.
    pub fn rest(&self, moment: &LegacyMoment<'_>, each: impl FnOnce(&LegacyMoment<'_>)) -> usize {
        if self.0.is_empty() {
            each(moment);
            return 0;
        }
        let is_ours = |gpu: &GpuUuid| self.touches(gpu, Period::at(moment.at));
        let changes = |tick: &LegacyGpuTick<'_>| {
            let covered = Period::starting(moment.at, tick.run.interval);
            self.touches(tick.gpu, covered) || is_ours(tick.gpu)
        };
        let has_ours = moment.strays.iter().any(|(gpu, _)| is_ours(gpu));
        if !has_ours && !moment.ticks.iter().any(changes) {
            each(moment);
            return 0;
        }
        let clipped = |tick: &LegacyGpuTick<'_>| LegacyRun {
            interval: self.clip(tick.gpu, moment.at, tick.run.interval),
            ..tick.run
        };
        let ticks = moment.ticks.iter().filter(|tick| !is_ours(tick.gpu));
        let ticks: Vec<_> = ticks
            .map(|tick| LegacyGpuTick {
                run: clipped(tick),
                ..*tick
            })
            .collect();
        let strays = moment.strays.iter();
        let strays: Vec<_> = strays.filter(|(gpu, _)| !is_ours(gpu)).copied().collect();
        each(&LegacyMoment {
            at: moment.at,
            ticks: &ticks,
            strays: &strays,
        });
        moment.ticks.len() - ticks.len()
    }

    /// The first covered part of a period.
    fn next(&self, gpu: &GpuUuid, period: Period) -> Option<Period> {
        self.0.get(gpu)?.parts(period).next()
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_ends_where_own_ticks_begin_and_one_among_them_is_left_out() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let gpu: GpuUuid = "GPU-0".parse().unwrap();
        let mut own = OwnCoverage::default();
        // One tick with a clock that was far behind, and an hour with a late tick in it.
        for (from, to) in [(-90_000, -89_970), (1000, 2000), (2001, 4600)] {
            own.add(&gpu, Period::new(at(from), at(to)));
        }
        let check = |second: i64, expected: Option<u64>| {
            let tick = LegacyGpuTick {
                at: at(second),
                gpu: &gpu,
                util: 0,
                index: None,
                memory_used_mb: None,
                temperature_c: None,
                power_w: None,
                run: LegacyRun::NONE,
                processes: &[],
                more_rows: &[],
            };
            let moment = LegacyMoment {
                at: tick.at,
                ticks: &[tick],
                strays: &[],
            };
            let mut found = None;
            let left_out = own.rest(&moment, |rest| {
                found = rest.ticks.first().map(|tick| tick.run.interval.as_secs());
            });
            assert_eq!(found, expected, "{second}");
            assert_eq!(left_out, usize::from(expected.is_none()), "{second}");
        };
        check(-90_010, Some(10));
        check(-90_000, None);
        check(-80_000, Some(30));
        check(970, Some(30));
        check(990, Some(10));
        check(1000, None);
        check(2000, None);
        check(4599, None);
        check(4600, Some(30));
    }
}
