//! State of the link to the board, in a small file beside the enrolment, for `gua status`. It contains no secret.

use std::io;
use std::path::{Path, PathBuf};

use gua_files::beside;
use gua_model::chain::chain;
use gua_model::id::{Pid, ProcessKey};
use gua_model::text::sanitize;
use gua_probe::process::lineage::Life;
use gua_probe::process::{ProcRoot, ProcessTable};
use gua_wire::CloudConfig;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::archive::ArchiveState;
use super::client::CallError;
use super::spool;

/// A board and this host's id there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Peer {
    /// URL of the board.
    pub board: String,
    pub host_id: String,
}

impl Peer {
    pub fn of(config: &CloudConfig) -> Self {
        Self {
            board: config.server_url.to_string(),
            // A board may use the token as the host id, and others can read this file.
            host_id: config.agent_token.hide_in(&config.host_id),
        }
    }
}

/// State for `gua status`, in a small JSON file that everyone may read.
pub(crate) trait State: Serialize + DeserializeOwned {
    /// Suffix of the file, which lies beside the enrolment or the history.
    const SUFFIX: &str;

    fn peer(&self) -> &Peer;

    fn last_change(&self) -> Option<Timestamp>;
}

/// State of the link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkState {
    pub peer: Peer,
    /// Name of this host at the board.
    pub display_name: String,
    /// Time of the last accepted push.
    pub last_push: Option<Timestamp>,
    /// Last failure, kept after a recovery.
    pub last_error: Option<LinkError>,
    /// Number of failures since the last success.
    pub failures: u64,
    /// Number of pushes that were dropped because the spool was full.
    pub dropped: u64,
    /// Why the configured spool does not work.
    #[serde(default)]
    pub spool_error: Option<String>,
    /// Stream of the daemon that wrote this; it may have died since.
    pub stream: Option<StreamState>,
}

/// A failure and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkError {
    pub at: Timestamp,
    /// One sanitized sentence.
    pub what: String,
}

/// State of the stream, as last written by its daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamState {
    pub daemon: ProcessKey,
    pub is_connected: bool,
}

impl LinkState {
    /// The state before the first push.
    pub fn new(config: &CloudConfig) -> Self {
        Self {
            peer: Peer::of(config),
            display_name: sanitize(&config.shown_name()),
            ..Self::default()
        }
    }

    /// Records an accepted push.
    pub fn succeeded(&mut self, at: Timestamp) {
        self.last_push = Some(at);
        self.failures = 0;
    }

    /// Records a failure.
    pub fn failed(&mut self, at: Timestamp, what: String) {
        self.last_error = Some(LinkError { at, what });
        self.failures += 1;
    }
}

impl State for LinkState {
    const SUFFIX: &str = "-link";

    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn last_change(&self) -> Option<Timestamp> {
        self.last_push
            .max(self.last_error.as_ref().map(|error| error.at))
    }
}

impl StreamState {
    /// The state of this process's stream; `None` if the process cannot be identified.
    pub fn of_this_process(is_connected: bool) -> Option<Self> {
        let boot = ProcessTable::default().boot().ok()?;
        let daemon = ProcRoot::default().process(Pid(std::process::id()), boot)?;
        Some(Self {
            daemon,
            is_connected,
        })
    }

    /// Whether the daemon that wrote it is still running.
    pub fn is_current(&self) -> bool {
        ProcessTable::default().boot() == Ok(self.daemon.boot)
            && ProcRoot::default().life(&self.daemon) != Life::Ended
    }
}

/// Maximum size of a file with a state.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a JSON file; `None` if it is missing or invalid.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = gua_files::read_regular(path, MAX_BYTES).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Writes a JSON file that everyone may read, as far as the umask permits.
pub(super) fn write_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let text = serde_json::to_string(value).expect("strings and numbers can be serialized");
    gua_files::replace(path, (text + "\n").as_bytes(), 0o666)
}

/// Paths of the files that belong to a link. They are beside the enrolment, so that they do not depend on the history; a
/// service that cannot write there has them beside its history.
#[derive(Clone, Debug)]
pub struct LinkFiles {
    enrolment: PathBuf,
    history: PathBuf,
}

impl LinkFiles {
    pub fn new(enrolment: &Path, history: &Path) -> Self {
        Self {
            enrolment: enrolment.to_owned(),
            history: history.to_owned(),
        }
    }

    fn paths(&self, suffix: &str) -> [PathBuf; 2] {
        [&self.enrolment, &self.history].map(|file| beside(file, suffix))
    }

    /// Directories for the spool.
    pub fn spools(&self) -> [PathBuf; 2] {
        self.paths("-spool")
    }

    /// Canonical path of the history, which does not depend on the working directory.
    pub(super) fn history(&self) -> PathBuf {
        let history = std::fs::canonicalize(&self.history);
        history.unwrap_or_else(|_| self.history.clone())
    }

    /// Reads the latest state that `is_it` accepts.
    pub(super) fn latest<S: State>(&self, is_it: impl Fn(&S) -> bool) -> Option<S> {
        let states = self.paths(S::SUFFIX).into_iter();
        let states = states.filter_map(|file| read_json(&file).filter(&is_it));
        states.max_by_key(State::last_change)
    }

    /// Writes a state to the first location that is writable.
    pub(crate) fn store<S: State>(&self, state: &S) -> io::Result<()> {
        let [own, of_history] = self.paths(S::SUFFIX);
        write_json(&own, state).or_else(|_| write_json(&of_history, state))
    }

    /// Removes a state. The file beside a history may be that of another enrolment; it is only removed if it belongs to
    /// `peer`.
    fn forget<S: State>(&self, peer: Option<&Peer>) {
        let [own, of_history] = self.paths(S::SUFFIX);
        let _ = std::fs::remove_file(own);
        if peer.is_some() && read_json(&of_history).as_ref().map(S::peer) == peer {
            let _ = std::fs::remove_file(of_history);
        }
    }

    /// Reads the latest state of the link to a peer.
    pub fn read(&self, peer: &Peer) -> Option<LinkState> {
        self.latest(|state: &LinkState| state.peer == *peer)
    }

    /// Reads the state that a service wrote beside its history, for users without an enrolment.
    pub fn read_service(&self) -> Option<LinkState> {
        let [_, file] = self.paths(LinkState::SUFFIX);
        read_json(&file)
    }

    /// Records the result of a push. A write error is ignored: it only loses the record.
    pub fn record(&self, config: &CloudConfig, at: Timestamp, pushed: &Result<(), CallError>) {
        let fresh = LinkState::new(config);
        let known = self.read(&fresh.peer).unwrap_or_default();
        let mut state = LinkState {
            peer: fresh.peer,
            display_name: fresh.display_name,
            ..known
        };
        match pushed {
            Ok(()) => state.succeeded(at),
            Err(error) => state.failed(at, sanitize(&chain(error))),
        }
        let _: io::Result<()> = self.store(&state);
    }

    /// Number of spooled pushes for a peer; `None` if the spool belongs to another user.
    pub fn spooled(&self, peer: &Peer) -> Option<usize> {
        let spools = self.spools();
        spools
            .iter()
            .map(|directory| spool::count(directory, peer))
            .sum()
    }

    /// Removes the state and the spool of a link; returns the number of spooled pushes. Files beside the history may belong
    /// to another enrolment; they are only removed if they belong to `peer`.
    pub fn remove(&self, peer: Option<&Peer>) -> usize {
        self.forget::<LinkState>(peer);
        self.forget::<ArchiveState>(peer);
        let [own, of_history] = self.spools();
        let of_peer = peer.map_or(0, |peer| spool::remove(&of_history, Some(peer)));
        spool::remove(&own, None) + of_peer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn peer(host_id: &str) -> Peer {
        Peer {
            board: "https://board.example.com".to_owned(),
            host_id: host_id.to_owned(),
        }
    }

    fn state(host_id: &str) -> LinkState {
        LinkState {
            peer: peer(host_id),
            ..LinkState::default()
        }
    }

    #[test]
    fn a_success_resets_the_failure_count_and_keeps_the_last_error() {
        let mut state = state("h");
        state.failed(at(1), "no".to_owned());
        state.failed(at(2), "no".to_owned());
        assert_eq!(state.failures, 2);
        state.succeeded(at(3));
        assert_eq!((state.failures, state.last_push), (0, Some(at(3))));
        assert_eq!(state.last_error.unwrap().at, at(2));
    }

    #[test]
    fn the_newer_of_two_files_with_the_right_peer_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let enrolment = directory.path().join("gone/cloud.json");
        let history = directory.path().join("gua.db");
        let files = LinkFiles::new(&enrolment, &history);
        assert_eq!(files.read(&peer("h")), None);
        // The directory of the enrolment does not exist.
        let mut old = state("h");
        old.failed(at(1), "no".to_owned());
        old.stream = StreamState::of_this_process(true);
        assert!(old.stream.unwrap().is_current());
        files.store(&old).unwrap();
        assert_eq!(files.read(&peer("h")), Some(old.clone()));
        assert_eq!(files.read_service(), Some(old.clone()));
        assert_eq!(files.read(&peer("another")), None);
        // Now it exists.
        std::fs::create_dir(enrolment.parent().unwrap()).unwrap();
        let mut new = state("h");
        new.succeeded(at(2));
        files.store(&new).unwrap();
        assert_eq!(files.read(&peer("h")), Some(new));
        assert_eq!(files.read_service(), Some(old));
        std::fs::write(&files.paths(LinkState::SUFFIX)[0], "garbage").unwrap();
        assert!(files.read(&peer("h")).is_some());
        assert_eq!(files.remove(Some(&peer("another"))), 0);
        assert!(files.paths(LinkState::SUFFIX).map(|file| file.exists()) == [false, true]);
        assert_eq!(files.remove(None), 0);
        assert!(files.paths(LinkState::SUFFIX).map(|file| file.exists()) == [false, true]);
        assert_eq!(files.remove(Some(&peer("h"))), 0);
        assert!(files.paths(LinkState::SUFFIX).map(|file| file.exists()) == [false, false]);
    }

    #[test]
    fn a_stream_of_a_dead_daemon_is_not_current() {
        let mut stream = StreamState::of_this_process(true).unwrap();
        stream.daemon.start.0 += 1;
        assert!(!stream.is_current());
    }
}
