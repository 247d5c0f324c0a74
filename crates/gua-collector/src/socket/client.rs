//! The side that asks.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use gua_probe::clock;
use gua_query::QueryError;

use super::message::{LONGEST_ANSWER, LONGEST_QUESTION, Outcome, Query, read, write};
use super::worker::LONGEST_WORK;
use crate::access::{Reply, Request};

/// How long a user with too many questions at once tries again.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// The service of this host, asked through its socket.
#[derive(Clone, Debug)]
pub struct Service {
    socket: PathBuf,
    db: Option<PathBuf>,
}

/// Why the service gave no answer.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(
        "you may not ask the gua service of this host: `{}` is closed to you (see `--readable-by` of `gua service install`)",
        socket.display()
    )]
    Denied { socket: PathBuf },
    #[error("cannot ask the gua service through `{}`", socket.display())]
    Connect { socket: PathBuf, source: io::Error },
    #[error("the gua service ended the connection through `{}`", socket.display())]
    Ended { socket: PathBuf, source: io::Error },
    #[error("the gua service answers too many questions of yours at once; try again later")]
    Busy,
    #[error("the gua service refused the question: {0}")]
    Refused(String),
}

impl Service {
    /// The service behind a socket. With `db`, it answers only if that is its history.
    #[must_use]
    pub fn at(socket: &Path, db: Option<&Path>) -> Self {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self {
            socket: socket.to_owned(),
            db: db.map(absolute),
        }
    }

    fn send(&self, query: &Query) -> Result<Outcome, AskError> {
        let socket = || self.socket.clone();
        let connected = UnixStream::connect(&self.socket);
        let mut stream = connected.map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => AskError::Denied { socket: socket() },
            _ => AskError::Connect {
                socket: socket(),
                source,
            },
        })?;
        let mut exchange = || {
            stream.set_read_timeout(Some(LONGEST_WORK + PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            // A service that refuses the connection answers without reading the question.
            let written = write(&mut stream, query, LONGEST_QUESTION);
            read(&mut stream, LONGEST_ANSWER).map_err(|error| written.err().unwrap_or(error))
        };
        exchange().map_err(|source| AskError::Ended {
            socket: socket(),
            source,
        })
    }

    /// Sends a question and waits for the reply. Retries while the person has too many questions at once.
    pub(crate) fn request(&self, request: Request) -> Result<Reply, QueryError> {
        let query = Query {
            db: self.db.clone(),
            request,
        };
        let failed = |error: AskError| QueryError::Open(Box::new(error));
        let until = clock::monotonic() + PATIENCE;
        loop {
            return match self.send(&query).map_err(failed)? {
                Outcome::Answered(reply) => Ok(reply),
                Outcome::Failed(error) => Err(error),
                Outcome::Refused(why) => Err(failed(AskError::Refused(why))),
                Outcome::Busy if clock::monotonic() < until => {
                    thread::sleep(PAUSE);
                    continue;
                }
                Outcome::Busy => Err(failed(AskError::Busy)),
            };
        }
    }
}
