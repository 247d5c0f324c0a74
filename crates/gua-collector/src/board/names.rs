//! `gua board link`: a member of a board proves that a user name of this host is theirs.
//!
//! The board accepts such a proof only with the host's token, which belongs to root and the service. Everyone else connects to
//! a socket of the collector and sends the code from the board's page. The collector passes it to the board with the name of
//! the user who connected, which it learns from the kernel (`SO_PEERCRED`, unix(7)). A request contains no user name, so nobody
//! can link the name of another user.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use gua_model::chain::chain;
use gua_model::failure::Failure;
use gua_model::text::sanitize;
use gua_model::{Uid, User};
use gua_probe::process::{Passwd, ProcRoot, ProcessTable, sub_uids};
use gua_wire::Token;
use gua_wire::users::UserPolicy;
use rustix::net::sockopt::socket_peercred;
use serde::{Deserialize, Serialize};

use super::client::CallError;
use super::enrolment::{Enrolled, Enrolment};
use crate::socket::listen;
use crate::socket::message::{read, write};

/// Maximum size of a message. A code has less than 100 characters, and a board's sentence at most a few thousand.
const LONGEST_MESSAGE: usize = 64 * 1024;
/// Maximum time without a byte of a request, and without progress of the reply.
const LONGEST_SILENCE: Duration = Duration::from_secs(5);
/// Maximum time that a user waits for the reply: longer than the collector waits for the board.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Pause after a reply, before the same person may send another code. It bounds the requests to the board.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of people who are served at the same time, with one request each.
const MOST_PEOPLE: usize = 8;

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
            LinkError::NotRunning(_) | LinkError::NoName | LinkError::Busy | LinkError::Failed(_) => {
                Failure::failed(text)
            }
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Request {
    code: String,
}

type Reply = Result<LinkedName, LinkError>;

/// Links the name of a user of this host, with the host's token.
///
/// # Errors
/// If the board refuses the code, or this host sends no user names.
pub fn link(enrolled: &Enrolled, users: &UserPolicy, (user, code): (&str, &Token)) -> Reply {
    let sent = users.apply(user).ok_or(LinkError::NamesOmitted)?;
    let config = &enrolled.config;
    match enrolled.client.prove_name(code, &sent, config) {
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
        stream.set_read_timeout(Some(LONGEST_WAIT))?;
        stream.set_write_timeout(Some(LONGEST_SILENCE))?;
        let code = code.reveal().to_owned();
        // A busy collector replies without reading the request.
        let written = write(&mut stream, &Request { code }, LONGEST_MESSAGE);
        read::<Reply>(&mut stream, LONGEST_MESSAGE).map_err(|error| written.err().unwrap_or(error))
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
        let mut taken = people.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = taken.len() < MOST_PEOPLE && taken.insert(person);
        is_free.then(|| Self(Arc::clone(people), person))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.remove(&self.1);
    }
}

fn serve(listener: &UnixListener, board: &Arc<Option<NameBoard>>) {
    let people = People::default();
    let subuids = sub_uids();
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else {
            // No file descriptor is free; another one may be soon.
            thread::sleep(PAUSE);
            continue;
        };
        let Ok(peer) = socket_peercred(&stream) else {
            continue;
        };
        let uid = Uid(peer.uid.as_raw());
        let Some(place) = Place::take(&people, subuids.person(uid)) else {
            // A few bytes fit into the buffer of any socket.
            let _ = stream.set_nonblocking(true);
            let busy: Reply = Err(LinkError::Busy);
            let _ = write(&mut stream, &busy, LONGEST_MESSAGE);
            continue;
        };
        let board = Arc::clone(board);
        // Without a thread the connection is closed, and the user sees that.
        let _ = thread::Builder::new().spawn(move || {
            // The user may be gone.
            let _ = answer(&mut stream, uid, board.as_ref().as_ref());
            drop(stream);
            thread::sleep(PAUSE);
            drop(place);
        });
    }
}

fn answer(stream: &mut UnixStream, uid: Uid, board: Option<&NameBoard>) -> io::Result<()> {
    stream.set_read_timeout(Some(LONGEST_SILENCE))?;
    stream.set_write_timeout(Some(LONGEST_SILENCE))?;
    let request: Request = read(stream, LONGEST_MESSAGE)?;
    let result = match board {
        Some(board) => link_user(uid, &request.code, board),
        None => Err(LinkError::NotPushing),
    };
    write(stream, &result, LONGEST_MESSAGE)
}

/// Links the name that a uid has on this host.
fn link_user(uid: Uid, code: &str, board: &NameBoard) -> Reply {
    let code = Token::new(code).map_err(|error| LinkError::Failed(error.to_string()))?;
    let enrolment = board.enrolment.lock();
    let enrolled = enrolment.unwrap_or_else(PoisonError::into_inner).current();
    let enrolled = enrolled.map_err(|error| match error.is_missing() {
        true => LinkError::NotPushing,
        false => LinkError::Failed(chain(&error)),
    })?;
    let User { name, .. } = ProcessTable::new(ProcRoot::default(), Passwd::System).user(uid);
    let name = name.ok_or(LinkError::NoName)?;
    link(&enrolled, &board.users, (&name, &code))
}
