//! `gua board link`: a member of a board proves that a user name of this host is theirs.
//!
//! The board accepts such a proof only with the host's token, which belongs to root and the service. Everyone else connects to
//! a socket of the collector and sends the code from the board's page. The collector passes it to the board with the name of
//! the user who connected, which it learns from the kernel (`SO_PEERCRED`, unix(7)). A request contains no user name, so nobody
//! can link the name of another user.
//!
//! Everyone can connect, so a request costs little: one thread for at most a few people at a time, a short message, a time
//! limit for the whole exchange, and a look-up of the name with a time limit of its own.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use gua_model::Uid;
use gua_model::chain::chain;
use gua_model::failure::Failure;
use gua_model::failure_log::FailureLog;
use gua_model::subuid::SubUids;
use gua_model::text::sanitize;
use gua_probe::process::name_in_directory;
use gua_wire::Token;
use gua_wire::users::UserPolicy;
use rustix::net::sockopt::socket_peercred;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::client::CallError;
use super::enrolment::{Enrolled, Enrolment};
use crate::lock;
use crate::socket::listen;
use crate::socket::message::{read, write};
use crate::timed_stream::TimedStream;

/// Maximum size of a request, which is a code of less than 100 characters.
const MAX_REQUEST: usize = 1024;
/// Maximum size of a reply. A board's sentence has at most a few thousand characters.
const MAX_REPLY: usize = 64 * 1024;
/// Maximum time that the collector waits for a client, from the first byte of the request to the last one of the reply.
const CLIENT_LIMIT: Duration = Duration::from_secs(10);
/// Maximum time that a user waits until the request is accepted.
const MAX_SILENCE: Duration = Duration::from_secs(5);
/// Maximum time that a user waits for the reply: longer than the collector waits for the board.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Pause after a reply, before the same person may send another code. It bounds the requests to the board.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of people who are served at the same time, with one request each.
const MAX_PEOPLE: usize = 8;

/// A user name of this host that was linked to a member of the board.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkedName {
    /// Name of the user on this host.
    pub user: String,
    /// Name of the member on the board.
    pub account: String,
}

/// Why a user name was not linked.
#[derive(Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum LinkError {
    #[error("no collector is running that could pass the code on: nothing answers at `{}`", .0.display())]
    NotRunning(PathBuf),
    #[error("the collector of this host does not push to a board")]
    NotPushing,
    #[error("the calling user has no name on this host")]
    NoName,
    #[error("this host sends no user names to the board: cloud.users is \"omit\"")]
    NamesOmitted,
    #[error("the board does not know this code: it was used, has expired or is incomplete ({0})")]
    UnknownCode(String),
    #[error("the collector is busy with other codes; try again in a few seconds")]
    Busy,
    /// In words.
    #[error("{0}")]
    Failed(String),
    #[error(
        "the user directory of this host (passwd, LDAP, SSSD) does not answer; try again later"
    )]
    NamesUnavailable,
}

impl From<LinkError> for Failure {
    fn from(error: LinkError) -> Self {
        let text = error.to_string();
        match error {
            LinkError::NotPushing => Failure::usage(text).hint(
                "an administrator enrols the host with `gua enroll`, then runs `sudo gua service install --system --cloud`",
            ),
            LinkError::NamesOmitted => Failure::usage(text),
            LinkError::UnknownCode(_) => {
                Failure::failed(text).hint("the page \"Me\" of the board shows a new code")
            }
            _ => Failure::failed(text),
        }
    }
}

type Reply = Result<LinkedName, LinkError>;

/// Links the name of a user of this host, with the host's token.
///
/// # Errors
/// If the board refuses the code, or this host sends no user names.
pub fn link(enrolled: &Enrolled, users: &UserPolicy, (user, code): (&str, &Token)) -> Reply {
    let sent = users.apply(user).ok_or(LinkError::NamesOmitted)?;
    let config = &enrolled.config;
    match enrolled.prove_name(code, &sent) {
        Ok(account) => Ok(LinkedName {
            user: user.to_owned(),
            account: sanitize(&config.agent_token.hide_in(&account)),
        }),
        Err(error @ CallError::Refused { status: 404, .. }) => {
            Err(LinkError::UnknownCode(chain(&error)))
        }
        Err(error) => Err(LinkError::Failed(chain(&error))),
    }
}

/// Links the name of the calling user through the collector's socket.
///
/// # Errors
/// If no collector answers, or it does not link the name.
pub fn link_through(socket: &Path, code: &Token) -> Reply {
    let failed = |source: io::Error| {
        let socket = socket.display();
        LinkError::Failed(format!(
            "cannot ask the collector through `{socket}`: {source}"
        ))
    };
    let mut stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            LinkError::NotRunning(socket.to_owned())
        }
        _ => failed(error),
    })?;
    let mut exchange = || {
        stream.set_read_timeout(Some(MAX_WAIT))?;
        stream.set_write_timeout(Some(MAX_SILENCE))?;
        // A busy collector replies without reading the request.
        let written = write(&mut stream, &code.reveal(), MAX_REQUEST);
        read::<Reply>(&mut stream, MAX_REPLY).map_err(|error| written.err().unwrap_or(error))
    };
    exchange().map_err(failed)?
}

/// The board that a collector pushes to.
#[derive(Debug)]
pub(crate) struct NameBoard {
    pub(crate) enrolment: Mutex<Enrolment>,
    pub(crate) users: UserPolicy,
}

/// The socket of the collector, which is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct NameSocket(PathBuf);

impl NameSocket {
    /// Opens the socket to everyone and starts its thread, which ends with the process. `None` if another collector answers
    /// there. Without a board, every request is answered with [`LinkError::NotPushing`].
    pub(crate) fn start(socket: &Path, board: Option<NameBoard>) -> io::Result<Option<Self>> {
        // systemd creates it for the service (`RuntimeDirectory=`).
        if let Some(directory) = socket.parent() {
            match fs::DirBuilder::new().mode(0o755).create(directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        let Some(listener) = listen(socket)? else {
            return Ok(None);
        };
        let started = Self(socket.to_owned());
        let board = Arc::new(board);
        thread::Builder::new()
            .name("gua-names".to_owned())
            .spawn(move || serve(&listener, &board))?;
        Ok(Some(started))
    }
}

impl Drop for NameSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// People whose requests are in progress.
type People = Arc<Mutex<HashSet<Uid>>>;

/// The place of a person in [`People`], which is given back when this is dropped.
struct Place(People, Uid);

impl Place {
    /// `None` if the person has a request in progress, or too many people have.
    fn take(people: &People, person: Uid) -> Option<Self> {
        let mut taken = lock(people);
        let is_free = taken.len() < MAX_PEOPLE && taken.insert(person);
        is_free.then(|| Self(Arc::clone(people), person))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.0).remove(&self.1);
    }
}

fn serve(listener: &UnixListener, board: &Arc<Option<NameBoard>>) {
    let people = People::default();
    // The names of the ranges are not looked up, because that could block. All containers of a person count as one more.
    let ranges = fs::read_to_string("/etc/subuid").unwrap_or_default();
    let ranges = SubUids::parse(&ranges, |_| None);
    let mut failures = FailureLog::default();
    for stream in listener.incoming() {
        match failures.change(&stream) {
            Some(Ok(failures)) => info!(failures, "requests to link names are accepted again"),
            Some(Err(error)) => warn!(%error, "cannot accept requests to link names"),
            None => {}
        }
        let Ok(mut stream) = stream else {
            // No file descriptor is free; another one may be soon.
            thread::sleep(PAUSE);
            continue;
        };
        let Ok(peer) = socket_peercred(&stream) else {
            continue;
        };
        let uid = Uid(peer.uid.as_raw());
        let Some(place) = Place::take(&people, ranges.person(uid)) else {
            // A few bytes fit into the buffer of any socket.
            let _ = stream.set_nonblocking(true);
            let busy: Reply = Err(LinkError::Busy);
            let _ = write(&mut stream, &busy, MAX_REPLY);
            continue;
        };
        let board = Arc::clone(board);
        // Without a thread the connection is closed, and the user sees that.
        let _ = thread::Builder::new().spawn(move || {
            // The user may be gone.
            let _ = answer(&stream, uid, board.as_ref().as_ref(), CLIENT_LIMIT);
            drop(stream);
            thread::sleep(PAUSE);
            drop(place);
        });
    }
}

/// Answers one request. `limit` is the maximum time to wait for the client.
fn answer(
    stream: &UnixStream,
    uid: Uid,
    board: Option<&NameBoard>,
    limit: Duration,
) -> io::Result<()> {
    let mut client = TimedStream::new(stream, limit);
    let code: String = read(&mut client, MAX_REQUEST)?;
    let result = match board {
        Some(board) => link_user(uid, &code, board),
        None => Err(LinkError::NotPushing),
    };
    write(&mut client, &result, MAX_REPLY)
}

/// Links the name that a uid has on this host.
fn link_user(uid: Uid, code: &str, board: &NameBoard) -> Reply {
    let code = Token::new(code).map_err(|error| LinkError::Failed(error.to_string()))?;
    let enrolled = lock(&board.enrolment).current();
    let enrolled = enrolled.map_err(|error| match error.is_missing() {
        true => LinkError::NotPushing,
        false => LinkError::Failed(chain(&error)),
    })?;
    let name = name_in_directory(uid).ok_or(LinkError::NamesUnavailable)?;
    let name = name.ok_or(LinkError::NoName)?;
    link(&enrolled, &board.users, (&name, &code))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use gua_probe::clock;

    use super::*;

    /// Answers a client whose bytes are written on another thread.
    fn answered(limit: Duration, send: impl FnOnce(UnixStream) + Send + 'static) -> io::Result<()> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let sender = thread::spawn(move || send(theirs));
        let result = answer(&ours, Uid(1000), None, limit);
        drop(ours);
        sender.join().unwrap();
        result
    }

    #[test]
    fn a_client_that_sends_one_byte_at_a_time_is_disconnected_after_the_limit() {
        let began = clock::monotonic();
        let error = answered(Duration::from_millis(300), |mut client| {
            let mut bytes = gua_query::protocol::VERSION.to_le_bytes().to_vec();
            bytes.extend(1000_u32.to_le_bytes());
            bytes.extend([0; 1000]);
            // The whole message would take 50 s.
            for byte in bytes {
                if client.write_all(&[byte]).is_err() {
                    return;
                }
                thread::park_timeout(Duration::from_millis(50));
            }
        });
        let kind = error.unwrap_err().kind();
        let is_timeout = matches!(kind, io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock);
        assert!(is_timeout, "{kind:?}");
        let waited = clock::monotonic() - began;
        assert!(waited < Duration::from_secs(20), "{waited:?}");
    }

    #[test]
    fn a_request_is_short() {
        let sent = |length: usize| {
            let limit = Duration::from_secs(60);
            answered(limit, move |mut client| {
                let code = "x".repeat(length);
                write(&mut client, &code, MAX_REPLY).unwrap();
                let _ = read::<Reply>(&mut client, MAX_REPLY);
            })
        };
        sent(100).unwrap();
        let error = sent(2000).unwrap_err().to_string();
        assert!(error.contains("too long"), "{error}");
    }
}
