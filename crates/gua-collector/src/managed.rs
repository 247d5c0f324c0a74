//! Checks whether the PID in a PID file belongs to a collector, and stops a collector without ever signalling another
//! process.
//!
//! A pidfd is opened before the process is examined (Linux 5.3), so the PID cannot be reused in between. A collector is
//! recognised by three arguments of its command line, as the Python tool recognises its own; they are not stored.

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

/// Arguments that mark a background collector, for gua and for the Python tool.
pub const MARK: [&str; 3] = ["-m", "gpu_usage_audit", "daemon"];
/// Argument before the mark in the command line of gua's own collector.
pub const OWN_ARGUMENT: &str = "__collect";

/// Maximum length of a command line that is read.
const MAX_BYTES: u64 = 64 * 1024;

/// The process behind the PID in a PID file.
#[derive(Debug)]
pub enum PidOwner {
    /// No such process, or a zombie.
    Dead,
    /// A live process that is not the collector of this PID file.
    Foreign,
    Managed(Managed),
}

/// A running collector.
#[derive(Debug)]
pub struct Managed {
    pub pid: u32,
    pub maker: Maker,
    /// Arguments after the mark; for gua's own collectors these are gua's flags.
    pub arguments: Vec<String>,
    handle: Option<OwnedFd>,
}

/// Program that the collector belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    Ours,
    Python,
}

/// Result of an attempt to stop a collector.
#[derive(Debug)]
pub enum Stopped {
    Ended,
    StillAlive,
    Refused(io::Error),
}

/// Examines the process with the PID from a PID file.
pub fn owner_of(pid: u32, file: &PidFile) -> PidOwner {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return PidOwner::Dead;
    };
    let handle = match pidfd_open(number, PidfdFlags::empty()) {
        Ok(handle) => Some(handle),
        Err(Errno::SRCH) => return PidOwner::Dead,
        // The call is missing before Linux 5.3, and seccomp filters may forbid it.
        Err(_) => None,
    };
    if test_kill_process(number) == Err(Errno::SRCH) || is_zombie(pid) {
        return PidOwner::Dead;
    }
    let arguments = command_line(Path::new("/proc"), pid).unwrap_or_default();
    match recognise(&arguments) {
        // gua's collector keeps its PID file locked. If it is not, this process uses another PID file.
        Some((Maker::Ours, _)) if !file.is_locked() => PidOwner::Foreign,
        Some((maker, arguments)) => PidOwner::Managed(Managed {
            pid,
            maker,
            arguments,
            handle,
        }),
        None => PidOwner::Foreign,
    }
}

impl Managed {
    /// Value of a flag on the command line of gua's own collector.
    pub fn argument(&self, flag: &str) -> Option<&str> {
        let words = (self.maker == Maker::Ours).then_some(&self.arguments)?;
        let mut words = words.iter().skip_while(|word| *word != flag);
        words.nth(1).map(String::as_str)
    }

    /// Sends SIGTERM and waits for the end of the process.
    pub fn stop(&self, limit: Duration) -> Stopped {
        match self.signal() {
            Ok(()) => {}
            Err(Errno::SRCH) => return Stopped::Ended,
            Err(error) => return Stopped::Refused(error.into()),
        }
        let until = clock::monotonic().saturating_add(limit);
        loop {
            let left = until.saturating_sub(clock::monotonic());
            if self.ends_within(left) {
                return Stopped::Ended;
            }
            if left.is_zero() {
                return Stopped::StillAlive;
            }
        }
    }

    fn signal(&self) -> rustix::io::Result<()> {
        if let Some(handle) = &self.handle {
            return pidfd_send_signal(handle, Signal::TERM);
        }
        let number = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        kill_process(number.ok_or(Errno::SRCH)?, Signal::TERM)
    }

    /// Waits for the end of the process; without a pidfd, for a short polling interval at most.
    fn ends_within(&self, left: Duration) -> bool {
        const POLL_INTERVAL: Duration = Duration::from_millis(100);
        let Some(handle) = &self.handle else {
            std::thread::sleep(left.min(POLL_INTERVAL));
            return is_zombie(self.pid) || !Path::new(&format!("/proc/{}", self.pid)).exists();
        };
        let mut inputs = [PollFd::new(handle, PollFlags::IN)];
        let limit = Timespec::try_from(left).ok();
        matches!(poll(&mut inputs, limit.as_ref()), Ok(1))
    }
}

/// Whether the process has ended and was not reaped yet.
fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name is in parentheses and may contain any character (proc_pid_stat(5)).
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| state.starts_with(['Z', 'X']))
}

pub(crate) fn command_line(proc: &Path, pid: u32) -> Option<Vec<String>> {
    let mut bytes = Vec::new();
    File::open(proc.join(pid.to_string()).join("cmdline"))
        .ok()?
        .take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .ok()?;
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    Some(bytes.split(|byte| *byte == 0).map(text).collect())
}

fn recognise(arguments: &[String]) -> Option<(Maker, Vec<String>)> {
    let place = arguments
        .windows(MARK.len())
        .position(|three| three == MARK)?;
    let maker = match place
        .checked_sub(1)
        .and_then(|before| arguments.get(before))
    {
        Some(word) if word == OWN_ARGUMENT => Maker::Ours,
        _ => Maker::Python,
    };
    let after = arguments.get(place + MARK.len()..).unwrap_or_default();
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
    fn three_consecutive_arguments_mark_a_collector() {
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
    fn a_pid_without_a_process_is_dead_and_this_test_is_foreign() {
        let file = PidFile::at(Path::new("/nonexistent/gua.pid"));
        assert!(matches!(owner_of(u32::MAX, &file), PidOwner::Dead));
        assert!(matches!(owner_of(0x3fff_fff0, &file), PidOwner::Dead));
        assert!(matches!(
            owner_of(std::process::id(), &file),
            PidOwner::Foreign
        ));
    }

    #[test]
    fn a_zombie_is_dead() {
        let file = PidFile::at(Path::new("/nonexistent/gua.pid"));
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        poll(&mut [PollFd::new(&handle, PollFlags::IN)], None).unwrap();
        assert!(matches!(owner_of(child.id(), &file), PidOwner::Dead));
        child.wait().unwrap();
    }
}
