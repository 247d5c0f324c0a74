//! Utilisation between two ticks from the driver's sample buffer: mean, maximum and a small histogram.
//!
//! A single utilisation reading covers the last second at most. The buffer covers all the time since the previous tick,
//! as far back as it reaches.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::unit::{Centipercent, Percent, float};

/// Lower edges of the histogram's bins. A threshold that equals one of them can be applied exactly, even later.
pub const EDGES: [u8; BINS] = [0, 1, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90];
const BINS: usize = 13;

/// Number of buffered samples in each range of utilisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    pub bins: [u32; BINS],
}

impl Histogram {
    pub fn add(&mut self, value: Percent) {
        let bin = EDGES.partition_point(|edge| *edge <= value.get()) - 1;
        self.bins[bin] = self.bins[bin].saturating_add(1);
    }

    pub fn total(&self) -> u64 {
        self.bins.iter().map(|count| u64::from(*count)).sum()
    }

    /// Returns the number of samples at or over `threshold`; `None` if the threshold is not an edge.
    pub fn at_or_over(&self, threshold: Percent) -> Option<u64> {
        let bin = EDGES.iter().position(|edge| *edge == threshold.get())?;
        Some(self.bins[bin..].iter().map(|count| u64::from(*count)).sum())
    }
}

/// The samples that the driver buffered since the last read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UtilWindow {
    pub histogram: Histogram,
    pub max: Option<Percent>,
    /// Number of samples over a hundred percent. They are excluded from everything else.
    pub junk: u32,
    /// Time that the samples cover.
    pub covered: Duration,
    /// Sum of all valid samples, in percent.
    pub sum: u64,
}

impl UtilWindow {
    /// Builds a window from `(driver time in microseconds, value)` in order of time. `since` is the driver time of the
    /// last sample of the previous read. If the buffer reaches back to it, the window covers all the time in between.
    pub fn new(since: Option<u64>, samples: &[(u64, u32)]) -> Self {
        let mut window = Self::default();
        for (_, value) in samples {
            match Percent::new(*value) {
                Some(value) => window.add(value),
                None => window.junk = window.junk.saturating_add(1),
            }
        }
        window.covered = covered(since, samples);
        window
    }

    fn add(&mut self, value: Percent) {
        self.histogram.add(value);
        self.sum = self.sum.saturating_add(value.get().into());
        self.max = self.max.max(Some(value));
    }

    /// Joins two consecutive reads of the same buffer.
    #[must_use]
    pub fn followed_by(mut self, next: &Self) -> Self {
        for (mine, theirs) in self.histogram.bins.iter_mut().zip(next.histogram.bins) {
            *mine = mine.saturating_add(theirs);
        }
        self.sum = self.sum.saturating_add(next.sum);
        self.max = self.max.max(next.max);
        self.junk = self.junk.saturating_add(next.junk);
        self.covered = self.covered.saturating_add(next.covered);
        self
    }

    /// Returns the number of valid samples.
    pub fn samples(&self) -> u64 {
        self.histogram.total()
    }

    /// Returns the mean in percent; `None` without samples.
    pub fn mean(&self) -> Option<f64> {
        let samples = self.samples();
        (samples > 0).then(|| float(self.sum) / float(samples))
    }

    /// Returns the mean in whole hundredths of a percent, rounded down; `None` without samples.
    pub fn mean_centipercent(&self) -> Option<Centipercent> {
        let mean = self.sum.saturating_mul(100).checked_div(self.samples())?;
        u32::try_from(mean).ok().map(Centipercent)
    }

    /// Reports whether the samples cover all of the time since the previous read, with a tolerance of one sample period
    /// or a tenth of the time, whichever is longer.
    pub fn covers(&self, elapsed: Duration) -> bool {
        let Some(period) = u32::try_from(self.samples())
            .ok()
            .and_then(|samples| self.covered.checked_div(samples))
        else {
            return false;
        };
        elapsed.abs_diff(self.covered) <= period.max(elapsed / 10)
    }
}

/// Returns the time from the previous read to the newest sample if the buffer reaches back that far, or else the time
/// that the buffer covers.
fn covered(since: Option<u64>, samples: &[(u64, u32)]) -> Duration {
    let (Some((first, _)), Some((last, _))) = (samples.first(), samples.last()) else {
        return Duration::ZERO;
    };
    let held = last.saturating_sub(*first);
    let intervals = u64::try_from(samples.len() - 1).unwrap_or(u64::MAX);
    // One sample has no period; the driver's longest period is one second.
    let period = held.checked_div(intervals).unwrap_or(1_000_000);
    let reaches_back =
        since.is_some_and(|since| since <= *first && first - since <= period.saturating_mul(2));
    let micros = match since {
        Some(since) if reaches_back => last.saturating_sub(since),
        _ => held.saturating_add(if intervals == 0 { 0 } else { period }),
    };
    Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn percent(value: u32) -> Percent {
        Percent::new(value).unwrap()
    }

    #[test]
    fn every_edge_can_be_asked_and_nothing_between() {
        let mut histogram = Histogram::default();
        for value in [0, 4, 9, 10, 11, 100] {
            histogram.add(percent(value));
        }
        assert_eq!(histogram.at_or_over(percent(10)), Some(3));
        assert_eq!(histogram.at_or_over(percent(0)), Some(6));
        assert_eq!(histogram.at_or_over(percent(12)), None);
    }

    #[test]
    fn samples_over_a_hundred_are_dropped_and_counted() {
        let window = UtilWindow::new(None, &[(1, 50), (2, 101), (3, 4_000_000)]);
        assert_eq!(
            (window.samples(), window.junk, window.max),
            (1, 2, Some(percent(50)))
        );
        assert_eq!(window.mean(), Some(50.0));
    }

    #[test]
    fn a_buffer_that_reaches_back_covers_the_time_since_the_last_read() {
        let second = 1_000_000;
        let samples: Vec<_> = (11..=20).map(|at| (at * second, 10)).collect();
        assert_eq!(
            UtilWindow::new(Some(10 * second), &samples).covered,
            Duration::from_secs(10)
        );
        assert_eq!(
            UtilWindow::new(None, &samples).covered,
            Duration::from_secs(10)
        );
        // The buffer was too small: five seconds were lost.
        assert_eq!(
            UtilWindow::new(Some(5 * second), &samples).covered,
            Duration::from_secs(10)
        );
        assert_eq!(
            UtilWindow::new(Some(9 * second), &[]).covered,
            Duration::ZERO
        );
        // A single sample without a previous read has a time but no duration.
        assert_eq!(
            UtilWindow::new(None, &[(second, 10)]).covered,
            Duration::ZERO
        );
        assert_eq!(
            UtilWindow::new(Some(second), &[(2 * second, 10)]).covered,
            Duration::from_secs(1)
        );
    }

    #[test]
    fn a_window_covers_the_time_between_two_reads_up_to_a_period_or_a_tenth() {
        let check = |samples: u64, covered: u64, elapsed: u64, expected: bool| {
            let values: Vec<(u64, u32)> = (1..=samples)
                .map(|place| (place * covered / samples.max(1) * 1000, 50))
                .collect();
            let window = UtilWindow::new(Some(0), &values);
            assert_eq!(
                window.covers(Duration::from_millis(elapsed)),
                expected,
                "{samples} samples over {covered} of {elapsed} ms"
            );
        };
        check(30, 30_000, 30_000, true);
        check(30, 30_000, 33_000, true);
        check(30, 30_000, 34_000, false);
        check(30, 30_000, 27_500, true);
        check(30, 30_000, 20_000, false);
        // Ticks every two seconds, samples every second: the last sample may be missing.
        check(1, 1_000, 2_000, true);
        check(1, 1_000, 2_100, false);
        check(0, 0, 30_000, false);
    }

    #[test]
    fn the_mean_leaves_out_junk() {
        let window = UtilWindow::new(Some(0), &[(1, 50), (2, 101), (3, 0), (4, 1)]);
        assert_eq!(window.mean_centipercent(), Some(Centipercent(1700)));
        assert_eq!(UtilWindow::default().mean_centipercent(), None);
    }

    #[test]
    fn an_empty_window_has_no_mean() {
        assert_eq!(UtilWindow::default().mean(), None);
        assert_eq!(UtilWindow::default().max, None);
    }

    proptest! {
        #[test]
        fn cutting_a_window_in_two_changes_no_number(values in prop::collection::vec(0u32..=120, 1..200), cut in 0usize..200) {
            let samples: Vec<_> = (1u64..).map(|at| at * 166_667).zip(values).collect();
            let cut = cut.min(samples.len());
            let whole = UtilWindow::new(Some(0), &samples);
            let since = if cut == 0 { 0 } else { samples[cut - 1].0 };
            let first = UtilWindow::new(Some(0), &samples[..cut]);
            let second = UtilWindow::new(Some(since), &samples[cut..]);
            prop_assert_eq!(first.followed_by(&second), whole);
        }

        #[test]
        fn any_samples_at_any_times_never_panic(since: Option<u64>, samples: Vec<(u64, u32)>) {
            let window = UtilWindow::new(since, &samples);
            prop_assert_eq!(window.samples() + u64::from(window.junk), samples.len() as u64);
        }
    }
}
