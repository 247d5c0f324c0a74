//! The file with the state of the alerts: messages that wait for their delivery, past ones, and the cool-downs. It is
//! replaced atomically and synced before a message is sent, so that a message is neither lost nor sent twice by a restart.
//! Only a crash between the answer of a target and the next write delivers a message again, with the same id.

use std::io;
use std::path::Path;

use gua_files::NewFile;
use gua_model::alert::LastSent;
use gua_render::alert::AlertMessage;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::io::Write as _;

/// Maximum size of the file.
const MAX_BYTES: u64 = 32 << 20;
/// Maximum number of waiting messages. Beyond it, new ones are given up.
pub(super) const MAX_PENDING: usize = 256;
/// Maximum number of past messages.
const MAX_HISTORY: usize = 1000;
/// Age from which on a cool-down is forgotten; longer than any cool-down.
const OLD: SignedDuration = SignedDuration::from_hours(62 * 24);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct State {
    pub(super) last_sent: LastSent,
    /// In the order in which they were found.
    pub(super) pending: Vec<Pending>,
    /// Oldest first.
    pub(super) history: Vec<Past>,
}

/// A message that waits for its delivery.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pending {
    pub(super) message: AlertMessage,
    /// Kind of destination.
    pub(super) to: String,
    pub(super) attempts: u32,
    /// Error of the last attempt.
    pub(super) error: Option<String>,
}

/// A message that was delivered or given up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Past {
    pub(super) message: AlertMessage,
    pub(super) to: String,
    pub(super) attempts: u32,
    pub(super) at: Timestamp,
    /// Why it was given up; `None` if it was delivered.
    pub(super) error: Option<String>,
}

impl State {
    /// Reads the file; a missing file is an empty state.
    pub(super) fn load(path: &Path) -> io::Result<Self> {
        match gua_files::read_regular(path, MAX_BYTES) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn save(&self, path: &Path) -> io::Result<()> {
        let new = NewFile::begin_private(path)?;
        (&new.file).write_all(&serde_json::to_vec(self)?)?;
        new.finish()
    }

    /// Forgets old cool-downs.
    pub(super) fn prune(&mut self, now: Timestamp) {
        let is_recent = |at: &Timestamp| now.duration_since(*at) < OLD;
        self.last_sent.retain(|_, at| is_recent(at));
    }

    /// Moves a waiting message to the past ones.
    pub(super) fn end(&mut self, id: &str, at: Timestamp, error: Option<String>) {
        let Some(place) = self.pending.iter().position(|one| one.message.id == id) else {
            return;
        };
        let Pending {
            message,
            to,
            attempts,
            ..
        } = self.pending.remove(place);
        self.history.push(Past {
            message,
            to,
            attempts,
            at,
            error,
        });
        let excess = self.history.len().saturating_sub(MAX_HISTORY);
        self.history.drain(..excess);
    }

    /// When an alert last queued a message.
    pub(super) fn last_sent_by(&self, alert: &str) -> Option<Timestamp> {
        let of_alert = |key: &str| {
            key.strip_prefix(alert)
                .is_some_and(|rest| rest.starts_with(' '))
        };
        let sent = self.last_sent.iter();
        sent.filter(|(key, _)| of_alert(key))
            .map(|(_, at)| *at)
            .max()
    }
}
