//! The only module of this crate that reads the time. The world computes scenario time from it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the wall-clock time.
#[expect(clippy::disallowed_methods, reason = "this file is the clock")]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// Returns the seconds since 1970.
pub(crate) fn unix_seconds() -> f64 {
    match wall().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}

pub(crate) fn sleep(how_long: Duration) {
    std::thread::sleep(how_long);
}

/// Simulates a driver call that never returns.
pub(crate) fn hang() -> ! {
    loop {
        sleep(Duration::from_secs(3600));
    }
}
