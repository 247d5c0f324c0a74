//! Releases the memory of code that only the start of a long-lived process needs.
//!
//! Parsing a command line and settings, opening a history and finding a driver use much more code than a tick does, and
//! the kernel maps sixteen pages around each page that is used. All of it remains in the file: pages that are needed
//! again are mapped again. The daemon needs this to stay within its 12 MB (docs/speed.md has the figures).
#![expect(unsafe_code, reason = "asks the kernel to unmap pages of ours")]

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use rustix::mm::{Advice, madvise};

/// Unmaps this program's code; each page is mapped again when it next runs. Does nothing if the kernel does not list
/// the mappings or refuses.
pub fn give_back() {
    advise(Advice::LinuxDontNeed);
}

fn advise(advice: Advice) {
    let (Ok(program), Ok(map)) = (
        fs::metadata("/proc/self/exe"),
        fs::read_to_string("/proc/self/maps"),
    ) else {
        return;
    };
    for range in map.lines().filter_map(|line| code(line, program.ino())) {
        // SAFETY: the mapping is of a file, private and read-only: the kernel reads each page from the file again. If
        // it does not, the only cost is memory.
        let _ = unsafe { madvise(range.start as *mut _, range.len(), advice) };
    }
}

/// Returns the addresses of a line of `/proc/PID/maps` if it is code from the file `inode` that was never written to.
fn code(line: &str, inode: u64) -> Option<std::ops::Range<usize>> {
    let mut fields = line.split_ascii_whitespace();
    let (addresses, access) = (fields.next()?, fields.next()?);
    let file: u64 = fields.nth(2)?.parse().ok()?;
    if access != "r-xp" || file != inode {
        return None;
    }
    let (start, end) = addresses.split_once('-')?;
    let parse = |text| usize::from_str_radix(text, 16).ok();
    Some(parse(start)?..parse(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_out_of_the_program_is_given_back() {
        let line = |access: &str, inode: u64| {
            format!("55e0a000-55e0c000 {access} 00001000 fe:00 {inode}    /usr/bin/gua")
        };
        for (line, expected) in [
            (line("r-xp", 7), Some(0x55e0_a000..0x55e0_c000)),
            (line("r-xp", 8), None),
            // Data of the program; parts of it were written at load time.
            (line("r--p", 7), None),
            (line("rw-p", 7), None),
            (line("rwxp", 7), None),
            (
                "7ffc1000-7ffc3000 r-xp 00000000 00:00 0  [vdso]".to_owned(),
                None,
            ),
            ("55e0a000".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(code(&line, 7), expected, "{line}");
        }
    }

    /// Returns the kilobytes of this program's code that are mapped now.
    fn mapped() -> u64 {
        let inode = fs::metadata("/proc/self/exe").unwrap().ino();
        let map = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = map.lines();
        lines.find(|line| code(line, inode).is_some()).unwrap();
        let size = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
        size.trim().strip_suffix(" kB").unwrap().parse().unwrap()
    }

    #[test]
    fn code_that_is_not_run_again_takes_no_memory() {
        advise(Advice::LinuxPopulateRead);
        let before = mapped();
        give_back();
        let after = mapped();
        // The measurement itself maps code again: in a program as small as this one, more than half.
        assert!(after * 5 < before * 4, "{before} kB, then {after} kB");
    }
}
