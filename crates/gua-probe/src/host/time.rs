//! Whether the wall clock can be trusted. Charged hours depend on it.

use jiff::Timestamp;

use super::{HostRoot, read};

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
#[must_use]
pub fn time_keeping(root: &HostRoot) -> TimeKeeping {
    let marks = root.run.join("systemd/timesync");
    let is_set = marks.join("synchronized").exists();
    let booted = read(&root.proc.join("stat"), LIMIT)
        .ok()
        .and_then(|text| parse_boot_time(&text));
    TimeKeeping {
        booted,
        synchronised: (is_set || marks.exists()).then_some(is_set),
    }
}

/// Returns the clock ticks per second in `/proc/PID/stat`; 100 on all current kernels.
#[must_use]
pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// Parses the `btime` line of `/proc/stat`: seconds since 1970.
#[must_use]
pub fn parse_boot_time(text: &[u8]) -> Option<Timestamp> {
    let text = String::from_utf8_lossy(text);
    let seconds = text
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()?;
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
        let root = HostRoot::below(directory.path());
        let check = |expected| assert_eq!(time_keeping(&root).synchronised, expected);
        check(None);
        std::fs::create_dir_all(root.run.join("systemd/timesync")).unwrap();
        check(Some(false));
        std::fs::write(root.run.join("systemd/timesync/synchronized"), "").unwrap();
        check(Some(true));
    }
}
