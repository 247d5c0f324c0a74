//! Waiting for a condition. Tests never sleep for a fixed time.

use std::time::{Duration, Instant};

/// Maximum time that a test waits for a condition. Generous, because builds and other tests compete for the processor.
const LIMIT: Duration = Duration::from_secs(60);

/// Polls until `find` returns a value, and returns it. Panics after a minute, naming `what`.
#[track_caller]
pub fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let limit = now() + LIMIT;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(now() < limit, "not within {LIMIT:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Polls until the condition holds. Panics after a minute, naming `what`.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

#[expect(
    clippy::disallowed_methods,
    reason = "the crate that owns the clock is tested with this one"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
