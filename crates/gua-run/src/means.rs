//! Means over time, in room that does not grow.

use std::time::Duration;

/// A value that stood for some time, and then another: their mean by time, and the highest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mean {
    sum: f64,
    time: f64,
    most: Option<f64>,
}

impl Mean {
    /// The value stood for so long.
    pub(crate) fn stood(&mut self, value: f64, time: Duration) {
        self.sum += value * time.as_secs_f64();
        self.time += time.as_secs_f64();
        self.reached(value);
    }

    /// It was so high at one moment.
    pub(crate) fn reached(&mut self, value: f64) {
        self.most = Some(self.most.map_or(value, |most| most.max(value)));
    }

    /// `None` where nothing stood for any time.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.time > 0.0).then(|| self.sum / self.time)
    }

    pub(crate) fn most(&self) -> Option<f64> {
        self.most
    }
}

/// The nearest number with so many decimals, for files that people read.
pub(crate) fn rounded(value: f64, decimals: usize) -> f64 {
    format!("{value:.decimals$}").parse().unwrap_or(value)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "megabytes and joules of a job fit the mantissa, and these are for showing"
)]
pub(crate) fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_weighted_by_time_and_nothing_has_none() {
        let mut mean = Mean::default();
        assert_eq!((mean.mean(), mean.most()), (None, None));
        mean.stood(10.0, Duration::from_secs(3));
        mean.stood(50.0, Duration::from_secs(1));
        assert_eq!((mean.mean(), mean.most()), (Some(20.0), Some(50.0)));
    }
}
