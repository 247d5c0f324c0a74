//! Memory and load of the host, from `/proc/meminfo` and `/proc/loadavg`.

use gua_model::{Bytes, Missing, Reading};

use super::{HostRoot, kilobytes};

/// Maximum number of bytes to read; both files are shorter.
const LIMIT: u64 = 16 * 1024;

/// Memory of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostMemory {
    pub total: Bytes,
    /// Memory that programs can still get, including caches that the kernel would drop.
    pub available: Bytes,
}

/// Reads the memory.
pub fn memory(root: &HostRoot) -> Reading<HostMemory> {
    let found = root.parsed("proc/meminfo", LIMIT, parse_memory);
    found.ok_or(Missing::Failed)
}

/// Reads the mean number of runnable processes over the last minute, in hundredths.
pub fn load(root: &HostRoot) -> Reading<u64> {
    let found = root.parsed("proc/loadavg", LIMIT, parse_load);
    found.ok_or(Missing::Failed)
}

/// Parses the lines `MemTotal:` and `MemAvailable:`.
pub fn parse_memory(text: &[u8]) -> Option<HostMemory> {
    let text = std::str::from_utf8(text).ok()?;
    Some(HostMemory {
        total: kilobytes(text, "MemTotal:")?,
        available: kilobytes(text, "MemAvailable:")?,
    })
}

/// Parses the first number, which has two decimals.
pub fn parse_load(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, decimals) = text.split_ascii_whitespace().next()?.split_once('.')?;
    let is_short = decimals.len() == 2;
    let hundredths: u64 = decimals.parse().ok().filter(|_| is_short)?;
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(100)?
        .checked_add(hundredths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_load_are_what_the_kernel_writes() {
        let text = b"MemTotal:       527988588 kB\nMemFree:  1 kB\nMemAvailable:   511234512 kB\n";
        let memory = HostMemory {
            total: Bytes(527_988_588 * 1024),
            available: Bytes(511_234_512 * 1024),
        };
        assert_eq!(parse_memory(text), Some(memory));
        assert_eq!(parse_load(b"4.07 3.92 3.50 2/1234 5678\n"), Some(407));
    }

    #[test]
    fn what_is_no_such_file_is_nothing() {
        for text in [
            "",
            "MemTotal: 1 kB\n",
            "MemTotal: x kB\nMemAvailable: 1 kB\n",
        ] {
            assert_eq!(parse_memory(text.as_bytes()), None, "{text}");
        }
        for text in ["", "4", "4.0 1", "x.07"] {
            assert_eq!(parse_load(text.as_bytes()), None, "{text}");
        }
    }
}
