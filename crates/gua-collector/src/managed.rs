//! Whether a number in a pid file is a collector, and how to end one without ever ending anybody else.
//!
//! The process is pinned by a pidfd before it is looked at (Linux 5.3), so the number cannot be reused in between. A
//! collector is told by three words of its command line, as the Python tool tells its own; they are compared and forgotten.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use gua_probe::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal, test_kill_process,
};

use crate::pid_file::PidFile;

/// The words by which a background collector is known, to us and to the Python tool.
pub const MARK: [&str; 3] = ["-m", "gpu_usage_audit", "daemon"];
/// The word before the mark in our own command line.
pub const OWN_WORD: &str = "__collect";

/// Enough for a command line with long paths in it.
const MOST_BYTES: u64 = 64 * 1024;

/// What a number in a pid file stands for.
#[derive(Debug)]
pub enum Occupant {
    /// There is no such process, or it has ended and waits to be collected.
    Dead,
    /// It lives and is no collector of this pid file.
    Foreign,
    Managed(Managed),
}

/// A living collector.
#[derive(Debug)]
pub struct Managed {
    pub pid: u32,
    pub maker: Maker,
    /// The words after the mark; for our own collectors these are our flags.
    pub arguments: Vec<String>,
    handle: Option<OwnedFd>,
}

/// Whose collector it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    Ours,
    Python,
}

/// How an attempt to end a collector came out.
#[derive(Debug)]
pub enum Stopped {
    Ended,
    StillAlive,
    Refused(io::Error),
}

/// Looks at the process that a pid file names.
#[must_use]
pub fn occupant(pid: u32, file: &PidFile) -> Occupant {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Occupant::Dead;
    };
    let handle = match pidfd_open(number, PidfdFlags::empty()) {
        Ok(handle) => Some(handle),
        Err(Errno::SRCH) => return Occupant::Dead,
        // No such call before Linux 5.3, and filters that forbid it.
        Err(_) => None,
    };
    if test_kill_process(number) == Err(Errno::SRCH) || is_zombie(pid) {
        return Occupant::Dead;
    }
    let words = words_of(Path::new("/proc"), pid).unwrap_or_default();
    match recognise(&words) {
        // Our own lives with the lock of its pid file. Without it, the number belongs to a collector of another file.
        Some((Maker::Ours, _)) if !file.is_held() => Occupant::Foreign,
        Some((maker, arguments)) => Occupant::Managed(Managed {
            pid,
            maker,
            arguments,
            handle,
        }),
        None => Occupant::Foreign,
    }
}

impl Managed {
    /// Asks it to end, and waits for that.
    #[must_use]
    pub fn stop(&self, limit: Duration) -> Stopped {
        match self.signal() {
            Ok(()) => {}
            Err(Errno::SRCH) => return Stopped::Ended,
            Err(error) => return Stopped::Refused(error.into()),
        }
        let until = clock::monotonic().saturating_add(limit);
        loop {
            if self.has_ended() {
                return Stopped::Ended;
            }
            let left = until.saturating_sub(clock::monotonic());
            if left.is_zero() {
                return Stopped::StillAlive;
            }
            self.sleep(left);
        }
    }

    fn signal(&self) -> rustix::io::Result<()> {
        let by_number = || {
            let number = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
            kill_process(number.ok_or(Errno::SRCH)?, Signal::TERM)
        };
        match &self.handle {
            Some(handle) => pidfd_send_signal(handle, Signal::TERM),
            None => by_number(),
        }
    }

    /// Until it ends, or for a moment where the kernel cannot tell us.
    fn sleep(&self, left: Duration) {
        const MOMENT: Duration = Duration::from_millis(100);
        let (mut inputs, limit) = match &self.handle {
            Some(handle) => (vec![PollFd::new(handle, PollFlags::IN)], left),
            None => (Vec::new(), left.min(MOMENT)),
        };
        // Whatever ended the sleep, it is asked next whether the process has ended.
        let _ = poll(&mut inputs, Timespec::try_from(limit).ok().as_ref());
    }

    fn has_ended(&self) -> bool {
        if let Some(handle) = &self.handle {
            let mut inputs = [PollFd::new(handle, PollFlags::IN)];
            return matches!(poll(&mut inputs, Some(&Timespec::default())), Ok(1));
        }
        !Path::new(&format!("/proc/{}", self.pid)).exists() || is_zombie(self.pid)
    }
}

/// Ended, but not collected by its parent yet.
fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name stands in parentheses and may contain any character (proc_pid_stat(5)).
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| state.starts_with(['Z', 'X']))
}

fn words_of(proc: &Path, pid: u32) -> Option<Vec<String>> {
    let mut bytes = Vec::new();
    File::open(proc.join(pid.to_string()).join("cmdline"))
        .ok()?
        .take(MOST_BYTES)
        .read_to_end(&mut bytes)
        .ok()?;
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    Some(bytes.split(|byte| *byte == 0).map(text).collect())
}

fn recognise(words: &[String]) -> Option<(Maker, Vec<String>)> {
    let place = words.windows(MARK.len()).position(|three| three == MARK)?;
    let maker = match place.checked_sub(1).and_then(|before| words.get(before)) {
        Some(word) if word == OWN_WORD => Maker::Ours,
        _ => Maker::Python,
    };
    let after = words.get(place + MARK.len()..).unwrap_or_default();
    Some((maker, after.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<Maker>) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        assert_eq!(
            recognise(&words).map(|(maker, _)| maker),
            expected,
            "{line}"
        );
    }

    #[test]
    fn three_words_in_a_row_make_a_collector() {
        check(
            "/usr/bin/python3 -m gpu_usage_audit daemon --db x",
            Some(Maker::Python),
        );
        check(
            "gua __collect -m gpu_usage_audit daemon --db x",
            Some(Maker::Ours),
        );
        check("python3 -m gpu_usage_audit report", None);
        check("python3 -m gpu_usage_audit --verbose daemon", None);
        check("gua daemon --foreground", None);
        check("", None);
    }

    #[test]
    fn a_number_without_a_process_is_dead_and_this_test_is_foreign() {
        let file = PidFile::at(Path::new("/nonexistent/gua.pid"));
        assert!(matches!(occupant(u32::MAX, &file), Occupant::Dead));
        assert!(matches!(occupant(0x3fff_fff0, &file), Occupant::Dead));
        assert!(matches!(
            occupant(std::process::id(), &file),
            Occupant::Foreign
        ));
    }

    #[test]
    fn what_has_ended_and_was_not_collected_is_dead() {
        let file = PidFile::at(Path::new("/nonexistent/gua.pid"));
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        poll(&mut [PollFd::new(&handle, PollFlags::IN)], None).unwrap();
        assert!(matches!(occupant(child.id(), &file), Occupant::Dead));
        child.wait().unwrap();
    }
}
