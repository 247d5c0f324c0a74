//! The only module that reads the time, and a time limit for work that may hang.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// Returns the wall-clock time.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that asks the time"
)]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Returns the time since boot including suspend. It never jumps.
pub fn since_boot() -> Duration {
    duration(ClockId::Boottime)
}

/// Returns the monotonic clock, for deadlines and schedules. It never jumps, and stops during suspend.
pub fn monotonic() -> Duration {
    duration(ClockId::Monotonic)
}

/// Returns the CPU time that all threads of this process have used.
pub fn processor_time() -> Duration {
    duration(ClockId::ProcessCPUTime)
}

/// Runs work that may hang on a thread of its own. A result after the time limit is dropped; `None` also if the thread
/// cannot be started.
pub fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, result) = mpsc::channel();
    let thread = thread::Builder::new().spawn(move || sender.send(work()));
    thread.ok()?;
    result.recv_timeout(limit).ok()
}

fn duration(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).expect("these clocks begin at zero and only grow");
    let nanos = u32::try_from(time.tv_nsec).expect("the kernel keeps nanoseconds below a second");
    Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_since_boot_is_at_least_the_time_awake() {
        let awake = monotonic();
        assert!(since_boot() >= awake);
    }
}
