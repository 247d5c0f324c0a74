//! Back-off after failures: the delay doubles up to a limit, and is reset by a success.

use std::time::Duration;

use crate::clock;
use crate::fault::DriverFault;

/// Back-off state. The caller passes the time, on a clock that never jumps.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
    free_at: Duration,
}

impl Backoff {
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            failures: 0,
            free_at: Duration::ZERO,
        }
    }

    /// Returns the remaining delay; `None` if a retry is allowed now.
    pub fn remaining(&self, now: Duration) -> Option<Duration> {
        self.free_at.checked_sub(now).filter(|rest| !rest.is_zero())
    }

    pub fn failed(&mut self, now: Duration) {
        self.failed_with_jitter(now, 0);
    }

    /// Like [`Backoff::failed`], with an addition of up to half of the delay: `random` of 65,535 parts of it.
    pub fn failed_with_jitter(&mut self, now: Duration, random: u16) {
        let delay = self
            .first
            .saturating_mul(1u32.checked_shl(self.failures).unwrap_or(u32::MAX))
            .min(self.longest);
        self.failures = self.failures.saturating_add(1);
        let jitter = delay / 2 * u32::from(random) / u32::from(u16::MAX);
        self.free_at = now.saturating_add(delay + jitter);
    }

    pub fn succeeded(&mut self) {
        *self = Self::new(self.first, self.longest);
    }
}

/// Back-off after faults of the driver. Until the delay has passed, the last fault is reported again.
#[derive(Debug)]
pub(crate) struct FaultBackoff {
    backoff: Backoff,
    last: Option<DriverFault>,
}

impl FaultBackoff {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self {
            backoff: Backoff::new(first, longest),
            last: None,
        }
    }

    /// Returns the last fault while no retry is allowed.
    pub(crate) fn check(&self) -> Result<(), DriverFault> {
        match (self.backoff.remaining(clock::monotonic()), &self.last) {
            (Some(retry_in), Some(last)) => Err(DriverFault::BackingOff {
                retry_in,
                last: Box::new(last.clone()),
            }),
            _ => Ok(()),
        }
    }

    pub(crate) fn failed(&mut self, fault: DriverFault) -> DriverFault {
        self.backoff.failed(clock::monotonic());
        self.last = Some(fault.clone());
        fault
    }

    /// Begins the back-off if an attempt failed, and ends it if the attempt succeeded.
    pub(crate) fn record<T>(&mut self, attempt: Result<T, DriverFault>) -> Result<T, DriverFault> {
        if attempt.is_ok() {
            self.backoff.succeeded();
            self.last = None;
        }
        attempt.map_err(|fault| self.failed(fault))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_up_to_the_limit_and_start_again_after_a_success() {
        let mut backoff = Backoff::new(SECOND, 5 * SECOND);
        let now = 100 * SECOND;
        assert_eq!(backoff.remaining(now), None);
        for seconds in [1, 2, 4, 5, 5] {
            backoff.failed(now);
            assert_eq!(backoff.remaining(now), Some(seconds * SECOND));
            assert_eq!(backoff.remaining(now + seconds * SECOND), None);
        }
        backoff.succeeded();
        backoff.failed(now);
        assert_eq!(backoff.remaining(now), Some(SECOND));
    }

    #[test]
    fn a_thousand_failures_do_not_overflow() {
        let mut backoff = Backoff::new(SECOND, 60 * SECOND);
        for _ in 0..1000 {
            backoff.failed(SECOND);
        }
        assert_eq!(backoff.remaining(SECOND), Some(60 * SECOND));
    }
}
