//! Jitter for retries, so that many hosts do not retry at the same moment.

use std::hash::{BuildHasher as _, RandomState};

/// A random number: the standard library seeds each `RandomState` from the system's randomness.
pub(super) fn random() -> u16 {
    let [low, high, ..] = RandomState::new().hash_one(0).to_le_bytes();
    u16::from_le_bytes([low, high])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gua_probe::backoff::Backoff;

    use super::*;

    #[test]
    fn delays_double_with_a_random_addition_of_up_to_half() {
        let second = Duration::from_secs(1);
        let mut delay = Backoff::new(second, 4 * second);
        let now = 100 * second;
        assert_eq!(delay.remaining(now), None);
        for seconds in [1, 2, 4, 4] {
            delay.failed_with_jitter(now, random());
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
