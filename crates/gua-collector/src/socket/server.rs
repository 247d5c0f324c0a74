//! The reader process of the service: accepts connections and starts a process for each question.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use gua_model::Uid;
use gua_model::failure_log::FailureLog;
use gua_model::subuid::SubUids;
use gua_probe::clock;
use gua_probe::process::sub_uids;
use gua_settings::Loaded;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use tracing::{error, info, warn};

use super::message::{MAX_ANSWER, Outcome, write};
use super::worker::ANSWER_ARGUMENT;
use crate::log;

/// First argument of the reader process; the second is the history, and the third, if any, is [`Ends::WithParent`]'s.
pub const ANSWERS_ARGUMENT: &str = "__answers";
const WITH_PARENT: &str = "--with-parent";

/// Maximum number of questions of one person at a time, with all uids of their containers.
const MAX_OF_USER: usize = 4;
/// Maximum number of questions at a time. More than one user can have, so that one user cannot keep out the others.
const MAX_WORKERS: usize = 16;
/// A reader that systemd started ends after this time without a question; systemd starts it again for the next one.
const IDLE: Duration = Duration::from_secs(60);
/// Maximum delay before a finished process makes room for another.
const STEP: Duration = Duration::from_millis(50);

/// Condition that ends a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// After a time without questions: systemd holds the socket and starts it again.
    WhenIdle,
    /// With the daemon that started it.
    WithParent,
}

/// Answers questions about a history that arrive on standard input, a listening socket. `log` writes to standard error.
pub fn serve_stdin(arguments: &[OsString], log: fn(&str)) -> ExitCode {
    log::start(log::Form::of_server(&Loaded::of_this_process(&[])), log);
    let Some(db) = arguments.first() else {
        return ExitCode::from(2);
    };
    let ends = match arguments.get(1).is_some_and(|word| word == WITH_PARENT) {
        true => Ends::WithParent,
        false => Ends::WhenIdle,
    };
    match serve(Path::new(db), ends) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(%error, "cannot answer questions about the history");
            ExitCode::FAILURE
        }
    }
}

fn serve(db: &Path, ends: Ends) -> io::Result<()> {
    if ends == Ends::WithParent {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // The parent may have ended before the call.
        if getppid().is_none_or(|parent| parent.is_init()) {
            return Ok(());
        }
    }
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    let subuids = sub_uids();
    let mut working = Vec::new();
    let mut failures = FailureLog::default();
    let mut last_question = clock::monotonic();
    loop {
        working.retain_mut(|(_, child): &mut (Uid, Child)| matches!(child.try_wait(), Ok(None)));
        let wait = match working.is_empty() {
            true => IDLE,
            false => STEP,
        };
        if is_ready(&listener, wait)? {
            let admitted = listener
                .accept()
                .and_then(|(stream, _)| admit(stream, db, &subuids, &mut working));
            match failures.change(&admitted) {
                Some(Ok(failures)) => info!(failures, "questions are answered again"),
                Some(Err(error)) => warn!(%error, "cannot answer a question"),
                None => {}
            }
            if admitted.is_err() {
                // For example, no file descriptor is free. An immediate retry would be a busy loop.
                thread::sleep(STEP);
            }
            last_question = clock::monotonic();
        }
        let idle = clock::monotonic().saturating_sub(last_question);
        if ends == Ends::WhenIdle && working.is_empty() && idle >= IDLE {
            return Ok(());
        }
    }
}

fn is_ready(listener: &UnixListener, wait: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(wait).map_err(io::Error::other)?;
    let mut watched = [PollFd::new(listener, PollFlags::IN)];
    match poll(&mut watched, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether another question of a person would be too many beside those of `working`.
fn is_too_many<T>(person: Uid, working: &[(Uid, T)]) -> bool {
    let of_person = working.iter().filter(|(of, _)| *of == person).count();
    of_person >= MAX_OF_USER || working.len() >= MAX_WORKERS
}

/// Starts a process for the question, unless too many are running for the person. On an error the connection is closed,
/// which the client reports.
fn admit(
    mut stream: UnixStream,
    db: &Path,
    subuids: &SubUids,
    working: &mut Vec<(Uid, Child)>,
) -> io::Result<()> {
    let peer = socket_peercred(&stream)?;
    let person = subuids.person(Uid(peer.uid.as_raw()));
    if is_too_many(person, working) {
        // A few bytes fit into the buffer of any socket; a client that does not read them loses only them.
        let _ = stream.set_nonblocking(true);
        let _ = write(&mut stream, &Outcome::Busy, MAX_ANSWER);
        return Ok(());
    }
    let child = Command::new("/proc/self/exe")
        .arg0("gua")
        .arg(ANSWER_ARGUMENT)
        .arg(db)
        .stdin(OwnedFd::from(stream))
        .stdout(Stdio::null())
        .spawn()?;
    working.push((person, child));
    Ok(())
}

/// Opens a socket that everyone may connect to. `None` if another process already answers there, also one that this user may
/// not ask.
pub(crate) fn listen(socket: &Path) -> io::Result<Option<UnixListener>> {
    match UnixStream::connect(socket) {
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        Err(_) => {}
    }
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    fs::set_permissions(socket, fs::Permissions::from_mode(0o666))?;
    Ok(Some(listener))
}

/// A reader that a daemon started because systemd did not.
#[derive(Debug)]
pub struct Reader {
    socket: PathBuf,
    listener: UnixListener,
    db: PathBuf,
    /// Form of the reader's log, which is the daemon's.
    log: log::Form,
    child: Option<Child>,
}

impl Reader {
    /// Opens the socket to everyone and starts the reader. `None` if another process already answers there, also one
    /// that this user may not ask.
    pub fn start(socket: &Path, db: &Path, log: log::Form) -> io::Result<Option<Self>> {
        let Some(listener) = listen(socket)? else {
            return Ok(None);
        };
        let mut reader = Self {
            socket: socket.to_owned(),
            listener,
            db: std::path::absolute(db)?,
            log,
            child: None,
        };
        reader.keep()?;
        Ok(Some(reader))
    }

    /// Starts the reader again if it has ended.
    pub fn keep(&mut self) -> io::Result<()> {
        let is_running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        if self.child.as_mut().is_some_and(is_running) {
            return Ok(());
        }
        let listener = self.listener.as_fd().try_clone_to_owned()?;
        let child = Command::new("/proc/self/exe")
            .arg0("gua")
            .arg(ANSWERS_ARGUMENT)
            .arg(&self.db)
            .arg(WITH_PARENT)
            .env("GUA_LOG_FORMAT", self.log.setting())
            .stdin(listener)
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        self.child = Some(child);
        Ok(())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // The socket first: nobody connects to a reader that is about to end.
        let _ = fs::remove_file(&self.socket);
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_containers_of_a_person_share_the_limit_of_that_person() {
        let subuids = SubUids::parse("ada:100000:65536", |_| Some(Uid(1000)));
        let person = |uid: u32| subuids.person(Uid(uid));
        let working: Vec<(Uid, ())> = (100_000..100_004).map(|uid| (person(uid), ())).collect();
        for uid in [1000, 100_000, 165_535] {
            assert!(is_too_many(person(uid), &working), "{uid}");
        }
        assert!(!is_too_many(person(1001), &working));
        let full: Vec<(Uid, ())> = (1..=16).map(|uid| (Uid(uid), ())).collect();
        assert!(is_too_many(person(1001), &full));
    }
}
