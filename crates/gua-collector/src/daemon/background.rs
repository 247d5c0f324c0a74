//! The background daemon: this program again, in its own session. The command that starts it waits until the first tick is
//! stored or the start has failed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use gua_probe::clock;
use gua_settings::{FlagValue, Settings};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::observer::{ANSWERED, NOTE, READY};
use super::{Append, Cloud};
use crate::managed::{MARK, Managed, OWN_ARGUMENT};

/// Arguments of the daemon: the mark, the history and the given flags. It reads all other settings itself, also on SIGHUP.
pub fn arguments(
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
        match flag.as_str() {
            "--db" => {}
            // Absolute, because `gua status` reads them from the command line in any directory.
            "--log-file" => {
                words.extend([flag.into(), absolute(&settings.collect.log_file.value)]);
            }
            "--config" => words.extend([flag.into(), absolute(&settings.cloud.config.value)]),
            // A flag without a value.
            "--allow-http" => words.push("--allow-http".into()),
            _ => words.extend([flag.into(), value.clone()]),
        }
    }
    if append == Append::Yes {
        words.push("--append".into());
    }
    words.extend(cloud.flags().iter().map(OsString::from));
    words
}

/// The given options, with their values, that a running daemon was started without.
pub fn not_applied(
    settings: &Settings,
    flags: &[FlagValue],
    cloud: Cloud,
    running: &Managed,
) -> Vec<String> {
    let running = options(running.arguments.iter().map(String::as_str));
    let wanted = arguments(settings, flags, Append::No, cloud);
    let wanted: Vec<_> = wanted.iter().map(|word| word.to_string_lossy()).collect();
    let is_given = |option: &String| {
        let name = option.split(' ').next();
        let mut names = flags.iter().map(|flag| flag.flag.as_str());
        cloud.flags().contains(&option.as_str()) || names.any(|given| Some(given) == name)
    };
    let mut wanted = options(wanted.iter().map(|word| &**word));
    wanted.retain(|option| is_given(option) && !running.contains(option));
    wanted
}

/// Joins each option with its value.
fn options<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    // The last argument of a command line ends with a zero byte, after which there is an empty word.
    for word in words.filter(|word| !word.is_empty()) {
        match options.last_mut() {
            Some(option) if !word.starts_with("--") => *option += &format!(" {word}"),
            _ => options.push(word.to_owned()),
        }
    }
    options
}

fn absolute(path: &Path) -> OsString {
    let absolute = std::path::absolute(path);
    absolute.map_or_else(|_| path.as_os_str().to_owned(), OsString::from)
}

/// Starts the daemon. Its standard output is the pipe for the readiness messages.
pub fn spawn(arguments: &[OsString], log: File) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg0("gua")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
}

/// Result of waiting for a started daemon.
#[derive(Debug, PartialEq)]
pub enum Start {
    Ready,
    /// The daemon is running, but the driver has not answered in time.
    DriverAsked,
    /// The driver has answered but nothing was stored in time.
    DriverAnswered,
    Ended(ExitStatus),
}

/// Waits until the first tick is stored, the start has failed or the time is over. Messages for the user go to `show`.
pub fn wait(child: &mut Child, limit: Duration, show: &mut dyn FnMut(&str)) -> Start {
    let mut pipe = child.stdout.take().expect("standard output was piped");
    let (messages, is_closed) = read_messages(&mut pipe, limit);
    for note in messages.lines().filter_map(|line| line.strip_prefix(NOTE)) {
        show(note);
    }
    let has_sent = |message: &str| messages.lines().any(|line| line == message);
    if has_sent(READY) {
        return Start::Ready;
    }
    // A daemon that closes the pipe before it is ready has ended or is about to end.
    if is_closed && let Ok(status) = child.wait() {
        return Start::Ended(status);
    }
    match has_sent(ANSWERED) {
        true => Start::DriverAnswered,
        false => Start::DriverAsked,
    }
}

/// Reads the pipe until the daemon is ready, the pipe is closed or the time is over. Returns whether it is closed.
fn read_messages(pipe: &mut ChildStdout, limit: Duration) -> (String, bool) {
    let until = clock::monotonic().saturating_add(limit);
    let mut messages = String::new();
    while !messages.ends_with(&format!("{READY}\n")) {
        let left = until.saturating_sub(clock::monotonic());
        let mut input = [PollFd::new(&*pipe, PollFlags::IN)];
        match poll(&mut input, Timespec::try_from(left).ok().as_ref()) {
            Ok(1..) | Err(rustix::io::Errno::INTR) => {}
            Ok(0) | Err(_) => return (messages, false),
        }
        let mut buffer = [0; 64];
        match pipe.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return (messages, true),
            Ok(length) => messages.push_str(&String::from_utf8_lossy(&buffer[..length])),
        }
    }
    (messages, false)
}

/// The arguments after the mark if this process is a daemon started by [`spawn`].
pub fn own_arguments(arguments: &[OsString]) -> Option<&[OsString]> {
    let (mark, rest) = arguments.get(1..)?.split_at_checked(1 + MARK.len())?;
    let is_ours =
        mark[0] == OWN_ARGUMENT && mark[1..].iter().zip(MARK).all(|(word, own)| word == own);
    is_ours.then_some(rest)
}

/// Makes this process the daemon. Returns the pipe to the command that started it; standard output goes to the log.
pub fn become_daemon() -> io::Result<File> {
    // Executed through /proc/self/exe, the process would be named `exe`.
    let _ = rustix::thread::set_name(c"gua");
    // Fails only for a process group leader, which a child is not.
    let _ = rustix::process::setsid();
    let starter = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(File::from(starter))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

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
            let mut notes = Vec::new();
            let found = wait(&mut child, Duration::from_secs(limit), &mut |note| {
                notes.push(note.to_owned());
            });
            assert_eq!(notes.is_empty(), !script.contains("note "), "{notes:?}");
            let _ = child.kill();
            let _ = child.wait();
            assert_eq!(found, expected, "{script}");
        };
        let ended = || Start::Ended(ExitStatus::from_raw(3 << 8));
        check("echo answered; echo ready; read line", 60, Start::Ready);
        check(
            "echo answered; echo note taken over; echo ready; read line",
            60,
            Start::Ready,
        );
        check("exit 3", 60, ended());
        check("echo answered; exit 3", 60, ended());
        check("read line", 1, Start::DriverAsked);
        check("echo answered; read line", 1, Start::DriverAnswered);
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
