//! How the link to the board is doing, in a small file beside the enrolment, for `gua status`. There is no secret in it.

use std::io;
use std::path::{Path, PathBuf};

use gua_model::id::{Pid, ProcessKey};
use gua_model::text::sanitize;
use gua_probe::process::lineage::{Life, Lineage};
use gua_probe::process::{Passwd, ProcRoot, ProcessTable};
use gua_wire::CloudConfig;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::archive::ArchiveState;
use super::client::CallError;
use super::{spool, state_file};
use crate::chain::chain;

/// A board, and who this host is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// The board's address.
    pub board: String,
    pub host_id: String,
}

impl Peer {
    #[must_use]
    pub fn of(config: &CloudConfig) -> Self {
        Self {
            board: config.server_url.to_string(),
            // A board may call a host by its secret, and others can read what is written.
            host_id: config.agent_token.hide_in(&config.host_id),
        }
    }
}

/// What is known about the link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkState {
    pub peer: Peer,
    /// The name that the board gave this host.
    pub display_name: String,
    /// When the board last took a push.
    pub last_push: Option<Timestamp>,
    /// The last failure, also when the link works again.
    pub last_error: Option<LinkError>,
    /// Failures since the last success.
    pub failures: u64,
    /// Pushes that were dropped from the disk because there was no room.
    pub dropped: u64,
    /// Why those that are missed do not wait on disk, where they should.
    #[serde(default)]
    pub spool_trouble: Option<String>,
    /// The stream of a daemon that runs, or has died.
    pub stream: Option<StreamState>,
}

/// A failure and when it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkError {
    pub at: Timestamp,
    /// One sentence, harmless.
    pub what: String,
}

/// How a stream is doing, as its daemon last wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamState {
    pub daemon: ProcessKey,
    pub is_connected: bool,
}

impl LinkState {
    /// Nothing yet.
    #[must_use]
    pub fn new(config: &CloudConfig) -> Self {
        Self {
            peer: Peer::of(config),
            display_name: sanitize(&config.shown_name()),
            ..Self::default()
        }
    }

    /// The board took a push.
    pub fn succeeded(&mut self, at: Timestamp) {
        self.last_push = Some(at);
        self.failures = 0;
    }

    pub fn failed(&mut self, at: Timestamp, what: String) {
        self.last_error = Some(LinkError { at, what });
        self.failures += 1;
    }

    fn last_news(&self) -> Option<Timestamp> {
        self.last_push
            .max(self.last_error.as_ref().map(|error| error.at))
    }
}

impl StreamState {
    /// Of this process; `None` where the kernel does not tell who that is.
    #[must_use]
    pub fn of_this_process(is_connected: bool) -> Option<Self> {
        let boot = boot()?;
        let daemon = Lineage::default().process(Pid(std::process::id()), boot)?;
        Some(Self {
            daemon,
            is_connected,
        })
    }

    /// Whether the daemon that wrote it still runs.
    #[must_use]
    pub fn is_of_the_living(&self) -> bool {
        boot() == Some(self.daemon.boot) && Lineage::default().life(&self.daemon) != Life::Ended
    }
}

fn boot() -> Option<gua_model::id::BootId> {
    ProcessTable::new(ProcRoot::default(), Passwd::System)
        .boot()
        .ok()
}

/// Where what belongs to a link is kept: beside the enrolment, so that there is one place whatever history is written. A
/// service that may not write there has it beside its history.
#[derive(Clone, Debug)]
pub struct LinkFiles {
    enrolment: PathBuf,
    history: PathBuf,
}

impl LinkFiles {
    #[must_use]
    pub fn new(enrolment: &Path, history: &Path) -> Self {
        Self {
            enrolment: enrolment.to_owned(),
            history: history.to_owned(),
        }
    }

    fn files(&self) -> [PathBuf; 2] {
        [&self.enrolment, &self.history].map(|file| state_file::beside(file, "-link"))
    }

    /// Where pushes wait that could not be sent.
    pub(super) fn spools(&self) -> [PathBuf; 2] {
        [&self.enrolment, &self.history].map(|file| state_file::beside(file, "-spool"))
    }

    /// Where it is noted how the archive is doing.
    pub(super) fn archives(&self) -> [PathBuf; 2] {
        [&self.enrolment, &self.history].map(|file| state_file::beside(file, "-archive"))
    }

    /// The same name for one history wherever a command is given.
    pub(super) fn history(&self) -> PathBuf {
        let history = std::fs::canonicalize(&self.history);
        history.unwrap_or_else(|_| self.history.clone())
    }

    /// What was last written of the link to a peer.
    #[must_use]
    pub fn read(&self, peer: &Peer) -> Option<LinkState> {
        let states = self.files().into_iter().filter_map(|file| {
            let state: LinkState = state_file::read(&file)?;
            (state.peer == *peer).then_some(state)
        });
        states.max_by_key(LinkState::last_news)
    }

    /// What a service of the host has written beside its history, for those who have no enrolment of their own.
    #[must_use]
    pub fn of_the_history(&self) -> Option<LinkState> {
        let [_, file] = self.files();
        state_file::read(&file)
    }

    /// # Errors
    /// When nothing can be written in either place.
    pub fn write(&self, state: &LinkState) -> io::Result<()> {
        let [first, second] = self.files();
        state_file::write(&first, state).or_else(|_| state_file::write(&second, state))
    }

    /// Notes what became of a push. A disk that does not take it costs only the note.
    pub fn note(&self, config: &CloudConfig, at: Timestamp, pushed: &Result<(), CallError>) {
        let fresh = LinkState::new(config);
        let mut state = match self.read(&fresh.peer) {
            Some(known) => LinkState {
                display_name: fresh.display_name,
                ..known
            },
            None => fresh,
        };
        match pushed {
            Ok(()) => state.succeeded(at),
            Err(error) => state.failed(at, sanitize(&chain(error))),
        }
        let _: io::Result<()> = self.write(&state);
    }

    /// How many pushes to a peer wait on disk, by the files that are there now; `None` where they are another's.
    #[must_use]
    pub fn waiting(&self, peer: &Peer) -> Option<usize> {
        let spools = self.spools();
        spools.iter().map(|place| spool::waiting(place, peer)).sum()
    }

    /// Removes what is known of a link and what waits for it. Beside a history, which another enrolment may serve, only what
    /// belongs to `peer`. Says how many pushes waited.
    pub fn forget(&self, peer: Option<&Peer>) -> usize {
        let [own, of_history] = self.files();
        let _ = std::fs::remove_file(own);
        let known = state_file::read(&of_history).map(|state: LinkState| state.peer);
        if peer.is_some() && known.as_ref() == peer {
            let _ = std::fs::remove_file(of_history);
        }
        ArchiveState::forget(self, peer);
        let [own, of_history] = self.spools();
        let of_peer = peer.map_or(0, |peer| spool::forget(&of_history, Some(peer)));
        spool::forget(&own, None) + of_peer
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
    fn a_success_ends_the_count_of_failures_and_the_last_one_stays_known() {
        let mut state = state("h");
        state.failed(at(1), "no".to_owned());
        state.failed(at(2), "no".to_owned());
        assert_eq!(state.failures, 2);
        state.succeeded(at(3));
        assert_eq!((state.failures, state.last_push), (0, Some(at(3))));
        assert_eq!(state.last_error.unwrap().at, at(2));
    }

    #[test]
    fn a_link_is_known_by_its_board_and_host_and_by_the_newer_of_two_places() {
        let directory = tempfile::tempdir().unwrap();
        let enrolment = directory.path().join("gone/cloud.json");
        let history = directory.path().join("gua.db");
        let place = LinkFiles::new(&enrolment, &history);
        assert_eq!(place.read(&peer("h")), None);
        // Nothing can be written beside the enrolment.
        let mut old = state("h");
        old.failed(at(1), "no".to_owned());
        old.stream = StreamState::of_this_process(true);
        assert!(old.stream.unwrap().is_of_the_living());
        place.write(&old).unwrap();
        assert_eq!(place.read(&peer("h")), Some(old.clone()));
        assert_eq!(place.of_the_history(), Some(old.clone()));
        assert_eq!(place.read(&peer("another")), None);
        // Now it can.
        std::fs::create_dir(enrolment.parent().unwrap()).unwrap();
        let mut new = state("h");
        new.succeeded(at(2));
        place.write(&new).unwrap();
        assert_eq!(place.read(&peer("h")), Some(new));
        assert_eq!(place.of_the_history(), Some(old));
        std::fs::write(&place.files()[0], "garbage").unwrap();
        assert!(place.read(&peer("h")).is_some());
        assert_eq!(place.forget(Some(&peer("another"))), 0);
        assert!(place.files().map(|file| file.exists()) == [false, true]);
        assert_eq!(place.forget(None), 0);
        assert!(place.files().map(|file| file.exists()) == [false, true]);
        assert_eq!(place.forget(Some(&peer("h"))), 0);
        assert!(place.files().map(|file| file.exists()) == [false, false]);
    }

    #[test]
    fn a_stream_of_a_daemon_that_died_is_not_of_the_living() {
        let mut stream = StreamState::of_this_process(true).unwrap();
        stream.daemon.start.0 += 1;
        assert!(!stream.is_of_the_living());
    }
}
