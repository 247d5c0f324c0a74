//! The interval at which a host reports, as observed. The rules for stale hosts and silent agents are in
//! [`gua_model::cadence`].
//!
//! Reports do not contain the interval of their host, and hosts differ: most report every 30 s, some every few minutes. A host
//! is stale by its own interval, not when it is slower than others.

use std::time::Duration;

use gua_model::cadence::Cadence;
use jiff::SignedDuration;

/// Minimum time between two ticks. Reports that are closer together belong to one tick.
const MIN_GAP: SignedDuration = SignedDuration::from_secs(1);

/// Times between the last reports of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// The last two, newest first.
    gaps: [Option<Duration>; 2],
}

impl Interval {
    /// Adds the time between two reports, by the host's clock. Times below the minimum are ignored: the clock was set back, or
    /// both reports are of one tick, for which an agent of gua sends a snapshot and a live report.
    pub fn add(&mut self, gap: SignedDuration) {
        if gap >= MIN_GAP {
            self.gaps = [Some(gap.unsigned_abs()), self.gaps[0]];
        }
    }

    /// Returns the time without a report after which the host is stale. Before the second report: two minutes.
    pub fn stale_after(&self) -> SignedDuration {
        signed(Cadence::new(self.length().unwrap_or_default()).stale_after())
    }

    /// Returns the time without a report after which the agent is silent. Before the second report: three hours.
    pub fn silent_after(&self) -> SignedDuration {
        let cadence = self.length().map(Cadence::new);
        signed(cadence.map_or(Cadence::MAX_SILENCE, Cadence::silent_after))
    }

    /// Returns the interval: the shorter of the last two gaps, because an outage makes one gap long. `None` before the second
    /// report.
    fn length(&self) -> Option<Duration> {
        self.gaps.into_iter().flatten().min()
    }
}

/// Converts a time for comparison with the difference of two timestamps.
fn signed(time: Duration) -> SignedDuration {
    SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_stale_when_it_misses_its_own_reports() {
        let check = |gaps: &[i64], expected: i64| {
            let mut interval = Interval::default();
            for gap in gaps {
                interval.add(SignedDuration::from_secs(*gap));
            }
            let found = interval.stale_after().as_secs();
            assert_eq!(found, expected, "{gaps:?}");
        };
        check(&[], 120);
        check(&[30, 30], 120);
        check(&[60], 150);
        check(&[300, 300], 750);
        // One outage does not change the interval of a host that reports every 30 s.
        check(&[30, 30, 7200], 120);
        check(&[30, 7200, 30], 120);
        // The host was set to another interval.
        check(&[30, 30, 300, 300], 750);
        check(&[300, 300, 30], 120);
        check(&[7200, 7200], 3600);
        check(&[300, -5, 0], 750);
    }

    #[test]
    fn an_agent_is_silent_when_it_misses_three_of_its_own_reports() {
        let check = |gaps: &[i64], expected: i64| {
            let mut interval = Interval::default();
            for gap in gaps {
                interval.add(SignedDuration::from_secs(*gap));
            }
            let found = interval.silent_after().as_secs();
            assert_eq!(found, expected, "{gaps:?}");
        };
        check(&[30, 30], 120);
        check(&[60], 180);
        check(&[300, 300], 900);
        check(&[30, 7200], 120);
        check(&[3600, 3600], 3 * 3600);
        check(&[86_400, 86_400], 3 * 3600);
        // The interval is not known yet.
        check(&[], 3 * 3600);
    }
}
