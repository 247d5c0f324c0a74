//! Rate limits: a token bucket per key. A key may make a burst of requests and then a steady number per second.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Number of keys above which full buckets are forgotten. A full bucket says no more than no bucket.
const MANY_KEYS: usize = 4096;

/// Limits requests per key.
#[derive(Debug)]
pub(crate) struct RateLimit<K> {
    burst: f64,
    per_second: f64,
    buckets: Mutex<HashMap<K, Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl<K: Eq + Hash> RateLimit<K> {
    /// Creates a limit that allows `burst` requests at once, and then `per_second` requests in each second.
    pub(crate) fn new(burst: u32, per_second: f64) -> Self {
        Self {
            burst: burst.into(),
            per_second,
            buckets: Mutex::default(),
        }
    }

    /// Takes one request out of the key's bucket.
    ///
    /// # Errors
    /// The whole seconds until the next request is allowed, at least one.
    pub(crate) fn take(&self, key: K) -> Result<(), u32> {
        let now = Instant::now();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MANY_KEYS {
            buckets.retain(|_, bucket| {
                self.refill(bucket, now);
                bucket.tokens < self.burst
            });
        }
        let bucket = buckets.entry(key).or_insert(Bucket {
            tokens: self.burst,
            at: now,
        });
        self.refill(bucket, now);
        if bucket.tokens < 1.0 {
            let wait = (1.0 - bucket.tokens) / self.per_second;
            let seconds = Duration::from_secs_f64(wait).as_secs();
            return Err(u32::try_from(seconds).unwrap_or(u32::MAX).max(1));
        }
        bucket.tokens -= 1.0;
        Ok(())
    }

    fn refill(&self, bucket: &mut Bucket, now: Instant) {
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.tokens = (bucket.tokens + passed * self.per_second).min(self.burst);
        bucket.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_followed_by_the_steady_rate_of_each_key() {
        let limit = RateLimit::new(2, 0.5);
        assert!(limit.take("a").is_ok() && limit.take("a").is_ok());
        assert_eq!(limit.take("a"), Err(2));
        assert!(limit.take("b").is_ok());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(limit.take("a").is_ok());
        assert!(limit.take("a").is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn idle_keys_are_forgotten() {
        let limit = RateLimit::new(1, 1.0);
        for key in 0..MANY_KEYS {
            limit.take(key).unwrap();
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        limit.take(MANY_KEYS).unwrap();
        assert_eq!(limit.buckets.lock().unwrap().len(), 1);
    }
}
