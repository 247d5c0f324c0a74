//! Starts a background daemon: this program again, in its own session. The command waits until the first tick is stored or
//! the start has failed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser as _;
use gua_collector::log_file::{self, last_lines};
use gua_collector::managed::{MARK, OWN_ARGUMENT, PidOwner, owner_of};
use gua_collector::pid_file::{PidFile, PidFileError};
use gua_probe::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::board_link::Cloud;
use super::collect::{self, Job, Mode};
use super::{Append, BACKGROUND, history, make_directory_of, observer};
use crate::cli::{BackgroundArgs, CollectArgs, FileArgs};
use crate::config::{FlagValue, Settings, Source};
use crate::dispatch::load;
use crate::duration;
use crate::failure;
use crate::output;

/// Number of log lines that are shown after a failed start.
const SHOWN_LINES: usize = 12;
/// Time allowed for a start in addition to the first read, which has three deadlines of the driver.
const START_ALLOWANCE: Duration = Duration::from_secs(5);
/// Exit code of a daemon that finds the PID file locked.
const ALREADY_RUNNING: u8 = 75;

/// Starts the daemon, unless one is running.
pub fn start(collect: &CollectArgs, files: &FileArgs) -> anyhow::Result<ExitCode> {
    let flags = [collect.settings(), files.settings()].concat();
    let loaded = load(&flags)?;
    let settings = &loaded.settings;
    let pid_file = PidFile::at(&settings.collect.pid_file.value);
    if let Some(pid) = running(&pid_file)? {
        return already_running(pid);
    }
    let append = Append::from(collect.append);
    let place = history::Place::of(&settings.history.db.value, loaded.inputs.home.as_deref());
    place.admit(append)?;
    let cloud = Cloud::of(collect);
    cloud.admit(&loaded)?;
    let log = &settings.collect.log_file.value;
    make_directory_of(pid_file.path())?;
    make_directory_of(log)?;
    let output = log_file::open_to_append(log)
        .with_context(|| format!("cannot write log `{}`", log.display()))?;
    let log_began = output.metadata().map_or(0, |facts| facts.len());
    let limit = settings.driver.deadline.value * 3 + START_ALLOWANCE;
    let mut child = spawn(&arguments(settings, &flags, append, cloud), output)
        .context("cannot start the daemon")?;
    let pid = child.id();
    match wait(&mut child, limit) {
        Start::Ready => {}
        Start::Slow(Stage::DriverAsked) => output::talk(&format!(
            "{BACKGROUND}: the driver has not answered yet; see the log\n"
        )),
        Start::Slow(Stage::DriverAnswered) => output::talk(&format!(
            "{BACKGROUND}: no tick was stored within {}; the log says:\n{}",
            duration::written(limit),
            last_lines(log, SHOWN_LINES, log_began)
        )),
        Start::Ended(status) => {
            // Another start may have won the race.
            if status.code() == Some(ALREADY_RUNNING.into())
                && let Some(pid) = running(&pid_file)?
            {
                return already_running(pid);
            }
            return Ok(failed(status, log, log_began));
        }
    }
    output::data(&format!(
        "{BACKGROUND}: started pid {pid}\n  db: {}\n  log: {}\n  stop: gua stop{}\n",
        place.path().display(),
        log.display(),
        pid_file_flag(settings)
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// The flag that `gua stop` needs to find a daemon with another PID file.
fn pid_file_flag(settings: &Settings) -> String {
    let pid_file = &settings.collect.pid_file;
    if pid_file.source == Source::Default {
        return String::new();
    }
    let path = pid_file.value.to_string_lossy();
    format!(
        " --pid-file {}",
        shlex::try_quote(&path).unwrap_or_default()
    )
}

/// The PID of the running collector. A stale PID file is removed.
fn running(pid_file: &PidFile) -> anyhow::Result<Option<u32>> {
    let Some(pid) = pid_file.read() else {
        return Ok(None);
    };
    match owner_of(pid, pid_file) {
        PidOwner::Managed(_) => return Ok(Some(pid)),
        PidOwner::Dead => {}
        PidOwner::Foreign => output::data(&format!(
            "{BACKGROUND}: pid {pid} belongs to another process; cleared stale pid file\n"
        ))?,
    }
    pid_file.clear(pid);
    Ok(None)
}

fn already_running(pid: u32) -> anyhow::Result<ExitCode> {
    output::data(&format!("{BACKGROUND}: already running (pid {pid})\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Arguments of the daemon: the mark, the history and the given flags. It reads all other settings itself, also on SIGHUP.
fn arguments(
    settings: &Settings,
    flags: &[FlagValue],
    append: Append,
    cloud: Cloud,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![OWN_ARGUMENT.into()];
    words.extend(MARK.map(OsString::from));
    let db = &settings.history.db.value;
    words.extend(["--db".into(), db.clone().into_os_string()]);
    for FlagValue { flag, value, .. } in flags {
        match *flag {
            "--db" => {}
            // Absolute, because `gua status` reads them from the command line in any directory.
            "--log-file" => {
                words.extend([(*flag).into(), absolute(&settings.collect.log_file.value)]);
            }
            "--config" => words.extend([(*flag).into(), absolute(&settings.cloud.config.value)]),
            // A flag without a value.
            "--allow-http" => words.push("--allow-http".into()),
            flag => words.extend([flag.into(), value.clone()]),
        }
    }
    if append == Append::Yes {
        words.push("--append".into());
    }
    words.extend(cloud.flags().iter().map(OsString::from));
    words
}

fn absolute(path: &Path) -> OsString {
    let absolute = std::path::absolute(path);
    absolute.map_or_else(|_| path.as_os_str().to_owned(), OsString::from)
}

/// Starts the daemon. Its standard output is the pipe for the readiness messages.
fn spawn(arguments: &[OsString], log: File) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg0("gua")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
}

#[derive(Debug, PartialEq)]
enum Start {
    Ready,
    /// It is running but has stored nothing in time.
    Slow(Stage),
    Ended(ExitStatus),
}

/// Progress of a slow start.
#[derive(Debug, PartialEq)]
enum Stage {
    DriverAsked,
    DriverAnswered,
}

fn wait(child: &mut Child, limit: Duration) -> Start {
    let mut pipe = child.stdout.take().expect("standard output was piped");
    let (messages, end) = read_messages(&mut pipe, limit);
    let has_sent = |message: &str| messages.lines().any(|line| line == message);
    if has_sent(observer::READY) {
        return Start::Ready;
    }
    if let PipeEnd::Closed = end
        // The pipe was closed before the daemon was ready, so it has ended or is about to end.
        && let Ok(status) = child.wait()
    {
        return Start::Ended(status);
    }
    Start::Slow(match has_sent(observer::ANSWERED) {
        true => Stage::DriverAnswered,
        false => Stage::DriverAsked,
    })
}

/// Why reading the pipe ended.
enum PipeEnd {
    Ready,
    Closed,
    TimedOut,
}

/// Reads the pipe until the daemon is ready, the pipe is closed or the time is over.
fn read_messages(pipe: &mut ChildStdout, limit: Duration) -> (String, PipeEnd) {
    let until = clock::monotonic().saturating_add(limit);
    let mut messages = String::new();
    loop {
        let left = until.saturating_sub(clock::monotonic());
        let mut input = [PollFd::new(&*pipe, PollFlags::IN)];
        match poll(&mut input, Timespec::try_from(left).ok().as_ref()) {
            Ok(0) => return (messages, PipeEnd::TimedOut),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return (messages, PipeEnd::TimedOut),
        }
        let mut buffer = [0; 64];
        match pipe.read(&mut buffer) {
            Ok(0) => return (messages, PipeEnd::Closed),
            Ok(length) => messages.push_str(&String::from_utf8_lossy(&buffer[..length])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return (messages, PipeEnd::Closed),
        }
        if messages.ends_with(&format!("{}\n", observer::READY)) {
            return (messages, PipeEnd::Ready);
        }
    }
}

fn failed(status: ExitStatus, log: &Path, log_began: u64) -> ExitCode {
    let code = match (status.code(), status.signal()) {
        (Some(0), _) | (None, None) => 1,
        (Some(code), _) => u8::try_from(code).unwrap_or(1),
        (None, Some(signal)) => u8::try_from(128 + signal).unwrap_or(1),
    };
    output::talk(&format!(
        "{BACKGROUND}: failed to start (exit {code}); log: {}\n{}",
        log.display(),
        last_lines(log, SHOWN_LINES, log_began)
    ));
    ExitCode::from(code)
}

/// The arguments after the mark if this process is a daemon started by [`start`].
#[must_use]
pub fn own_arguments(arguments: &[OsString]) -> Option<&[OsString]> {
    let (mark, rest) = arguments.get(1..)?.split_at_checked(1 + MARK.len())?;
    let is_ours =
        mark[0] == OWN_ARGUMENT && mark[1..].iter().zip(MARK).all(|(word, own)| word == own);
    is_ours.then_some(rest)
}

/// Runs the daemon. Its standard error goes to the log.
#[must_use]
pub fn serve(arguments: &[OsString]) -> ExitCode {
    // Executed through /proc/self/exe, the process would be named `exe`.
    let _ = rustix::thread::set_name(c"gua");
    // Fails only for a process group leader, which a child is not.
    let _ = rustix::process::setsid();
    daemon(arguments).unwrap_or_else(|error| {
        if let Some(PidFileError::Locked { .. }) = error.downcast_ref() {
            return ALREADY_RUNNING.into();
        }
        failure::report(BACKGROUND, &error)
    })
}

fn daemon(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let starter = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3).context("no standard output")?;
    rustix::stdio::dup2_stdout(io::stderr()).context("no standard error")?;
    let words = std::iter::once(OsString::from(BACKGROUND)).chain(arguments.iter().cloned());
    let args = BackgroundArgs::try_parse_from(words)?;
    let flags = [args.collect.settings(), args.files.settings()].concat();
    let loaded = load(&flags)?;
    collect::run(Job {
        loaded,
        flags,
        typed_db: args.collect.db.clone(),
        append: args.collect.append.into(),
        cloud: Cloud::of(&args.collect),
        mode: Mode::Background {
            starter: File::from(starter),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_judged_by_the_messages_of_the_daemon() {
        let check = |script: &str, limit: u64, expected: Start| {
            let mut child = Command::new("/bin/sh")
                .args(["-c", script])
                // `read` blocks on this pipe, which keeps the process alive.
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let found = wait(&mut child, Duration::from_secs(limit));
            let _ = child.kill();
            let _ = child.wait();
            assert_eq!(found, expected, "{script}");
        };
        let ended = || Start::Ended(ExitStatus::from_raw(3 << 8));
        check("echo answered; echo ready; read line", 60, Start::Ready);
        check("exit 3", 60, ended());
        check("echo answered; exit 3", 60, ended());
        check("read line", 1, Start::Slow(Stage::DriverAsked));
        check(
            "echo answered; read line",
            1,
            Start::Slow(Stage::DriverAnswered),
        );
    }

    #[test]
    fn only_the_whole_mark_makes_a_daemon() {
        let check = |line: &str, expected: Option<usize>| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(
                own_arguments(&words).map(<[OsString]>::len),
                expected,
                "{line}"
            );
        };
        check("gua __collect -m gpu_usage_audit daemon --db x", Some(2));
        check("gua __collect -m gpu_usage_audit daemon", Some(0));
        check("gua __collect -m gpu_usage_audit", None);
        check("gua __collect --db x -m gpu_usage_audit daemon", None);
        check("gua daemon", None);
        check("gua", None);
    }
}
