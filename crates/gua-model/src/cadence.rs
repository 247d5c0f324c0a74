//! The one answer to "when is a late sample a gap".
//!
//! Samples are taken at an interval, and they come late: the driver is slow, the machine is busy, the collector was
//! stopped. Each of these uses has one rule for late samples, which every part of the program follows.
//!
//! **Accounting** (history, reports, exports, `gua run`): a sample covers the time until the next one, but never more
//! than its interval ([`Cadence::covered`]). What is left is a gap, however short: nobody observed it, so no state and no
//! owner is charged for it. Differences between two samples (energy counters, utilisation buffers) count only if the
//! second one directly [follows](Cadence::follows) the first.
//!
//! **Continuity** (since when a GPU has been in its state, whether a collector or a driver is overdue): a sample that is
//! late by up to one more interval interrupts nothing; beyond that it was [missed](Cadence::is_missed).
//!
//! **Action** (advice about the processes of the last sample): a sample is [current](Cadence::is_current) for three
//! intervals, and for at least five minutes. Older samples are not acted on.
//!
//! **Reports of hosts** (the state of a host on a board, alerts about its agent): a host is
//! [stale](Cadence::stale_after) after two and a half intervals without a report, and its agent is [silent](Cadence::silent_after)
//! after three, both within limits.
//!
//! The times of rows imported from gpu-usage-audit and gpu_stats may deviate by half an interval
//! ([`Cadence::imported_slack`]). For their other rules, see [`crate::legacy`].

use std::time::Duration;

use crate::unit::Micros;

/// The time between two samples of one collector, as planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cadence {
    pub interval: Duration,
}

impl Cadence {
    /// Delay that any sample may have, however short the interval. Totals do not keep the interval of their ticks, so
    /// there a hole of up to this length is lateness.
    pub const JITTER: Micros = Micros::from_secs(1);

    /// Least delay beyond the interval after which a sample was missed.
    const MIN_LATENESS: Duration = Duration::from_secs(2);

    /// Age up to which any sample is current, however short the interval.
    const CURRENT: Duration = Duration::from_secs(300);

    /// Minimum time without a report after which a host is stale or its agent silent.
    const MIN_STALE: Duration = Duration::from_mins(2);

    /// Maximum time without a report after which a host is stale.
    const MAX_STALE: Duration = Duration::from_hours(1);

    /// Maximum time without a report after which an agent is silent: three hours, because some hosts report once an hour.
    pub const MAX_SILENCE: Duration = Duration::from_hours(3);

    pub fn new(interval: Duration) -> Self {
        Self { interval }
    }

    /// The time that a sample covers, given the time to the next one: all of it, at most the interval.
    pub fn covered(self, until_next: Option<Duration>) -> Duration {
        until_next.map_or(self.interval, |elapsed| elapsed.min(self.interval))
    }

    /// Whether a sample after this time directly follows: at most a tenth of the interval late, or one second.
    pub fn follows(self, elapsed: Duration) -> bool {
        let delay = (self.interval / 10).max(Duration::from_micros(Self::JITTER.0));
        elapsed <= self.interval.saturating_add(delay)
    }

    /// Whether a sample was missed: more than twice the interval has passed since the last one, and two seconds more
    /// than the interval.
    pub fn is_missed(self, elapsed: Duration) -> bool {
        let late = self.interval.saturating_add(Self::MIN_LATENESS);
        elapsed > self.interval.saturating_mul(2).max(late)
    }

    /// Whether a hole between the end of what one sample covers and the next sample means that one was missed.
    pub fn is_break(self, hole: Micros) -> bool {
        self.is_missed(self.interval.saturating_add(Duration::from_micros(hole.0)))
    }

    /// Whether a sample of this age is so recent that its processes can be acted on. An older PID may have been reused.
    pub fn is_current(self, age: Duration) -> bool {
        age <= self.interval.saturating_mul(3).max(Self::CURRENT)
    }

    /// Time without a report after which a host is stale: 2.5 times its interval, from two minutes to an hour.
    pub fn stale_after(self) -> Duration {
        let interval = self.interval.min(Self::MAX_STALE);
        (interval * 5 / 2).clamp(Self::MIN_STALE, Self::MAX_STALE)
    }

    /// Time without a report after which an agent is silent: three times its interval, from two minutes to three hours.
    pub fn silent_after(self) -> Duration {
        let interval = self.interval.min(Self::MAX_SILENCE);
        (interval * 3).clamp(Self::MIN_STALE, Self::MAX_SILENCE)
    }

    /// Time by which an imported tick may be early or late without an overlap or a gap.
    pub fn imported_slack(self) -> Duration {
        self.interval / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_sample_covers_the_time_to_the_next_and_never_more_than_its_interval() {
        let check = |interval, elapsed: Option<u64>, covered| {
            let found = Cadence::new(MS(interval)).covered(elapsed.map(MS));
            assert_eq!(found, MS(covered), "{elapsed:?} every {interval}");
        };
        check(30_000, Some(30_000), 30_000);
        check(30_000, Some(12_000), 12_000);
        check(30_000, Some(30_001), 30_000);
        check(30_000, Some(3_600_000), 30_000);
        check(30_000, None, 30_000);
    }

    #[test]
    fn a_sample_is_on_time_then_late_and_then_missed() {
        let check = |interval, on_time_until, missed_after| {
            let cadence = Cadence::new(MS(interval));
            assert!(cadence.follows(MS(on_time_until)) && !cadence.follows(MS(on_time_until + 1)));
            assert!(
                !cadence.is_missed(MS(missed_after)) && cadence.is_missed(MS(missed_after + 1))
            );
            let hole = |elapsed: u64| Micros((elapsed - interval) * 1000);
            assert!(
                !cadence.is_break(hole(missed_after)) && cadence.is_break(hole(missed_after + 1))
            );
        };
        check(20, 1020, 2020);
        check(1000, 2000, 3000);
        check(2000, 3000, 4000);
        check(30_000, 33_000, 60_000);
        check(600_000, 660_000, 1_200_000);
    }

    #[test]
    fn processes_can_be_acted_on_for_three_intervals_or_five_minutes() {
        let check = |interval, longest| {
            let cadence = Cadence::new(MS(interval));
            assert!(cadence.is_current(MS(longest)) && !cadence.is_current(MS(longest + 1)));
        };
        check(0, 300_000);
        check(100_000, 300_000);
        check(600_000, 1_800_000);
    }

    #[test]
    fn stale_and_silent_times_follow_the_interval_within_limits() {
        let check = |interval, stale, silent| {
            let cadence = Cadence::new(Duration::from_secs(interval));
            let found = (cadence.stale_after(), cadence.silent_after());
            let expected = (Duration::from_secs(stale), Duration::from_secs(silent));
            assert_eq!(found, expected, "{interval}");
        };
        check(0, 120, 120);
        check(30, 120, 120);
        check(60, 150, 180);
        check(300, 750, 900);
        check(3600, 3600, 3 * 3600);
        check(86_400, 3600, 3 * 3600);
    }

    #[test]
    fn an_imported_tick_may_be_off_by_half_its_interval() {
        assert_eq!(Cadence::new(MS(30_000)).imported_slack(), MS(15_000));
    }

    #[test]
    fn the_longest_interval_does_not_overflow() {
        let endless = Cadence::new(Duration::MAX);
        assert!(endless.follows(Duration::MAX) && !endless.is_missed(Duration::MAX));
        assert!(endless.is_current(Duration::MAX));
        assert_eq!(endless.stale_after(), Cadence::MAX_STALE);
        assert_eq!(endless.silent_after(), Cadence::MAX_SILENCE);
    }
}
