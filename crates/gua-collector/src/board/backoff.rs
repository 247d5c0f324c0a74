//! Back-off with jitter, so that many hosts do not retry at the same moment.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use gua_probe::backoff::Backoff;

#[derive(Debug)]
pub(super) struct RetryDelay(Backoff);

impl RetryDelay {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self(Backoff::new(first, longest))
    }

    pub(super) fn failed(&mut self, now: Duration) {
        self.0.failed_with_jitter(now, random());
    }

    pub(super) fn succeeded(&mut self) {
        self.0.succeeded();
    }

    /// Time until the next attempt; `None` if it is due.
    pub(super) fn remaining(&self, now: Duration) -> Option<Duration> {
        self.0.remaining(now)
    }
}

/// A random number: the standard library seeds each `RandomState` from the system's randomness.
fn random() -> u16 {
    let [low, high, ..] = RandomState::new().hash_one(0).to_le_bytes();
    u16::from_le_bytes([low, high])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_with_a_random_addition_of_up_to_half() {
        let second = Duration::from_secs(1);
        let mut delay = RetryDelay::new(second, 4 * second);
        let now = 100 * second;
        assert_eq!(delay.remaining(now), None);
        for seconds in [1, 2, 4, 4] {
            delay.failed(now);
            let rest = delay.remaining(now).unwrap();
            let longest = second * seconds * 3 / 2;
            assert!((second * seconds..=longest).contains(&rest), "{rest:?}");
            assert_eq!(delay.remaining(now + longest), None);
        }
        delay.succeeded();
        assert_eq!(delay.remaining(now), None);
    }

    #[test]
    fn two_hosts_do_not_retry_at_the_same_moment() {
        let draws: std::collections::HashSet<u16> = (0..100).map(|_| random()).collect();
        assert!(draws.len() > 50, "{}", draws.len());
    }
}
