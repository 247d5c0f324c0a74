//! The side that asks.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use gua_probe::clock;
use gua_query::QueryError;

use super::message::{MAX_ANSWER, MAX_QUESTION, Outcome, Query, read, write};
use super::worker::MAX_WORK_TIME;
use crate::access::{Reply, Request};

/// Maximum time for retries of a user with too many questions at once, and timeout of one transfer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// The service of this host, asked through its socket.
#[derive(Clone, Debug)]
pub struct Service {
    socket: PathBuf,
    db: Option<PathBuf>,
}

impl Service {
    /// The service behind a socket. With `db`, it answers only if that is its history.
    pub fn at(socket: &Path, db: Option<&Path>) -> Self {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self {
            socket: socket.to_owned(),
            db: db.map(absolute),
        }
    }

    /// Sends a question once. The error is a message for the user.
    fn send(&self, query: &Query) -> Result<Outcome, String> {
        let socket = self.socket.display();
        let connected = UnixStream::connect(&self.socket);
        let mut stream = connected.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => format!(
                "cannot query the gua service through `{socket}`: permission denied (see `--readable-by` of `gua service install`)"
            ),
            _ => format!("cannot query the gua service through `{socket}`: {error}"),
        })?;
        let mut exchange = || {
            stream.set_read_timeout(Some(MAX_WORK_TIME + TIMEOUT))?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            // A service that refuses the connection answers without reading the question.
            let written = write(&mut stream, query, MAX_QUESTION);
            read(&mut stream, MAX_ANSWER).map_err(|error| written.err().unwrap_or(error))
        };
        exchange().map_err(|error: io::Error| {
            format!("the gua service ended the connection through `{socket}`: {error}")
        })
    }

    /// Sends a question and waits for the reply. Retries while the person has too many questions at once.
    pub(crate) fn request(&self, request: Request) -> Result<Reply, QueryError> {
        let query = Query {
            db: self.db.clone(),
            request,
        };
        let failed = |error: String| QueryError::Open(error.into());
        let until = clock::monotonic() + TIMEOUT;
        loop {
            return match self.send(&query).map_err(failed)? {
                Outcome::Answered(reply) => Ok(reply),
                Outcome::Failed(error) => Err(error),
                Outcome::Refused(why) => {
                    let why = format!("the gua service refused the request: {why}");
                    Err(failed(why))
                }
                Outcome::Busy if clock::monotonic() < until => {
                    thread::sleep(PAUSE);
                    continue;
                }
                Outcome::Busy => {
                    let why =
                        "the gua service is busy with other requests of yours; try again later";
                    Err(failed(why.to_owned()))
                }
            };
        }
    }
}
