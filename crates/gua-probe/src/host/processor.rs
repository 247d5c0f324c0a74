//! CPU load of the host, from the first line of `/proc/stat`.

use gua_model::{Missing, Reading};

use super::HostRoot;

/// Maximum number of bytes to read; the first line is much shorter.
const LIMIT: u64 = 1024;

/// CPU time of the host since boot, in clock ticks of all CPUs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Time in user mode: `user` and `nice` (proc_stat(5)).
    pub usr: u64,
    pub idle: u64,
    /// All time that the kernel counts.
    pub total: u64,
}

/// CPU load between two reads, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessorShares {
    pub usr_pct: f64,
    pub idle_pct: f64,
}

/// Reads the CPU time.
pub fn processor_time(root: &HostRoot) -> Reading<ProcessorTime> {
    let found = root.parsed("proc/stat", LIMIT, parse_processor_time);
    found.ok_or(Missing::Failed)
}

/// Parses the line that begins with `cpu` and a blank.
pub fn parse_processor_time(text: &[u8]) -> Option<ProcessorTime> {
    let line = text.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line.strip_prefix(b"cpu ")?).ok()?;
    let fields: Vec<u64> = line
        .split_ascii_whitespace()
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    let (user, nice, idle) = (fields.first()?, fields.get(1)?, fields.get(3)?);
    Some(ProcessorTime {
        usr: user.saturating_add(*nice),
        idle: *idle,
        total: fields.iter().copied().fold(0, u64::saturating_add),
    })
}

impl ProcessorTime {
    /// Returns the load since an earlier read; `None` if no time has passed.
    pub fn since(&self, earlier: &Self) -> Option<ProcessorShares> {
        let total = self
            .total
            .checked_sub(earlier.total)
            .filter(|total| *total > 0)?;
        // The kernel has been seen to decrease idle time (proc_stat(5), on iowait).
        let usr = self.usr.saturating_sub(earlier.usr);
        let idle = self.idle.saturating_sub(earlier.idle);
        // Clock ticks of a few seconds fit the mantissa.
        let percent = |part: u64| 100.0 * part as f64 / total as f64;
        Some(ProcessorShares {
            usr_pct: percent(usr),
            idle_pct: percent(idle),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_the_time_between_two_reads() {
        let read = |text: &str| parse_processor_time(text.as_bytes()).unwrap();
        let first = read("cpu  100 10 50 800 20 0 0 0 0 0\ncpu0 1 2 3 4\n");
        assert_eq!(
            first,
            ProcessorTime {
                usr: 110,
                idle: 800,
                total: 980
            }
        );
        let later = read("cpu  130 20 60 850 20 0 0 0 0 0\n");
        let shares = later.since(&first).unwrap();
        assert_eq!((shares.usr_pct, shares.idle_pct), (40.0, 50.0));
        assert_eq!(first.since(&first), None);
        assert_eq!(first.since(&later), None);
    }

    #[test]
    fn an_invalid_line_is_ignored() {
        for text in [
            "",
            "cpu",
            "cpu  1 2 3",
            "cpu  1 x 3 4",
            "intr 1 2 3 4",
            "cpu0 1 2 3 4",
        ] {
            assert_eq!(parse_processor_time(text.as_bytes()), None, "{text}");
        }
    }
}
