//! One question: the process that answers it and ends.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use gua_compat::open_records;
use gua_model::chain::chain;
use gua_model::failure::Failure;
use gua_model::{Uid, User};
use gua_probe::clock;
use gua_probe::process::ProcessTable;
use gua_query::{Others, QueryError, Records, View, Viewer};
use gua_settings::kind::OthersShown;
use gua_settings::{Loaded, Settings};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Resource, Rlimit, setrlimit};

use super::message::{MAX_ANSWER, MAX_QUESTION, Outcome, Query, encode, read, write};
use crate::access::{Reply, answer};
use crate::board::salt;

/// First argument of the process that answers one question; the second is the history.
pub const ANSWER_ARGUMENT: &str = "__answer";

/// Maximum time for one question, from its first byte to the last byte of the answer.
pub(super) const MAX_WORK_TIME: Duration = Duration::from_secs(60);
/// Time after which a page of rows ends, if it has any; the client asks for the next one.
const MAX_PAGE_TIME: Duration = Duration::from_secs(10);
/// Maximum time without a byte of the question, and without progress of the answer.
const MAX_SILENCE: Duration = Duration::from_secs(5);
/// Maximum address space. A report of a year takes far less.
const MAX_MEMORY: u64 = 2 << 30;

/// Answers the question on the connection that is standard input.
pub fn answer_stdin(arguments: &[OsString]) -> ExitCode {
    let Some(db) = arguments.first() else {
        return ExitCode::from(2);
    };
    match answer_one(Path::new(db)) {
        Ok(()) => ExitCode::SUCCESS,
        // The client is gone, or sent no question: there is nobody to answer.
        Err(_) => ExitCode::FAILURE,
    }
}

fn answer_one(db: &Path) -> io::Result<()> {
    let mut stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let requester = Uid(socket_peercred(&stream)?.uid.as_raw());
    limit(stream.try_clone()?)?;
    stream.set_read_timeout(Some(MAX_SILENCE))?;
    stream.set_write_timeout(Some(MAX_SILENCE))?;
    let outcome = match read::<Query>(&mut stream, MAX_QUESTION) {
        Ok(query) if is_other(query.db.as_deref(), db) => {
            Outcome::Refused("it answers from another history than this one".to_owned())
        }
        Ok(query) => match work(db, requester, &query) {
            Ok(reply) => Outcome::Answered(reply),
            Err(error) => Outcome::Failed(error),
        },
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Outcome::Refused(error.to_string())
        }
        Err(error) => return Err(error),
    };
    let bytes = encode(&outcome, MAX_ANSWER).or_else(|_| {
        let why = "the answer is too long; ask for a shorter window".to_owned();
        encode(&Outcome::Refused(why), MAX_ANSWER)
    });
    io::Write::write_all(&mut stream, &bytes.unwrap_or_default())
}

/// Bounds the time and memory of this process.
fn limit(mut stream: UnixStream) -> io::Result<()> {
    let most = |resource: Resource, most: u64| {
        let bound = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, bound)
    };
    most(Resource::As, MAX_MEMORY)?;
    most(Resource::Cpu, MAX_WORK_TIME.as_secs())?;
    most(Resource::Core, 0)?;
    thread::Builder::new().spawn(move || {
        thread::sleep(MAX_WORK_TIME);
        let why = format!("it took longer than {} s", MAX_WORK_TIME.as_secs());
        // The client may be gone.
        let _ = write(&mut stream, &Outcome::Refused(why), MAX_ANSWER);
        std::process::exit(1);
    })?;
    Ok(())
}

/// Whether a history was asked for that is not the service's.
fn is_other(wanted: Option<&Path>, db: &Path) -> bool {
    wanted.is_some_and(|wanted| {
        wanted != db
            && !matches!((wanted.canonicalize(), db.canonicalize()), (Ok(one), Ok(other)) if one == other)
    })
}

/// Answers a question from what the requester may see of the history. Closes the history before the answer is sent.
fn work(db: &Path, requester: Uid, query: &Query) -> Result<Reply, QueryError> {
    let loaded = Loaded::of_this_process(&[]);
    // With a mistake in the configuration, it is not known what others may see.
    let refused = |error: Failure| QueryError::Open(chain(&error).into());
    let settings = loaded.checked().map_err(refused)?;
    let User { name, .. } = ProcessTable::default().user(requester);
    let open = || {
        let viewer = Viewer {
            uid: requester,
            name: name.clone(),
        };
        view(open_records(db)?, viewer, settings, db)
    };
    let began = clock::monotonic();
    let is_late = || clock::monotonic().saturating_sub(began) > MAX_PAGE_TIME;
    answer(db, &open, &query.request, is_late)
}

/// Limits records to what a user may see of other people. Root sees everything.
fn view(
    records: Box<dyn Records>,
    viewer: Viewer,
    settings: &Settings,
    db: &Path,
) -> Result<Box<dyn Records>, QueryError> {
    let others = match settings.privacy.others.value {
        _ if viewer.uid == Uid::ROOT => return Ok(records),
        OthersShown::Names => return Ok(records),
        OthersShown::Totals => Others::Totals,
        OthersShown::Pseudonyms => {
            let salt = salt::existing(&salt::of_history(db));
            let salt = salt.map_err(|error| QueryError::Open(chain(&error).into()))?;
            Others::Pseudonyms(Box::new(move |name| salt.pseudonym(name)))
        }
    };
    Ok(Box::new(View::new(records, viewer, others)))
}
