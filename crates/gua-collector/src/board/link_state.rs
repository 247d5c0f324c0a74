//! How the link to the board is doing, in a small file beside the history, for `gua status`. There is no secret in it.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::state_file;

/// What is known about the link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkState {
    /// The board's address.
    pub board: String,
    /// The name that the board gave this host.
    pub display_name: String,
    /// The process that wrote this.
    pub pid: u32,
    /// When the board last took a push.
    pub last_push: Option<Timestamp>,
    /// The last failure, also when the link works again.
    pub last_error: Option<LinkError>,
    /// Failures since the last success.
    pub failures: u64,
    /// Pushes that wait on disk.
    pub spooled: u64,
    /// Pushes that were dropped from the disk because there was no room.
    pub dropped: u64,
    /// Whether the stream is connected; unknown where there is none.
    pub is_streaming: Option<bool>,
}

/// A failure and when it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkError {
    pub at: Timestamp,
    /// One sentence, harmless.
    pub what: String,
}

impl LinkState {
    /// The file beside a history.
    #[must_use]
    pub fn place(history: &Path) -> PathBuf {
        state_file::beside(history, "-link")
    }

    /// What was last written; `None` where nothing was, or nothing that can be read.
    #[must_use]
    pub fn read(history: &Path) -> Option<Self> {
        state_file::read(&Self::place(history))
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// When nothing can be written there.
    pub fn write(&self, history: &Path) -> io::Result<()> {
        state_file::write(&Self::place(history), self)
    }

    /// Removes the file, if it is there.
    pub fn forget(history: &Path) {
        let _ = std::fs::remove_file(Self::place(history));
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let history = directory.path().join("gua.db");
        assert_eq!(LinkState::read(&history), None);
        let mut state = LinkState {
            board: "https://board.example.com".to_owned(),
            ..LinkState::default()
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        state.failed(at(1), "no".to_owned());
        state.failed(at(2), "no".to_owned());
        assert_eq!(state.failures, 2);
        state.succeeded(at(3));
        assert_eq!((state.failures, state.last_push), (0, Some(at(3))));
        state.write(&history).unwrap();
        assert_eq!(LinkState::read(&history), Some(state));
        std::fs::write(LinkState::place(&history), "garbage").unwrap();
        assert_eq!(LinkState::read(&history), None);
        LinkState::forget(&history);
        assert!(!LinkState::place(&history).exists());
    }
}
