//! Parsers for the text formats of the kernel and the host. They are strict, pure functions on bytes that never panic
//! and never guess.

use std::collections::HashMap;

use gua_model::Bytes;
use gua_model::text::sanitize;

use super::cgroup;
pub use super::cgroup::CgroupFacts;

/// Login uid of a process without a login: all ones.
const NO_LOGIN: u32 = u32::MAX;

/// Maximum length of a process's short name (`TASK_COMM_LEN` less the closing NUL in `linux/sched.h`).
const MAX_COMM_LENGTH: usize = 15;

/// Maximum length of a user name.
const MAX_NAME_LENGTH: usize = 256;

/// Numbers in `/proc/PID/stat` (proc_pid_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Field 3, the state as one character; that of the first thread only.
    pub state: u8,
    /// Field 4, the pid of the parent; 0 if it has none that is visible.
    pub parent: u32,
    /// Field 6, the session; 0 if it began outside of this pid namespace. The kernel shows a process that is just ending
    /// with -1, which is 0 here.
    pub session: u32,
    /// Fields 14 and 15: user and system time of the process alone, in clock ticks.
    pub own_ticks: u64,
    /// Fields 14 to 17: user and system time of the process and of its children that it has waited for, in clock ticks.
    pub ticks: u64,
    /// Field 20.
    pub threads: u64,
    /// Field 22, in clock ticks since boot.
    pub start: u64,
    /// Field 24: resident memory, in pages.
    pub resident_pages: u64,
}

impl Stat {
    /// Returns the resident memory.
    pub fn resident(&self) -> Bytes {
        let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
        Bytes(self.resident_pages.saturating_mul(page))
    }

    /// Reports whether the process has ended. One whose first thread has ended is shown as a zombie while its other
    /// threads still run and hold its files.
    pub fn has_ended(&self) -> bool {
        match self.state {
            b'X' | b'x' => true,
            b'Z' => self.threads <= 1,
            _ => false,
        }
    }
}

/// Parses `/proc/PID/stat`: the short name as the kernel wrote it (any bytes, including brackets and blanks), and the
/// numbers. The name can contain `)`, so the fields after it begin at the last one.
pub fn stat(text: &[u8]) -> Option<(&[u8], Stat)> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let comm = text.get(open + 1..close)?;
    // The first field after the name is number 3; `nth` counts from the last one that was taken.
    let mut fields = words(&text[close + 1..]);
    let state = *fields.next()?.first()?;
    let parent = number(fields.next()?)?.try_into().ok()?;
    let session = match fields.nth(6 - 5)? {
        b"-1" => 0,
        digits => number(digits)?.try_into().ok()?,
    };
    let user = number(fields.nth(14 - 7)?)?;
    let own_ticks = user.saturating_add(number(fields.next()?)?);
    let mut ticks = own_ticks;
    for _ in 16..=17 {
        ticks = ticks.saturating_add(number(fields.next()?)?);
    }
    let stat = Stat {
        state,
        parent,
        session,
        own_ticks,
        ticks,
        threads: number(fields.nth(20 - 18)?)?,
        start: number(fields.nth(22 - 21)?)?,
        resident_pages: number(fields.nth(24 - 23)?)?,
    };
    Some((comm, stat))
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

/// Parses `/proc/PID/io`: bytes that a process, with its children that it has waited for, has read from and written to
/// storage.
pub fn storage(text: &[u8]) -> Option<(u64, u64)> {
    let value = |name: &[u8]| {
        text.split(|byte| *byte == b'\n')
            .find_map(|line| line.strip_prefix(name))
            .and_then(|rest| number(rest.trim_ascii()))
    };
    Some((value(b"read_bytes:")?, value(b"write_bytes:")?))
}

/// Users of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uids {
    pub real: u32,
    pub effective: u32,
    /// Whether the process can change its user without another exec: it has a second user to return to, or the
    /// permission (`CAP_SETUID`, capabilities(7)).
    pub can_change: bool,
}

/// Parses the `Uid:` and `CapPrm:` lines of `/proc/PID/status`.
pub fn status_uids(text: &[u8]) -> Option<Uids> {
    const CAP_SETUID: u64 = 1 << 7;
    // The `Name:` line above cannot imitate them: the kernel escapes newlines there.
    let line = |name: &[u8]| {
        let mut lines = text.split(|byte| *byte == b'\n');
        lines.find_map(|line| line.strip_prefix(name))
    };
    let uids: Option<Vec<u32>> = words(line(b"Uid:")?).map(uid).collect();
    let uids = uids?;
    let permitted = line(b"CapPrm:")
        .and_then(|line| std::str::from_utf8(line.trim_ascii()).ok())
        .and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let effective = *uids.get(1)?;
    Some(Uids {
        real: uids[0],
        effective,
        can_change: uids.iter().any(|uid| *uid != effective)
            || permitted.is_none_or(|bits| bits & CAP_SETUID != 0),
    })
}

/// Parses `/proc/PID/loginuid` or `sessionid`; the inner `None` means that the process has no login.
pub fn loginuid(text: &[u8]) -> Option<Option<u32>> {
    let value: u32 = number(text.trim_ascii())?.try_into().ok()?;
    Some((value != NO_LOGIN).then_some(value))
}

/// Parses `/proc/PID/cgroup`.
pub fn cgroup(text: &[u8]) -> CgroupFacts {
    cgroup::parse(&String::from_utf8_lossy(text))
}

/// Parses one line of a passwd file. Comments and the `+` and `-` lines of NIS have no user.
pub fn passwd_line(line: &[u8]) -> Option<(u32, String)> {
    let mut fields = line.split(|byte| *byte == b':');
    let name = fields.next()?;
    if matches!(name.first()?, b'#' | b'+' | b'-') {
        return None;
    }
    let uid = uid(fields.nth(1)?)?;
    Some((uid, user_name(&String::from_utf8_lossy(name))?))
}

/// Parses a passwd file. Of two lines with one uid the first counts, as for the C library.
pub fn passwd_file(text: &[u8]) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for (uid, name) in text.split(|byte| *byte == b'\n').filter_map(passwd_line) {
        names.entry(uid).or_insert(name);
    }
    names
}

/// Returns a process's short name, safe to display; `None` if it is empty.
pub fn comm(raw: &[u8]) -> Option<String> {
    let raw = &raw[..raw.len().min(MAX_COMM_LENGTH)];
    shown(&String::from_utf8_lossy(raw), MAX_COMM_LENGTH)
}

/// Returns a user's name, safe to display; `None` if it is empty.
pub fn user_name(raw: &str) -> Option<String> {
    shown(raw, MAX_NAME_LENGTH)
}

/// Replaces characters of untrusted text that would move the cursor, change the writing direction or be invisible by
/// the replacement character, one for one.
fn shown(raw: &str, longest: usize) -> Option<String> {
    let text = sanitize(&raw.trim().chars().take(longest).collect::<String>());
    (!text.is_empty()).then_some(text)
}

fn uid(digits: &[u8]) -> Option<u32> {
    number(digits)?
        .try_into()
        .ok()
        .filter(|uid| *uid != NO_LOGIN)
}

/// Parses digits only: no sign, no blank.
fn number(digits: &[u8]) -> Option<u64> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stat_of(comm: &[u8]) -> Vec<u8> {
        let mut text = b"4711 (".to_vec();
        text.extend_from_slice(comm);
        text.extend_from_slice(
            b") S 1 4711 4711 0 -1 4194304 95 0 0 0 0 0 0 0 20 0 1 0 98765 2973696 441 184467\n",
        );
        text
    }

    #[test]
    fn the_start_time_is_found_behind_any_name() {
        for comm in [
            &b"python3"[..],
            b"",
            b") R 1 2 3",
            b"a (b) c",
            b"((()))",
            b"tmux: server",
            b"\xff\xfe\n\x1b[2J",
        ] {
            let text = stat_of(comm);
            let found = stat(&text).map(|(comm, stat)| (comm, stat.start));
            assert_eq!(found, Some((comm, 98765)), "{comm:?}");
        }
    }

    #[test]
    fn a_truncated_stat_line_is_an_error() {
        let text = stat_of(b"python3");
        let start = text.windows(6).position(|part| part == b" 98765").unwrap();
        for end in 0..=start {
            assert_eq!(stat(&text[..end]), None, "{end}");
        }
        assert_eq!(stat(b")("), None);
        assert_eq!(
            stat(b"1 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 -5 0"),
            None
        );
    }

    #[test]
    fn the_uid_is_the_effective_one() {
        let check = |text: &str, uid| {
            let found = status_uids(text.as_bytes()).map(|uids| uids.effective);
            assert_eq!(found, uid, "{text:?}");
        };
        check(
            "Name:\tpasswd\nUmask:\t0022\nUid:\t1000\t0\t0\t0\nGid:\t1000\t1000\t1000\t1000\n",
            Some(0),
        );
        check("Name:\tsleep\nUid:\t1000\t1001\t1002\t1003\n", Some(1001));
        check("Name:\tUid:\t1\t2\nUid:\t5\t6\t7\t8\n", Some(6));
        let can_change = |text: &str| status_uids(text.as_bytes()).unwrap().can_change;
        let user = "Uid:\t1000\t1000\t1000\t1000\n";
        assert!(!can_change(&format!("{user}CapPrm:\t0000000000000000\n")));
        assert!(can_change(&format!("{user}CapPrm:\t0000000000000080\n")));
        assert!(can_change(user));
        assert!(can_change("Uid:\t1000\t1000\t0\t1000\nCapPrm:\t0\n"));
        check("Uid:\t1000\n", None);
        check("Uid:\t1000\t-1\t0\t0\n", None);
        check("Uid:\t1000\t4294967295\t0\t0\n", None);
        check("", None);
    }

    #[test]
    fn a_login_uid_of_all_ones_is_no_login() {
        let check = |text: &str, login| assert_eq!(loginuid(text.as_bytes()), login, "{text:?}");
        check("1000", Some(Some(1000)));
        check("0\n", Some(Some(0)));
        check("4294967295", Some(None));
        check("4294967296", None);
        check("-1", None);
        check("+1", None);
        check("", None);
        check("ada", None);
    }

    #[test]
    fn a_passwd_file_gives_the_first_name_of_each_uid() {
        let text = b"root:x:0:0:root:/root:/bin/bash\ntoor:x:0:0::/root:/bin/sh\n# ada:x:7:7::/:/bin/sh\n\
            ada:x:1000:1000:Ada,,,:/home/ada:/bin/zsh\n+::::::\n+nis:x:8:8::/:\n:x:9:9::/:\nshort:x\nbad:x:minus:0::/:\n\
            evil\x1b[2J:x:1001:1001::/:/bin/sh\nlast:x:1002:1002::/:/bin/sh";
        let mut names: Vec<_> = passwd_file(text).into_iter().collect();
        names.sort();
        let expected = [
            (0, "root"),
            (1000, "ada"),
            (1001, "evil\u{fffd}[2J"),
            (1002, "last"),
        ];
        assert_eq!(names, expected.map(|(uid, name)| (uid, name.to_owned())));
    }

    #[test]
    fn a_name_cannot_command_a_terminal() {
        let check = |raw: &[u8], expected: Option<&str>| {
            assert_eq!(comm(raw).as_deref(), expected, "{raw:?}");
        };
        check(b"python3", Some("python3"));
        check(b"  tmux: server\n", Some("tmux: server"));
        check(b"\x1b[2J\x07", Some("\u{fffd}[2J\u{fffd}"));
        check("a\u{202e}b\u{200b}".as_bytes(), Some("a\u{fffd}b\u{fffd}"));
        check(b"a\xffb", Some("a\u{fffd}b"));
        check(b"exactly15 bytes", Some("exactly15 bytes"));
        check(b"more than fifteen bytes", Some("more than fifte"));
        check(b"", None);
        check(b" \n", None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_parser_panic(bytes: Vec<u8>) {
            let _ = (stat(&bytes), status_uids(&bytes), loginuid(&bytes), cgroup(&bytes), passwd_file(&bytes));
            let _ = storage(&bytes);
            let name = comm(&bytes).unwrap_or_default();
            prop_assert!(name.chars().count() <= MAX_COMM_LENGTH);
            prop_assert!(!name.chars().any(gua_model::text::is_harmful));
        }

        #[test]
        fn any_name_in_brackets_leaves_the_start_time_alone(name in prop::collection::vec(any::<u8>(), 0..15)) {
            let text = stat_of(&name);
            let found = stat(&text).map(|(comm, stat)| (comm, stat.start));
            prop_assert_eq!(found, Some((&name[..], 98765)));
        }

        #[test]
        fn nearly_right_text_does_not_make_a_parser_panic(text in "(Uid:|[0-9]+|[():\t\n /_.-]|slice|pod|job_|x){0,40}") {
            let bytes = text.as_bytes();
            let _ = (stat(bytes), status_uids(bytes), loginuid(bytes), cgroup(bytes), passwd_file(bytes));
            let _ = storage(bytes);
        }
    }
}
