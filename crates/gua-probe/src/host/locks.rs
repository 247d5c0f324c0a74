//! Processes that hold file locks, as the kernel lists them in `/proc/locks` (proc_locks(5)).

use std::collections::BTreeSet;

use gua_model::Pid;

use super::HostRoot;

/// Returns the processes that hold a lock of fcntl(2) or flock(2) on one of the files, given by inode. Empty if the list cannot be read.
pub fn holders(root: &HostRoot, inodes: &[u64]) -> BTreeSet<Pid> {
    match root.read("proc/locks", 1 << 20) {
        Ok(text) => parse(&text, inodes),
        Err(_) => BTreeSet::new(),
    }
}

/// Parses lines such as `7: POSIX  ADVISORY  READ 4711 fe:00:1234 120 120`. A line with `->` is of a process that waits.
pub fn parse(text: &[u8], inodes: &[u64]) -> BTreeSet<Pid> {
    let text = String::from_utf8_lossy(text);
    let holder = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        if !matches!(fields.next()?, "POSIX" | "FLOCK") {
            return None;
        }
        let pid = fields.nth(2)?.parse().ok()?;
        // The device is that of the file system's superblock, which stat(2) does not always give.
        let (_, inode) = fields.next()?.rsplit_once(':')?;
        inodes.contains(&inode.parse().ok()?).then_some(Pid(pid))
    };
    text.lines().filter_map(holder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_holders_of_locks_on_the_file_are_listed() {
        let text = b"1: POSIX  ADVISORY  READ 4711 fe:00:1234 120 120\n\
            1: -> POSIX  ADVISORY  WRITE 4712 fe:00:1234 120 120\n\
            2: FLOCK  ADVISORY  WRITE 4713 fe:00:1234 0 EOF\n\
            3: POSIX  ADVISORY  WRITE 4714 fe:00:12345 0 EOF\n\
            4: OFDLCK ADVISORY  READ -1 fe:00:1234 0 EOF\n\
            5: POSIX  ADVISORY  WRITE 4715 00:1a:99 0 0\nPOSIX\n\xff\n";
        let found: Vec<u32> = parse(text, &[1234, 99]).iter().map(|pid| pid.0).collect();
        assert_eq!(found, [4711, 4713, 4715]);
    }
}
