//! Privileges of this process that decide which processes it can see.

use super::{HostRoot, read};

const LIMIT: u64 = 64 * 1024;
/// Bit of `CAP_SYS_PTRACE` (capability.h), which overrides `hidepid`.
const SYS_PTRACE: u64 = 1 << 19;

/// Privileges of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privilege {
    /// Effective user; `None` if the kernel did not report it.
    pub uid: Option<u32>,
    /// Effective and supplementary groups.
    pub groups: Vec<u32>,
    pub sees: Sees,
}

/// Whether every process can be inspected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sees {
    /// The process has `CAP_SYS_PTRACE`.
    Everyone,
    #[default]
    WhatIsAllowed,
}

/// Reads the privileges of this process; none if they cannot be read.
#[must_use]
pub fn privilege(root: &HostRoot) -> Privilege {
    read(&root.proc.join("self/status"), LIMIT)
        .map_or_else(|_| Privilege::default(), |text| parse_status(&text))
}

/// Parses `/proc/self/status` (`proc_pid_status(5)`).
#[must_use]
pub fn parse_status(text: &[u8]) -> Privilege {
    let text = String::from_utf8_lossy(text);
    let values = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .unwrap_or_default()
    };
    // Real, effective, saved and file system id, in this order.
    let effective = |name| {
        values(name)
            .split_whitespace()
            .nth(1)
            .and_then(|id| id.parse::<u32>().ok())
    };
    let more = values("Groups")
        .split_whitespace()
        .filter_map(|gid| gid.parse().ok());
    let capabilities = u64::from_str_radix(values("CapEff").trim(), 16).unwrap_or(0);
    Privilege {
        uid: effective("Uid"),
        groups: effective("Gid").into_iter().chain(more).collect(),
        sees: if capabilities & SYS_PTRACE == 0 {
            Sees::WhatIsAllowed
        } else {
            Sees::Everyone
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, uid: Option<u32>, groups: &[u32], sees: Sees) {
        let expected = Privilege {
            uid,
            groups: groups.to_vec(),
            sees,
        };
        assert_eq!(parse_status(text.as_bytes()), expected, "{text:?}");
    }

    #[test]
    fn rights_are_the_effective_ones() {
        let text = "Name:\tgua\nUid:\t1000\t0\t1000\t1000\nGid:\t1000\t50\t0\t0\nGroups:\t27 44 \nCapEff:\t0000000000080000\n";
        check(text, Some(0), &[50, 27, 44], Sees::Everyone);
        let text = "Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t \nCapEff:\t0000000000000000\n";
        check(text, Some(1000), &[1000], Sees::WhatIsAllowed);
    }

    #[test]
    fn what_cannot_be_read_grants_nothing() {
        check("", None, &[], Sees::WhatIsAllowed);
        check(
            "Uid:\tx\nCapEff:\tffffffffffffffffffff\n",
            None,
            &[],
            Sees::WhatIsAllowed,
        );
    }
}
