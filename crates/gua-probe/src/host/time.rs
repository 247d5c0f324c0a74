//! Whether the wall clock can be trusted. Charged hours depend on it.

use std::time::Duration;

use jiff::Timestamp;

use super::{HostRoot, after};

/// Maximum size of `/proc/stat`; it has a line per CPU before the one that is needed.
const LIMIT: u64 = 1024 * 1024;

/// State of the host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeKeeping {
    /// Boot time by the same clock, as the kernel reports it.
    pub booted: Option<Timestamp>,
    /// Whether systemd-timesyncd has set the clock since boot. `None` if another program keeps the time, or none does.
    pub synchronised: Option<bool>,
}

/// Reads the state from the kernel and the files of systemd-timesyncd.service(8). The clock itself is not touched.
pub fn time_keeping(root: &HostRoot) -> TimeKeeping {
    let marks = root.join("run/systemd/timesync");
    let is_set = marks.join("synchronized").exists();
    TimeKeeping {
        booted: root.parsed("proc/stat", LIMIT, parse_boot_time),
        synchronised: (is_set || marks.exists()).then_some(is_set),
    }
}

/// Returns the clock ticks per second in `/proc/PID/stat`; 100 on all current kernels.
pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// Converts clock ticks.
pub(crate) fn of_ticks(ticks: u64) -> Duration {
    let nanoseconds = u128::from(ticks) * 1_000_000_000 / u128::from(ticks_per_second().max(1));
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

/// Parses the `btime` line of `/proc/stat`: seconds since 1970.
pub fn parse_boot_time(text: &[u8]) -> Option<Timestamp> {
    let text = String::from_utf8_lossy(text);
    let seconds = after(&text, "btime ")?.trim().parse().ok()?;
    Timestamp::from_second(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_boot_is_a_line_of_the_statistics() {
        let check = |text: &str, expected: Option<i64>| {
            assert_eq!(
                parse_boot_time(text.as_bytes()).map(Timestamp::as_second),
                expected,
                "{text:?}"
            );
        };
        check(
            "cpu 1 2 3\nbtime 1700000000\nprocesses 3\n",
            Some(1_700_000_000),
        );
        check("cpu 1 2 3\n", None);
        check("btime soon\n", None);
        check("btime 9223372036854775807\n", None);
    }

    #[test]
    fn only_systemds_mark_says_that_the_clock_is_set() {
        let directory = tempfile::tempdir().unwrap();
        let root = HostRoot(directory.path().to_owned());
        let check = |expected| assert_eq!(time_keeping(&root).synchronised, expected);
        check(None);
        std::fs::create_dir_all(root.join("run/systemd/timesync")).unwrap();
        check(Some(false));
        std::fs::write(root.join("run/systemd/timesync/synchronized"), "").unwrap();
        check(Some(true));
    }
}
