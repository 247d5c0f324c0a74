//! Rate limits: a token bucket per key. A key may make a burst of requests and then a steady number per second.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Number of keys above which full buckets are forgotten. A full bucket says no more than no bucket.
const MANY_KEYS: usize = 4096;

/// Burst and steady rate of a limit.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    pub burst: u32,
    pub per_second: f64,
}

/// Limits requests per key.
#[derive(Debug)]
pub struct RateLimit<K> {
    rate: Rate,
    buckets: Mutex<HashMap<K, Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Bucket {
    fn refill(&mut self, rate: Rate, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * rate.per_second).min(rate.burst.into());
        self.at = now;
    }
}

impl<K: Eq + Hash> RateLimit<K> {
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        Self {
            rate,
            buckets: Mutex::default(),
        }
    }

    /// Takes one request out of the key's bucket.
    ///
    /// # Errors
    /// The time until the next request is allowed.
    pub fn take(&self, key: K) -> Result<(), Duration> {
        let now = Instant::now();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MANY_KEYS {
            buckets.retain(|_, bucket| {
                bucket.refill(self.rate, now);
                bucket.tokens < self.rate.burst.into()
            });
        }
        let bucket = buckets.entry(key).or_insert(Bucket {
            tokens: self.rate.burst.into(),
            at: now,
        });
        bucket.refill(self.rate, now);
        if bucket.tokens < 1.0 {
            let wait = (1.0 - bucket.tokens) / self.rate.per_second;
            return Err(Duration::from_secs_f64(wait));
        }
        bucket.tokens -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_followed_by_the_steady_rate_of_each_key() {
        let limit = RateLimit::new(Rate {
            burst: 2,
            per_second: 0.5,
        });
        assert!(limit.take("a").is_ok() && limit.take("a").is_ok());
        assert_eq!(limit.take("a"), Err(Duration::from_secs(2)));
        assert!(limit.take("b").is_ok());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(limit.take("a").is_ok());
        assert!(limit.take("a").is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn idle_keys_are_forgotten() {
        let limit = RateLimit::new(Rate {
            burst: 1,
            per_second: 1.0,
        });
        for key in 0..MANY_KEYS {
            limit.take(key).unwrap();
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        limit.take(MANY_KEYS).unwrap();
        assert_eq!(limit.buckets.lock().unwrap().len(), 1);
    }
}
