//! The one place of this crate that asks the time. It holds no scenario time: that is computed from this by the world.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time of day.
#[expect(clippy::disallowed_methods, reason = "this file is the clock")]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// Seconds since 1970.
pub(crate) fn unix_seconds() -> f64 {
    match wall().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}

pub(crate) fn sleep(how_long: Duration) {
    std::thread::sleep(how_long);
}

/// A call into a driver that never answers.
pub(crate) fn hang() -> ! {
    loop {
        sleep(Duration::from_secs(3600));
    }
}
