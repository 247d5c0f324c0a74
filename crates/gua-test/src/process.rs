//! Real processes: commands that ended, daemons in the foreground, and sleepers that hold a simulated GPU.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::wait::now;

/// The result of a command.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    /// The exit code, or the negative number of the signal that ended the process.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: code(output.status),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }
}

/// The exit code, or the negative number of the signal.
fn code(status: ExitStatus) -> i32 {
    let signal = || status.signal().map(|signal| -signal);
    status.code().or_else(signal).unwrap()
}

impl Ended {
    /// Standard output of a command that must have succeeded.
    #[track_caller]
    pub fn success(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(self) -> serde_json::Value {
        let text = self.success();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

/// A process in the foreground whose output goes to files. Killed on drop.
#[derive(Debug)]
pub struct Running {
    pub child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    /// Starts a command with its output in `out` and `err`.
    pub(crate) fn start(mut command: Command, out: PathBuf, err: PathBuf) -> Self {
        let child = command
            .stdout(std::fs::File::create(&out).unwrap())
            .stderr(std::fs::File::create(&err).unwrap())
            .spawn()
            .unwrap();
        Self { child, out, err }
    }

    pub fn signal(&self, signal: Signal) {
        send(self.child.id(), signal);
    }

    pub fn stdout(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap()
    }

    pub fn stderr(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap()
    }

    /// Sends SIGTERM and waits; the process must exit with 0. Returns how long that took.
    #[track_caller]
    pub fn stop(&mut self) -> Duration {
        let sent = now();
        self.signal(Signal::TERM);
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{}", self.stderr());
        now() - sent
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A real process that sleeps. Killed on drop.
#[derive(Debug)]
pub struct Sleeper(Child);

impl Sleeper {
    pub fn new() -> Self {
        Self::with(&["600"])
    }

    /// `sleep` with these arguments, for tests that look at a command line.
    pub fn with(arguments: &[&str]) -> Self {
        let mut command = Command::new("sleep");
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    #[must_use]
    pub fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Waits for the end and returns the code of [`Ended`].
    #[must_use]
    pub fn wait(&mut self) -> i32 {
        code(self.0.wait().unwrap())
    }
}

impl Default for Sleeper {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

/// The process may have ended already; nothing more can be done about it then.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Sends a signal to a process that exists.
pub fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Whether a process exists and is not a zombie.
pub fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ");
    state.is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
