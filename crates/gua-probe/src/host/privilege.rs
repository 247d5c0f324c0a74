//! Privileges of this process that decide which processes it can see.

use super::{HostRoot, after};

const LIMIT: u64 = 64 * 1024;
/// Bit of `CAP_SYS_PTRACE` (capability.h), which overrides `hidepid`.
const SYS_PTRACE: u64 = 1 << 19;

/// Privileges of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privilege {
    /// Effective and supplementary groups.
    pub groups: Vec<u32>,
    /// Whether every process can be inspected, by `CAP_SYS_PTRACE`.
    pub sees_everyone: bool,
}

/// Reads the privileges of this process; none if they cannot be read.
pub fn privilege(root: &HostRoot) -> Privilege {
    root.read("proc/self/status", LIMIT)
        .map_or_else(|_| Privilege::default(), |text| parse_status(&text))
}

/// Parses `/proc/self/status` (`proc_pid_status(5)`).
pub fn parse_status(text: &[u8]) -> Privilege {
    let text = String::from_utf8_lossy(text);
    let values = |name: &str| after(&text, name).unwrap_or_default();
    // Real, effective, saved and file system id, in this order.
    let effective = values("Gid:").split_whitespace().nth(1);
    let groups = effective
        .into_iter()
        .chain(values("Groups:").split_whitespace());
    let capabilities = u64::from_str_radix(values("CapEff:").trim(), 16).unwrap_or(0);
    Privilege {
        groups: groups.filter_map(|gid| gid.parse().ok()).collect(),
        sees_everyone: capabilities & SYS_PTRACE != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, groups: &[u32], sees_everyone: bool) {
        let expected = Privilege {
            groups: groups.to_vec(),
            sees_everyone,
        };
        assert_eq!(parse_status(text.as_bytes()), expected, "{text:?}");
    }

    #[test]
    fn rights_are_the_effective_ones() {
        let text = "Name:\tgua\nUid:\t1000\t0\t1000\t1000\nGid:\t1000\t50\t0\t0\nGroups:\t27 44 \nCapEff:\t0000000000080000\n";
        check(text, &[50, 27, 44], true);
        let text = "Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t \nCapEff:\t0000000000000000\n";
        check(text, &[1000], false);
    }

    #[test]
    fn what_cannot_be_read_grants_nothing() {
        check("", &[], false);
        check("Gid:\tx\tx\nCapEff:\tffffffffffffffffffff\n", &[], false);
    }
}
