//! How much of the time between two looks the first of them stands for. A look stands for its interval, and for a little more
//! where the next one is late. Where nobody looked for longer (a driver that hung, a run that was stopped, a machine that
//! slept), the rest is a gap: nobody knows what the card did.

use std::time::Duration;

/// How late a look may always be.
const LATE: Duration = Duration::from_secs(1);

/// The time between two looks at a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) whole: Duration,
    /// What the first look stands for.
    pub(crate) counted: Duration,
}

impl Stretch {
    pub(crate) fn new(whole: Duration, interval: Duration) -> Self {
        let longest = interval
            .saturating_mul(2)
            .max(interval.saturating_add(LATE));
        let counted = if whole <= longest { whole } else { interval };
        Self { whole, counted }
    }

    pub(crate) fn gap(self) -> Duration {
        self.whole.saturating_sub(self.counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_look_is_no_gap_and_a_missing_one_is() {
        let check = |whole: u64, interval: u64, gap: u64| {
            let of = Duration::from_millis;
            let stretch = Stretch::new(of(whole), of(interval));
            assert_eq!(stretch.gap(), of(gap), "{whole} every {interval}");
            assert_eq!(stretch.counted + stretch.gap(), stretch.whole);
        };
        check(2000, 2000, 0);
        check(4000, 2000, 0);
        check(4001, 2000, 2001);
        check(3_600_000, 2000, 3_598_000);
        check(1020, 20, 0);
        check(1021, 20, 1001);
        check(5, 20, 0);
    }
}
