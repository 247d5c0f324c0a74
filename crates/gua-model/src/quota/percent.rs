//! The percentages of gpu_stats: what its notes call the use of an hour, a day or a month. Every sample of a GPU that
//! names a user adds the GPU's utilisation, weighted by the time that the sample covers. The sum is divided by the
//! length of the term, so that time without a sample counts as zero. Two GPUs at 100 % make 200 %.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Term;
use crate::lookup::entry;
use crate::report::ratio;
use crate::unit::Micros;

/// Sums of one term, by user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentages {
    /// Percent times microseconds.
    sums: BTreeMap<String, u128>,
}

impl Percentages {
    /// Adds one sample of one GPU.
    pub fn add(&mut self, user: &str, usage: u32, covers: Micros) {
        let amount = u128::from(usage) * u128::from(covers.0);
        *entry(&mut self.sums, user) += amount;
    }

    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.sums.keys().map(String::as_str)
    }

    /// Returns the percentage of a user over a term; `None` for a user who was never seen.
    pub fn of(&self, user: &str, term: Term) -> Option<f64> {
        let sum = *self.sums.get(user)?;
        ratio(sum, length(term).as_micros())
    }
}

/// Returns the length of a term in these formulas. Every month has thirty days there.
pub fn length(term: Term) -> Duration {
    const DAY: u64 = 86_400;
    match term {
        Term::Day => Duration::from_secs(DAY),
        Term::Week => Duration::from_secs(7 * DAY),
        Term::Month => Duration::from_secs(30 * DAY),
        Term::Rolling(length) => length,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formulas_of_the_notes_hold_for_samples_of_one_minute() {
        // Samples of one minute: hour = sum / 60, day = sum / 1440, month = sum / 43200.
        let minute = Micros::from_secs(60);
        let mut percentages = Percentages::default();
        let samples = [90, 10, 0, 100, 55];
        for usage in samples {
            percentages.add("ada", usage, minute);
        }
        let sum = f64::from(samples.iter().sum::<u32>());
        let check = |term, length: f64| {
            let found = percentages.of("ada", term).unwrap();
            assert!((found - sum / length).abs() < 1e-9, "{found}");
        };
        check(Term::Rolling(Duration::from_secs(3600)), 60.0);
        check(Term::Day, 1440.0);
        check(Term::Week, 10_080.0);
        check(Term::Month, 43_200.0);
        assert_eq!(percentages.of("bob", Term::Day), None);
    }
}
