//! Retries of one operation: the delay before the next attempt, and the failures since the last success.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use gua_model::failure_log::FailureLog;
use gua_model::text::sanitize;
use gua_probe::backoff::Backoff;

/// Back-off and failure log of an operation. The caller passes the time on the monotonic clock.
#[derive(Debug)]
pub(crate) struct Retry {
    delay: Backoff,
    failures: FailureLog,
}

impl Retry {
    /// `first` is the delay after the first failure; it doubles up to `longest`.
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self {
            delay: Backoff::new(first, longest),
            failures: FailureLog::default(),
        }
    }

    /// Time until the next attempt; `None` if it may start.
    pub(crate) fn remaining(&self, now: Duration) -> Option<Duration> {
        self.delay.remaining(now)
    }

    /// Delays the next attempt. A random part keeps many hosts from retrying at the same moment.
    pub(crate) fn back_off(&mut self, now: Duration) {
        self.delay.failed_with_jitter(now, random());
    }

    /// Counts a failure and backs off. If it starts a fault, returns the error, safe to display, for the caller to log.
    pub(crate) fn failed(&mut self, now: Duration, error: &str) -> Option<String> {
        self.back_off(now);
        self.count(error)
    }

    /// Counts a failure without a delay. If it starts a fault, returns the error.
    pub(crate) fn count(&mut self, error: &str) -> Option<String> {
        self.failures.add().then(|| sanitize(error))
    }

    /// Ends the delay. Returns the number of failures, if there were any.
    pub(crate) fn succeeded(&mut self) -> Option<u64> {
        self.delay.succeeded();
        self.failures.end()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failures.is_open()
    }
}

/// A random number: the standard library seeds each `RandomState` from the system's randomness.
fn random() -> u16 {
    let [low, high, ..] = RandomState::new().hash_one(0).to_le_bytes();
    u16::from_le_bytes([low, high])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn delays_double_with_a_random_addition_of_up_to_half() {
        let second = Duration::from_secs(1);
        let mut retry = Retry::new(second, 4 * second);
        let now = 100 * second;
        assert_eq!(retry.remaining(now), None);
        for seconds in [1, 2, 4, 4] {
            retry.back_off(now);
            let rest = retry.remaining(now).unwrap();
            let longest = second * seconds * 3 / 2;
            assert!((second * seconds..=longest).contains(&rest), "{rest:?}");
            assert_eq!(retry.remaining(now + longest), None);
        }
        assert_eq!(retry.succeeded(), None, "no failure was counted");
        assert_eq!(retry.remaining(now), None);
        assert_eq!(retry.failed(now, "no\n"), Some("no\u{fffd}".to_owned()));
        assert_eq!(retry.failed(now, "no\n"), None, "logged before");
        assert!(retry.remaining(now).is_some());
        assert_eq!(retry.succeeded(), Some(2));
    }

    #[test]
    fn two_hosts_do_not_retry_at_the_same_moment() {
        let draws: std::collections::HashSet<u16> = (0..100).map(|_| random()).collect();
        assert!(draws.len() > 50, "{}", draws.len());
    }
}
