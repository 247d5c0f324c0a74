//! How the archive is doing, in a small file beside the history. There is no secret in it.

use std::io;
use std::path::{Path, PathBuf};

use gua_wire::CloudConfig;
use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::super::link_state::{LinkError, Peer};
use super::super::state_file;
use super::{ArchiveError, Archived};

/// What an attempt is to complete: another board, host, day or reach is another task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Task {
    /// The board's address.
    pub board: String,
    /// Who this host is there.
    pub host_id: String,
    /// The UTC day that is today; `None` before any attempt was complete.
    pub day: Option<Date>,
    pub retention_days: Option<u32>,
}

impl Task {
    #[must_use]
    pub fn new(config: &CloudConfig, today: Date, retention_days: u32) -> Self {
        Self {
            board: config.server_url.to_string(),
            host_id: Peer::of(config).host_id,
            day: Some(today),
            retention_days: Some(retention_days),
        }
    }

    fn is_of_the_same_host(&self, other: &Self) -> bool {
        (&self.board, &self.host_id) == (&other.board, &other.host_id)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveState {
    /// What was last completed, or for whom that was tried.
    #[serde(flatten)]
    pub task: Task,
    /// When it was last complete.
    pub completed: Option<Timestamp>,
    /// The last failure since.
    pub last_error: Option<LinkError>,
}

impl ArchiveState {
    #[must_use]
    pub fn place(history: &Path) -> PathBuf {
        state_file::beside(history, "-archive")
    }

    #[must_use]
    pub fn read(history: &Path) -> Option<Self> {
        state_file::read(&Self::place(history))
    }

    /// Removes the file, if it is there.
    pub fn forget(history: &Path) {
        let _ = std::fs::remove_file(Self::place(history));
    }

    /// Whether the board has everything that it is to have.
    #[must_use]
    pub fn is_done(history: &Path, task: &Task) -> bool {
        Self::read(history).is_some_and(|state| state.task == *task)
    }

    /// Notes what became of an attempt, and when it ended. A place that takes nothing costs only the note.
    pub fn note(
        history: &Path,
        task: &Task,
        ended: Timestamp,
        result: &Result<Archived, ArchiveError>,
    ) {
        let known = Self::read(history).filter(|state| state.task.is_of_the_same_host(task));
        let mut state = known.unwrap_or_else(|| Self {
            task: Task {
                day: None,
                retention_days: None,
                ..task.clone()
            },
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
                let what = gua_model::text::harmless(&crate::chain::chain(error));
                state.last_error = Some(LinkError { at: ended, what });
            }
        }
        let _: io::Result<()> = state_file::write(&Self::place(history), &state);
    }
}

#[cfg(test)]
mod tests {
    use gua_wire::{ClaimAnswer, ServerUrl};

    use super::*;

    fn task(board: &str, host: &str, day: &str, retention_days: u32) -> Task {
        let answer = format!(
            r#"{{"hostId":"{host}","displayName":"lab","agentToken":"gua_agent_secret","tokenPrefix":"gua"}}"#
        );
        let answer = ClaimAnswer::read(answer.as_bytes()).unwrap();
        let config = CloudConfig::enrolled(ServerUrl::parse(board).unwrap(), answer);
        Task::new(&config, day.parse().unwrap(), retention_days)
    }

    #[test]
    fn another_board_host_day_or_retention_is_not_done() {
        let directory = tempfile::tempdir().unwrap();
        let history = directory.path().join("gua.db");
        let done = task("https://b", "h1", "2026-11-16", 30);
        assert!(!ArchiveState::is_done(&history, &done));
        let ended = "2026-11-16T00:10:00Z".parse().unwrap();
        let archived = Archived::default();
        ArchiveState::note(&history, &done, ended, &Ok(archived));
        assert!(ArchiveState::is_done(&history, &done));
        for other in [
            task("https://c", "h1", "2026-11-16", 30),
            task("https://b", "h2", "2026-11-16", 30),
            task("https://b", "h1", "2026-11-17", 30),
            task("https://b", "h1", "2026-11-16", 90),
        ] {
            assert!(!ArchiveState::is_done(&history, &other), "{other:?}");
        }

        // A failure later takes nothing back, unless it was another host's.
        let failed = || Err(ArchiveError::File(io::Error::other("full")));
        let later = "2026-11-17T00:10:00Z".parse().unwrap();
        let next = task("https://b", "h1", "2026-11-17", 30);
        ArchiveState::note(&history, &next, later, &failed());
        assert!(ArchiveState::is_done(&history, &done));
        let state = ArchiveState::read(&history).unwrap();
        assert_eq!(state.completed, Some(ended));
        assert_eq!(state.last_error.unwrap().at, later);
        let other = task("https://b", "h2", "2026-11-17", 30);
        ArchiveState::note(&history, &other, later, &failed());
        assert!(!ArchiveState::is_done(&history, &done));
        assert_eq!(ArchiveState::read(&history).unwrap().completed, None);
    }
}
