//! The energy of a card during a run: by the driver's counter, or by power and time; and for how long it was measured at all.

use std::time::Duration;

use gua_model::Gpu;

use crate::means::float;
use crate::stretch::Stretch;

/// Less than this that was not measured is not worth a word.
const SHORT: Duration = Duration::from_millis(500);

/// Nor is less than this part of the time.
const SMALL_PART: u32 = 20;

/// What was measured so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Energy {
    counted: Part,
    reckoned: Part,
}

#[derive(Clone, Copy, Debug, Default)]
struct Part {
    joules: f64,
    /// For how long. Zero: nothing was measured.
    time: Duration,
}

/// What it comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) joules: f64,
    /// For how long it was measured.
    pub(crate) time: Duration,
    /// For how long it would have been, if all had gone well.
    pub(crate) of: Duration,
    pub(crate) from: &'static str,
}

impl Energy {
    /// The time between two looks. The driver's counter goes on while nobody looks; power stands for what the look does.
    pub(crate) fn pass(&mut self, before: &Gpu, after: &Gpu, stretch: Stretch) {
        if let (Ok(first), Ok(second)) = (before.energy, after.energy)
            // A driver that was loaded anew counts from zero.
            && let Some(used) = second.0.checked_sub(first.0)
        {
            self.counted.add(float(used) / 1000.0, stretch.whole);
        }
        self.stand(after, stretch.counted);
    }

    /// The card drew what it draws at this look, for so long.
    pub(crate) fn stand(&mut self, look: &Gpu, time: Duration) {
        if let Ok(power) = look.power {
            let watts = float(power.0) / 1000.0;
            self.reckoned.add(watts * time.as_secs_f64(), time);
        }
    }

    /// The counter's word, unless it says nothing about a good part of the time and power says more.
    pub(crate) fn measured(&self, observed: Duration, gap: Duration) -> Option<Measured> {
        let counted = self.counted.measured("counter", observed + gap);
        let reckoned = self.reckoned.measured("power", observed);
        match (counted, reckoned) {
            (Some(counted), Some(reckoned))
                if counted.is_partial() && reckoned.time > counted.time =>
            {
                Some(reckoned)
            }
            (counted, reckoned) => counted.or(reckoned),
        }
    }

    pub(crate) fn was_counted(&self) -> bool {
        !self.counted.time.is_zero()
    }
}

impl Part {
    fn add(&mut self, joules: f64, time: Duration) {
        self.joules += joules;
        self.time += time;
    }

    fn measured(self, from: &'static str, of: Duration) -> Option<Measured> {
        (!self.time.is_zero()).then_some(Measured {
            joules: self.joules,
            time: self.time,
            of,
            from,
        })
    }
}

impl Measured {
    /// Whether it is the energy of a part of the time, and well less than that of the whole.
    pub(crate) fn is_partial(&self) -> bool {
        let missed = self.of.saturating_sub(self.time);
        missed >= SHORT && missed > self.of / SMALL_PART
    }
}

#[cfg(test)]
mod tests {
    use gua_model::{Millijoules, Milliwatts, Missing};

    use super::*;

    fn look(joules: Option<u64>, watts: Option<u64>) -> Gpu {
        let counted = joules.map(|joules| Millijoules(joules * 1000));
        Gpu {
            energy: counted.ok_or(Missing::Failed),
            power: watts
                .map(|watts| Milliwatts(watts * 1000))
                .ok_or(Missing::Failed),
            ..Gpu::without_readings("GPU-1".parse().unwrap(), 0, Missing::Unsupported)
        }
    }

    /// Looks ten seconds apart, then so many without one.
    fn check(looks: &[Gpu], rest: u64, expected: Option<(f64, u64, &str, bool)>) {
        let mut energy = Energy::default();
        let of = |seconds| Stretch::new(Duration::from_secs(seconds), Duration::from_secs(10));
        let mut observed = Duration::ZERO;
        for pair in looks.windows(2) {
            energy.pass(&pair[0], &pair[1], of(10));
            observed += of(10).counted;
        }
        energy.stand(looks.last().unwrap(), of(rest).counted);
        observed += of(rest).counted;
        let found = energy.measured(observed, Duration::ZERO);
        let found = found.map(|it| (it.joules, it.time.as_secs(), it.from, it.is_partial()));
        assert_eq!(found, expected);
    }

    #[test]
    fn energy_of_a_part_of_the_time_is_not_told_as_that_of_the_whole() {
        let (both, counter) = (
            |joules| look(Some(joules), Some(100)),
            |joules| look(Some(joules), None),
        );
        check(
            &[both(0), both(900)],
            0,
            Some((900.0, 10, "counter", false)),
        );
        check(&[both(0), both(900)], 9, Some((1900.0, 19, "power", false)));
        check(
            &[counter(0), counter(900)],
            9,
            Some((900.0, 10, "counter", true)),
        );
        check(
            &[
                look(None, Some(100)),
                look(None, None),
                look(None, Some(100)),
            ],
            0,
            Some((1000.0, 10, "power", true)),
        );
        check(&[look(None, None), look(None, None)], 5, None);
        check(&[both(0)], 5, Some((500.0, 5, "power", false)));
    }
}
