//! How long a board is left alone after a failure: doubling pauses, each with a random part, so that many hosts do not come
//! back at the same moment.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use gua_probe::backoff::Backoff;

#[derive(Debug)]
pub(super) struct RetryDelay {
    backoff: Backoff,
    /// What is added to the pause that runs.
    more: Duration,
}

impl RetryDelay {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self {
            backoff: Backoff::new(first, longest),
            more: Duration::ZERO,
        }
    }

    pub(super) fn failed(&mut self, now: Duration) {
        self.backoff.failed(now);
        let pause = self.backoff.remaining(now).unwrap_or_default();
        self.more = part_of(pause / 2, random());
    }

    pub(super) fn succeeded(&mut self) {
        self.backoff.succeeded();
        self.more = Duration::ZERO;
    }

    /// How long to wait still; `None` when it may be tried now.
    pub(super) fn remaining(&self, now: Duration) -> Option<Duration> {
        let earlier = now.saturating_sub(self.more);
        self.backoff.remaining(earlier)
    }
}

fn part_of(whole: Duration, random: u16) -> Duration {
    whole * u32::from(random) / u32::from(u16::MAX)
}

/// The standard library seeds each of these from the system's randomness.
fn random() -> u16 {
    let [low, high, ..] = RandomState::new().hash_one(0).to_le_bytes();
    u16::from_le_bytes([low, high])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_get_up_to_half_of_themselves_on_top() {
        let second = Duration::from_secs(1);
        let mut pause = RetryDelay::new(second, 4 * second);
        let now = 100 * second;
        assert_eq!(pause.remaining(now), None);
        for seconds in [1, 2, 4, 4] {
            pause.failed(now);
            let rest = pause.remaining(now).unwrap();
            let longest = second * seconds * 3 / 2;
            assert!((second * seconds..=longest).contains(&rest), "{rest:?}");
            assert_eq!(pause.remaining(now + longest), None);
        }
        pause.succeeded();
        assert_eq!(pause.remaining(now), None);
        assert_eq!(part_of(second, u16::MAX), second);
        assert_eq!(part_of(second, 0), Duration::ZERO);
    }

    #[test]
    fn two_hosts_do_not_come_back_at_the_same_moment() {
        let draws: std::collections::HashSet<u16> = (0..100).map(|_| random()).collect();
        assert!(draws.len() > 50, "{}", draws.len());
    }
}
