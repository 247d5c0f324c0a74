//! Time-weighted means in constant memory.

use std::time::Duration;

/// Mean of a value by time, and its maximum.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mean {
    integral: f64,
    time: Duration,
    pub(crate) most: Option<f64>,
}

impl Mean {
    /// Adds a value that lasted this long.
    pub(crate) fn add(&mut self, value: f64, time: Duration) {
        self.integral += value * time.as_secs_f64();
        self.time += time;
        self.most = highest([self.most, Some(value)]);
    }

    /// `None` if no value lasted any time.
    pub(crate) fn mean(&self) -> Option<f64> {
        let (integral, time) = self.integral()?;
        Some(integral / time.as_secs_f64())
    }

    /// Sum of value times seconds, and the time that it is for.
    pub(crate) fn integral(&self) -> Option<(f64, Duration)> {
        (!self.time.is_zero()).then_some((self.integral, self.time))
    }
}

/// Maximum of values that may be unknown.
pub(crate) fn highest(values: [Option<f64>; 2]) -> Option<f64> {
    values.into_iter().flatten().reduce(f64::max)
}

/// Rounds to this many decimals, for files that people read.
pub(crate) fn rounded(value: f64, decimals: usize) -> f64 {
    format!("{value:.decimals$}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_weighted_by_time_and_nothing_has_none() {
        let mut mean = Mean::default();
        assert_eq!((mean.mean(), mean.most), (None, None));
        mean.add(10.0, Duration::from_secs(3));
        mean.add(50.0, Duration::from_secs(1));
        assert_eq!((mean.mean(), mean.most), (Some(20.0), Some(50.0)));
        assert_eq!(mean.integral(), Some((80.0, Duration::from_secs(4))));
    }
}
