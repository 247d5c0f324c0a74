//! The one rule for the energy of a GPU: the driver's counter, read twice.
//!
//! Energy is the difference of the counter between two samples that directly follow each other
//! ([`crate::Cadence::follows`]), in the proportion of the time that the first one covers. In a gap nobody knows who
//! used the energy, so it is not counted, and a missing difference is missing, never zero.
//!
//! A GPU without a counter has no energy in history and reports. `gua run` then shows an estimate, power times time,
//! and marks it as such ([`EnergySource::Power`]). An estimate never replaces counted energy.

use std::time::Duration;

use crate::period::Period;
use crate::reading::{Missing, Reading};
use crate::sample::Gpu;
use crate::unit::{Micros, Millijoules};

crate::words! {
    /// Source of an amount of energy.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum EnergySource {
        /// The driver's energy counter.
        Counter = "counter",
        /// Power times time: an estimate.
        Power = "power",
    }
}

/// Energy that was counted in `period`, the time that the sample `gpu` covers. `later` is the sample that directly follows
/// and the time between the two.
pub(crate) fn counted(
    gpu: &Gpu,
    later: Option<(&Gpu, Duration)>,
    period: Period,
) -> Reading<Millijoules> {
    let before = gpu.energy?;
    let (later, elapsed) = later.ok_or(Missing::Failed)?;
    // A counter that went down was reset: the driver was reloaded in between.
    let counted = later
        .energy?
        .0
        .checked_sub(before.0)
        .ok_or(Missing::Failed)?;
    let length = u128::from(period.micros().0);
    let part = (u128::from(counted) * length)
        .checked_div(elapsed.as_micros())
        .ok_or(Missing::Failed)?;
    // If the wall clock was set, the period can be longer than the time between the samples; the energy is not.
    let part = part.min(u128::from(counted));
    u64::try_from(part)
        .map(Millijoules)
        .map_err(|_| Missing::Failed)
}

/// A sum of counted energy: known if it was counted for any of the time, however little it is.
pub(crate) fn known(energy: Millijoules, counted_for: Micros) -> Option<Millijoules> {
    (counted_for > Micros(0)).then_some(energy)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn gpu(energy: Reading<u64>) -> Gpu {
        Gpu {
            energy: energy.map(Millijoules),
            ..Gpu::without_readings("GPU-0".parse().unwrap(), 0, Missing::Unsupported)
        }
    }

    #[test]
    fn energy_is_the_difference_of_the_counter_in_proportion_to_the_covered_time() {
        let check =
            |covered: i64, before, later: Option<(Reading<u64>, u64)>, expected: Reading<u64>| {
                let period = Period::new(
                    Timestamp::UNIX_EPOCH,
                    Timestamp::from_second(covered).unwrap(),
                );
                let next =
                    later.map(|(energy, elapsed)| (gpu(energy), Duration::from_secs(elapsed)));
                let next = next.as_ref().map(|(gpu, elapsed)| (gpu, *elapsed));
                let found = counted(&gpu(before), next, period);
                assert_eq!(
                    found,
                    expected.map(Millijoules),
                    "{covered} {before:?} {later:?}"
                );
            };
        check(30, Ok(1000), Some((Ok(4000), 30)), Ok(3000));
        // Late by one second: the last of 31 seconds is a gap, and its energy with it.
        check(30, Ok(0), Some((Ok(31_000), 31)), Ok(30_000));
        check(30, Ok(0), Some((Ok(0), 30)), Ok(0));
        check(60, Ok(0), Some((Ok(3000), 30)), Ok(3000));
        check(30, Ok(4000), Some((Ok(1000), 30)), Err(Missing::Failed));
        check(30, Ok(0), None, Err(Missing::Failed));
        check(
            30,
            Err(Missing::Unsupported),
            None,
            Err(Missing::Unsupported),
        );
        check(
            30,
            Ok(0),
            Some((Err(Missing::Gone), 30)),
            Err(Missing::Gone),
        );
        check(30, Ok(0), Some((Ok(0), 0)), Err(Missing::Failed));
    }

    #[test]
    fn nothing_counted_is_unknown_and_not_zero() {
        assert_eq!(known(Millijoules(0), Micros(0)), None);
        assert_eq!(known(Millijoules(0), Micros(1)), Some(Millijoules(0)));
    }
}
