//! Events: messages of users to the collector, as files in their user directories, attributed to the owner of the file.
//!
//! Claims of an event about *others* (who held which GPU) are unverified; the collector has its own history to compare with.

use std::collections::{HashMap, HashSet};

use gua_model::refusal::RefusalOutcome;
use gua_model::{GpuUuid, Uid};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::directory::ClaimDir;
use crate::error::{ClaimError, Problem, Trouble};
use crate::user_dir::{Allowance, MAX_FILE, UserDir, random_word};

const EVENT: &str = "event-";
const VERSION: u32 = 1;
/// Maximum number of events of a user; the oldest is removed when one more is written.
const MAX_EVENTS: usize = 128;
/// Maximum number of events read at once from one person, so that a flood does not delay the collector's ticks.
const MAX_AT_ONCE: usize = 64;

/// Something that a user's program did.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", content = "body", rename_all = "lowercase")]
pub enum Event {
    Refusal(Refusal),
    Run(Run),
}

/// A request for GPUs that was not granted at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Time of the request.
    pub at: Timestamp,
    pub wanted: usize,
    /// Number of GPUs that were available.
    pub left: usize,
    pub outcome: RefusalOutcome,
    /// Time spent waiting; zero for a request without a wait.
    pub waited: SignedDuration,
    /// GPUs that others held.
    pub blocked_by: Vec<BlockingGpu>,
}

/// A GPU that another user held at the time of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockingGpu {
    pub gpu: GpuUuid,
    /// Users who held it.
    pub users: Vec<Uid>,
    /// Time since when it was held without being used; `None` if it was in use or that is unknown.
    pub idle_since: Option<Timestamp>,
}

/// A watched job, without its command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Id of the run, unique for its user.
    pub id: String,
    /// Short name of the program.
    pub name: String,
    pub started: Timestamp,
    /// `None` in the event of the start.
    pub ended: Option<Timestamp>,
    /// As in a shell: 128 plus the signal's number for a job that was killed.
    pub exit_code: Option<i32>,
    pub gpus: Vec<GpuUuid>,
    /// The summary in the form of `summary.json`.
    pub summary: Map<String, Value>,
}

/// Identity of an event: its owner and the name of its file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EventId {
    pub owner: Uid,
    pub name: String,
}

/// Result of [`ClaimDir::events`].
#[derive(Debug, Default)]
pub struct ReadEvents {
    /// Events that were not known, oldest first for each user.
    pub new: Vec<(EventId, Event)>,
    /// Files that were read and contain no event: written by a later `gua`, damaged or unreadable. A caller that
    /// remembers them need not read them again.
    pub passed_over: Vec<EventId>,
    /// All existing events, including kinds that we do not know. A caller can forget any other id that it remembers.
    pub present: HashSet<EventId>,
    pub problems: Vec<Problem>,
}

impl ClaimDir {
    /// Writes an event for the collector, and removes the caller's oldest ones.
    pub fn record(&self, event: &Event, now: Timestamp) -> Result<(), ClaimError> {
        let bytes = to_bytes(event);
        if bytes.len() > MAX_FILE {
            return Err(self.cannot_write(rustix::io::Errno::FBIG));
        }
        let fail = |source| self.cannot_write(source);
        let user_dir = self.user_dir_to_write()?;
        let names = user_dir.names(EVENT, &mut Allowance::default());
        let names = names.map_err(fail)?;
        for name in names.iter().rev().skip(MAX_EVENTS - 1) {
            let _ = user_dir.remove(name);
        }
        let micros = now.as_microsecond().max(0);
        let name = format!("{EVENT}{micros:016x}-{}", random_word());
        user_dir.write(&name, &bytes).map_err(fail)
    }

    /// Returns the events that are not among the known ones. The collector remembers the events that it has imported:
    /// only the owners can remove the files, so there is no other mark.
    pub fn events(&self, known: &HashSet<EventId>) -> Result<ReadEvents, ClaimError> {
        let mut taken = ReadEvents::default();
        let mut limits = Limits::default();
        let mut problems = Vec::new();
        for user_dir in self.user_dirs(None, &mut problems)? {
            let read = taken.read(&user_dir?, known, &mut limits);
            read.map_err(|source| self.cannot_read(source))?;
        }
        taken.problems = limits.names.problems;
        taken.problems.append(&mut problems);
        Ok(taken)
    }
}

/// Limits on the events that are read from each person at once.
#[derive(Default)]
struct Limits {
    names: Allowance,
    opened: HashMap<Uid, usize>,
}

impl ReadEvents {
    fn read(
        &mut self,
        user_dir: &UserDir,
        known: &HashSet<EventId>,
        limits: &mut Limits,
    ) -> Result<(), rustix::io::Errno> {
        let opened = limits.opened.entry(user_dir.person).or_default();
        for name in user_dir.names(EVENT, &mut limits.names)? {
            let id = EventId {
                owner: user_dir.owner,
                name,
            };
            if !known.contains(&id) && *opened < MAX_AT_ONCE {
                *opened += 1;
                let Some(entry) = user_dir.read(&id.name)? else {
                    continue;
                };
                let garbled = || Problem::new(user_dir.owner, &id.name, Trouble::Garbled);
                match entry.and_then(|entry| from_bytes(&entry.bytes).ok_or_else(garbled)) {
                    Ok(Some(event)) => self.new.push((id.clone(), event)),
                    Ok(None) => self.passed_over.push(id.clone()),
                    Err(problem) => {
                        self.passed_over.push(id.clone());
                        limits.names.problems.push(problem);
                    }
                }
            }
            self.present.insert(id);
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Envelope {
    version: u32,
    kind: String,
    body: Value,
}

fn to_bytes(event: &Event) -> Vec<u8> {
    #[derive(Serialize)]
    struct Written<'a> {
        version: u32,
        #[serde(flatten)]
        event: &'a Event,
    }
    let version = VERSION;
    serde_json::to_vec(&Written { version, event }).expect("plain fields always fit JSON")
}

/// Parses an event; `None` if it is damaged, and `Some(None)` for a kind or a version of a later `gua`.
fn from_bytes(bytes: &[u8]) -> Option<Option<Event>> {
    let envelope: Envelope = serde_json::from_slice(bytes).ok()?;
    if envelope.version > VERSION {
        return Some(None);
    }
    let event = match envelope.kind.as_str() {
        "refusal" => Event::Refusal(serde_json::from_value(envelope.body).ok()?),
        "run" => Event::Run(serde_json::from_value(envelope.body).ok()?),
        _ => return Some(None),
    };
    Some(Some(event))
}
