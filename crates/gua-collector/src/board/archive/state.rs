//! State of a history's archive, in a small file beside the state of the link. It contains no secret.

use std::io;
use std::path::PathBuf;

use gua_wire::CloudConfig;
use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::super::link_state::{LinkError, LinkFiles, Peer, State};
use super::{ArchiveError, Archived};

/// Task that an upload completes. A different board, host, day or retention makes a different task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Task {
    #[serde(flatten)]
    pub peer: Peer,
    /// The current UTC day; `None` before the first complete upload.
    pub day: Option<Date>,
    pub retention_days: Option<u32>,
}

impl Task {
    pub fn new(config: &CloudConfig, today: Date, retention_days: u32) -> Self {
        Self {
            peer: Peer::of(config),
            day: Some(today),
            retention_days: Some(retention_days),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveState {
    /// The last completed task, or the host of the attempts so far.
    #[serde(flatten)]
    pub task: Task,
    /// Time of the last complete upload.
    pub completed: Option<Timestamp>,
    /// Last failure since then.
    pub last_error: Option<LinkError>,
    /// Path of the history.
    history: PathBuf,
}

impl State for ArchiveState {
    const SUFFIX: &str = "-archive";

    fn peer(&self) -> &Peer {
        &self.task.peer
    }

    fn last_change(&self) -> Option<Timestamp> {
        self.completed
            .max(self.last_error.as_ref().map(|error| error.at))
    }
}

impl ArchiveState {
    /// Reads the latest state of this history.
    pub fn read(files: &LinkFiles) -> Option<Self> {
        let history = files.history();
        files.latest(|state: &Self| state.history == history)
    }

    /// Whether the task is complete.
    pub fn is_done(files: &LinkFiles, task: &Task) -> bool {
        Self::read(files).is_some_and(|state| state.task == *task)
    }

    /// Records the result of an attempt. A write error is ignored: it only loses the record.
    pub fn record(
        files: &LinkFiles,
        task: &Task,
        ended: Timestamp,
        result: &Result<Archived, ArchiveError>,
    ) {
        let known = Self::read(files).filter(|state| state.task.peer == task.peer);
        let mut state = known.unwrap_or_else(|| Self {
            task: Task {
                peer: task.peer.clone(),
                ..Task::default()
            },
            history: files.history(),
            ..Self::default()
        });
        match result {
            Ok(_) => {
                state.task = task.clone();
                state.completed = Some(ended);
                state.last_error = None;
            }
            Err(ArchiveError::Stopped) => return,
            Err(error) => {
                let what = gua_model::text::sanitize(&gua_model::chain::chain(error));
                state.last_error = Some(LinkError { at: ended, what });
            }
        }
        let _: io::Result<()> = files.store(&state);
    }
}

#[cfg(test)]
mod tests {
    use gua_wire::ServerUrl;

    use super::*;

    fn task(board: &str, host: &str, day: &str, retention_days: u32) -> Task {
        let answer = format!(
            r#"{{"hostId":"{host}","displayName":"lab","agentToken":"gua_agent_secret","tokenPrefix":"gua"}}"#
        );
        let board = ServerUrl::parse(board).unwrap();
        let config = CloudConfig::enrolled(board, answer.as_bytes(), None).unwrap();
        Task::new(&config, day.parse().unwrap(), retention_days)
    }

    #[test]
    fn another_board_host_day_or_retention_is_not_done() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        let files = LinkFiles::new(&file("cloud.json"), &file("gua.db"));
        let done = task("https://b", "h1", "2026-11-16", 30);
        assert!(!ArchiveState::is_done(&files, &done));
        let ended = "2026-11-16T00:10:00Z".parse().unwrap();
        let archived = Archived::default();
        ArchiveState::record(&files, &done, ended, &Ok(archived));
        assert!(ArchiveState::is_done(&files, &done));
        for other in [
            task("https://c", "h1", "2026-11-16", 30),
            task("https://b", "h2", "2026-11-16", 30),
            task("https://b", "h1", "2026-11-17", 30),
            task("https://b", "h1", "2026-11-16", 90),
        ] {
            assert!(!ArchiveState::is_done(&files, &other), "{other:?}");
        }

        let second = LinkFiles::new(&file("cloud.json"), &file("second.db"));
        assert!(!ArchiveState::is_done(&second, &done), "another history");

        // A later failure does not undo it, unless it is that of another host.
        let failed = || Err(ArchiveError::File(io::Error::other("full")));
        let later = "2026-11-17T00:10:00Z".parse().unwrap();
        let next = task("https://b", "h1", "2026-11-17", 30);
        ArchiveState::record(&files, &next, later, &failed());
        assert!(ArchiveState::is_done(&files, &done));
        let state = ArchiveState::read(&files).unwrap();
        assert_eq!(state.completed, Some(ended));
        assert_eq!(state.last_error.unwrap().at, later);
        let other = task("https://b", "h2", "2026-11-17", 30);
        ArchiveState::record(&files, &other, later, &failed());
        assert!(!ArchiveState::is_done(&files, &done));
        assert_eq!(ArchiveState::read(&files).unwrap().completed, None);
    }
}
