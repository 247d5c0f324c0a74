//! The energy of a GPU during a run: what the driver's counter counted, as in a report (by the rule of
//! [`gua_model::energy`]), or an estimate from power if the counter counted nothing.

use std::time::Duration;

use gua_model::total::GpuTotal;
use gua_model::unit::float;
use gua_model::{EnergySource, Micros};

use crate::means::Mean;

/// Minimum unmeasured time that is noted.
const SHORT: Duration = Duration::from_millis(500);

/// Divisor of the whole time for the minimum unmeasured time that is noted.
const SMALL_PART: u64 = 20;

/// An amount of energy, and the part of the observed time that it is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) joules: f64,
    pub(crate) time: Micros,
    pub(crate) observed: Micros,
    pub(crate) from: EnergySource,
}

impl Measured {
    /// The counter's energy if it counted for any time, however little; otherwise the estimate.
    pub(crate) fn of(total: &GpuTotal, power: &Mean) -> Option<Self> {
        let counted = (total.energy_known > Micros(0)).then(|| Self {
            joules: float(total.energy.0) / 1000.0,
            time: total.energy_known,
            observed: total.present,
            from: EnergySource::Counter,
        });
        counted.or_else(|| Self::estimated(total, power))
    }

    /// Power times time, for the time in which power was known.
    pub(crate) fn estimated(total: &GpuTotal, power: &Mean) -> Option<Self> {
        let (joules, time) = power.integral()?;
        Some(Self {
            joules,
            time: Micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
            observed: total.present,
            from: EnergySource::Power,
        })
    }

    /// Whether a notable part of the observed time is missing.
    pub(crate) fn is_partial(&self) -> bool {
        let missed = self.observed.0.saturating_sub(self.time.0);
        Duration::from_micros(missed) >= SHORT && missed > self.observed.0 / SMALL_PART
    }
}

#[cfg(test)]
mod tests {
    use gua_model::{Gpu, Millijoules, Milliwatts, Missing};

    use super::*;
    use crate::watch::Watch;
    use crate::watch::tests::{sample_of, watch_all};

    fn gpu(joules: Option<u64>, watts: Option<u64>) -> Gpu {
        let counted = joules.map(|joules| Millijoules(joules * 1000));
        Gpu {
            energy: counted.ok_or(Missing::Failed),
            power: watts
                .map(|watts| Milliwatts(watts * 1000))
                .ok_or(Missing::Failed),
            ..Gpu::without_readings("GPU-1".parse().unwrap(), 0, Missing::Unsupported)
        }
    }

    /// Samples at these seconds of a run with an interval of 10 s, and the end of the run.
    #[track_caller]
    fn check(samples: &[(u64, Gpu)], end: u64, expected: Option<(f64, u64, &str, bool)>) {
        let mut watch: Watch = watch_all(10);
        for (second, gpu) in samples {
            watch.gpus(&sample_of(*second, vec![gpu.clone()]), |_| true);
        }
        watch.end(Duration::from_secs(end));
        let found = watch.gpus[0].energy().map(|it| {
            let seconds = Duration::from_micros(it.time.0).as_secs();
            (it.joules, seconds, it.from.as_str(), it.is_partial())
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn energy_of_a_part_of_the_time_is_not_shown_as_that_of_the_whole() {
        let both = |second, joules| (second, gpu(Some(joules), Some(100)));
        let counter = |second, joules| (second, gpu(Some(joules), None));
        let power = |second, watts| (second, gpu(None, watts));
        check(
            &[both(0, 0), both(10, 900)],
            10,
            Some((900.0, 10, "counter", false)),
        );
        check(
            &[both(0, 0), both(10, 900)],
            19,
            Some((900.0, 10, "counter", true)),
        );
        check(
            &[counter(0, 0), counter(10, 900)],
            19,
            Some((900.0, 10, "counter", true)),
        );
        check(
            &[power(0, Some(100)), power(10, None), power(20, Some(100))],
            20,
            Some((1000.0, 10, "power", true)),
        );
        check(&[power(0, None), power(10, None)], 15, None);
        check(&[both(0, 0)], 5, Some((500.0, 5, "power", false)));
    }

    #[test]
    fn energy_in_a_gap_is_charged_to_nobody() {
        let counter = |second, joules| (second, gpu(Some(joules), None));
        check(
            &[
                counter(0, 0),
                counter(10, 900),
                counter(100, 9000),
                counter(110, 9500),
            ],
            110,
            Some((1400.0, 20, "counter", true)),
        );
        // A sample that is one second late leaves a gap of one second, and its energy with it.
        check(
            &[counter(0, 0), counter(11, 1100)],
            11,
            Some((1000.0, 10, "counter", false)),
        );
    }
}
