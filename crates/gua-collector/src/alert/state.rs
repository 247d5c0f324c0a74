//! The file with the state of the alerts: messages that wait for their delivery, past ones, and the cool-downs. It is
//! replaced atomically and synced before a message is sent, so that a message is neither lost nor sent twice by a restart.
//! Only a crash between the answer of a target and the next write delivers a message again, with the same id.

use std::io;
use std::path::Path;

use gua_files::{NewFile, Over};
use gua_model::alert::LastSent;
use gua_render::alert::AlertMessage;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::io::Write as _;

/// Maximum size of the file.
const MAX_BYTES: u64 = 32 << 20;
/// Maximum number of waiting messages, and of those about one host of a board. Beyond it, new ones are dropped; their
/// conditions are found again if they still hold when others have been delivered.
const MAX_PENDING: usize = 256;
const MAX_PENDING_OF_HOST: usize = 64;
/// Maximum number of cool-downs: enough for 12,500 hosts in several alerts. A condition whose cool-down was dropped is reported
/// again.
const MAX_COOL_DOWNS: usize = 60_000;
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
    /// The message. Its `error` is the reason it was given up, or `None` if it was delivered.
    #[serde(flatten)]
    pub(super) last: Pending,
    pub(super) at: Timestamp,
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

    pub(super) fn save(&mut self, path: &Path) -> io::Result<()> {
        let bytes = self.encode(MAX_BYTES)?;
        let new = NewFile::begin_private(path, Over::Write)?;
        (&new.file).write_all(&bytes)?;
        new.finish()
    }

    /// Encodes the state in at most this size, because a larger file would not be read. Past messages and cool-downs are forgotten
    /// for it, the oldest first.
    fn encode(&mut self, limit: u64) -> io::Result<Vec<u8>> {
        loop {
            let bytes = serde_json::to_vec(self)?;
            if bytes.len() as u64 <= limit {
                return Ok(bytes);
            }
            if self.history.is_empty() && self.last_sent.is_empty() {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            self.history.drain(..self.history.len().div_ceil(2));
            self.keep_cool_downs(self.last_sent.len() / 2);
        }
    }

    /// Forgets old cool-downs.
    pub(super) fn prune(&mut self, now: Timestamp) {
        let is_recent = |at: &Timestamp| now.duration_since(*at) < OLD;
        self.last_sent.retain(|_, at| is_recent(at));
        self.keep_cool_downs(MAX_COOL_DOWNS);
    }

    /// Keeps this number of cool-downs, the latest ones.
    fn keep_cool_downs(&mut self, most: usize) {
        let excess = self.last_sent.len().saturating_sub(most);
        if excess == 0 {
            return;
        }
        let mut all: Vec<_> = std::mem::take(&mut self.last_sent).into_iter().collect();
        all.sort_by_key(|(_, at)| *at);
        self.last_sent = all.into_iter().skip(excess).collect();
    }

    /// Whether another message about a host of a board can wait, or about several hosts or the host of the daemon (`None`).
    pub(super) fn has_room(&self, host: Option<&str>) -> bool {
        let is_of = |host: &str, one: &Pending| one.message.host_id.as_deref() == Some(host);
        let pending = self.pending.iter();
        self.pending.len() < MAX_PENDING
            && host.is_none_or(|host| {
                pending.filter(|one| is_of(host, one)).count() < MAX_PENDING_OF_HOST
            })
    }

    /// Finds a waiting message.
    pub(super) fn waiting(&mut self, id: &str) -> Option<&mut Pending> {
        self.pending.iter_mut().find(|one| one.message.id == id)
    }

    /// Moves a waiting message to the past ones.
    pub(super) fn end(&mut self, id: &str, at: Timestamp, error: Option<String>) {
        let Some(place) = self.pending.iter().position(|one| one.message.id == id) else {
            return;
        };
        let last = Pending {
            error,
            ..self.pending.remove(place)
        };
        self.history.push(Past { last, at });
        let excess = self.history.len().saturating_sub(MAX_HISTORY);
        self.history.drain(..excess);
    }

    /// Why the latest messages of an alert were not delivered.
    pub(super) fn failure_of(&self, alert: &str) -> Option<String> {
        let waiting = self.pending.iter().filter(|one| one.message.alert == alert);
        let mut errors = waiting.filter_map(|one| one.error.as_ref());
        if let Some(error) = errors.next_back() {
            return Some(format!("a message is waiting to be sent: {error}"));
        }
        let mut past = self.history.iter().rev();
        let Past { last, .. } = past.find(|past| past.last.message.alert == alert)?;
        let error = last.error.as_ref()?;
        Some(format!("the last message was given up: {error}"))
    }

    /// Time at which an alert last queued a message.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + second).unwrap()
    }

    /// A state with cool-downs, the later ones with the smaller keys.
    fn state(cool_downs: i64) -> State {
        let all = 0..cool_downs;
        State {
            last_sent: all
                .map(|second| (format!("lab {:06}", cool_downs - second), at(second)))
                .collect(),
            ..State::default()
        }
    }

    #[test]
    fn the_oldest_cool_downs_are_forgotten_when_there_are_too_many() {
        let mut state = state(MAX_COOL_DOWNS as i64 + 5);
        state.prune(at(0));
        assert_eq!(state.last_sent.len(), MAX_COOL_DOWNS);
        assert_eq!(state.last_sent.values().min(), Some(&at(5)));
    }

    #[test]
    fn a_state_is_never_written_that_is_too_large_to_be_read() {
        let mut state = state(100);
        let bytes = state.encode(2000).unwrap();
        assert!(bytes.len() <= 2000);
        let read: State = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(read.last_sent.len(), 50);
        assert_eq!(read.last_sent.values().max(), Some(&at(99)));
        assert!(state.encode(10).is_err());
    }
}
