//! Waiting in order of arrival.
//!
//! A waiter's ticket says for how many cards it waits, and which it would take once they are free. Cards that are free are
//! **set aside** for those ahead, in their order; whoever comes later takes from what is left. So a request for one card
//! does not wait behind one for another model, and a request for eight is not starved by a stream of small ones. Cards
//! are kept idle for a request that they do not suffice for only during its first hour ([`PATIENCE`]); after that it is
//! still the first to be served whenever enough are free at once.
//!
//! **Who is ahead is what each saw when it joined**, under the lock. No clock decides it: neither one that is set back nor a
//! ticket that tells an early arrival moves anyone. The time of arrival is for display, and on the clock since boot.
//!
//! Passed over are waiters that have ended, that are stopped (Ctrl-Z: they keep their place), and that want more cards
//! than the host has. Whether a waiter of another pid namespace lives cannot be asked: it counts while it asks.

use std::collections::HashSet;
use std::time::Duration;

use gua_model::{GpuUuid, ProcessKey, Uid};
use serde::{Deserialize, Serialize};

use crate::ask::{LONGEST_WAIT, MOST_CARDS};
use crate::claim::{WrittenProcess, micros};
use crate::facts::{Kernel, Look, Moment, PidNamespace, Standing, is_elsewhere};
use crate::survey::Leftover;
use crate::user_dir::{Entry, UserDir};

pub(crate) const TICKET: &str = "wait-";
const VERSION: u32 = 1;

/// How long free cards are kept for a waiter for whom they do not suffice.
pub const PATIENCE: Duration = Duration::from_hours(1);

/// A waiter of another pid namespace that has not asked for so long is passed over. It asks every few seconds, unless it
/// was stopped or killed, or its driver does not answer.
const SILENCE: Duration = Duration::from_mins(2);

/// One who waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    pub owner: Uid,
    /// The process that waits.
    pub process: ProcessKey,
    /// Where the process has this pid.
    pub namespace: Option<PidNamespace>,
    pub wanted: usize,
    /// On the clock that never jumps.
    pub arrived: Duration,
    /// The cards that it would take once they are free, best first.
    pub acceptable: Vec<GpuUuid>,
    /// When it last asked for its turn, on the clock that never jumps.
    pub(crate) asked: Duration,
    pub(crate) name: String,
}

/// A ticket, for telling it from all others: whose, and the name of its file.
pub(crate) type TicketId = (Uid, String);

/// A place in the queue, given up when it is dropped.
#[derive(Debug)]
pub struct Ticket {
    pub(crate) waiter: Waiter,
    /// Those who were in the queue when this one joined.
    pub(crate) ahead: HashSet<TicketId>,
    pub(crate) user_dir: UserDir,
    /// What seemed to have ended when this one last asked.
    pub(crate) leftovers: Vec<Leftover>,
}

impl Ticket {
    /// When the place was taken, on the clock since boot.
    #[must_use]
    pub fn arrived(&self) -> Duration {
        self.waiter.arrived
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // If it stays, it counts as long as this process lives and no longer.
        let _ = self.user_dir.remove(&self.waiter.name);
    }
}

impl Waiter {
    pub(crate) fn id(&self) -> TicketId {
        (self.owner, self.name.clone())
    }

    /// Whether this waiter has gone for good.
    pub(crate) fn has_ended(&self, now: &Moment, kernel: &dyn Kernel) -> bool {
        self.process.boot != now.boot
            || now.since_boot.saturating_sub(self.arrived) > LONGEST_WAIT
            || (!is_elsewhere(self.namespace, kernel)
                && kernel.standing(&self.process) == Standing::Ended)
    }

    /// Whether those behind have to wait for this one.
    pub(crate) fn counts(&self, look: &Look, now: &Moment, kernel: &dyn Kernel) -> bool {
        self.wanted <= look.cards
            && match is_elsewhere(self.namespace, kernel) {
                true => now.since_boot.saturating_sub(self.asked) <= SILENCE,
                false => kernel.standing(&self.process) != Standing::Stopped,
            }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let written = WrittenTicket {
            version: VERSION,
            waiter: WrittenProcess::new(self.process, self.namespace),
            wanted: self.wanted,
            arrived_us: micros(self.arrived),
            asked_us: micros(self.asked),
            acceptable: self.acceptable.clone(),
        };
        serde_json::to_vec(&written).expect("plain fields always fit JSON")
    }

    /// Nobody came later than now, whatever the ticket says.
    pub(crate) fn from_entry(entry: &Entry, now: &Moment) -> Option<Self> {
        let written: WrittenTicket = serde_json::from_slice(&entry.bytes).ok()?;
        if written.acceptable.len() > MOST_CARDS {
            return None;
        }
        let at = |said| Duration::from_micros(said).min(now.since_boot);
        Some(Self {
            owner: entry.owner,
            process: written.waiter.key()?,
            namespace: written.waiter.namespace(),
            wanted: written.wanted,
            arrived: at(written.arrived_us),
            acceptable: written.acceptable,
            asked: at(written.asked_us),
            name: entry.name.clone(),
        })
    }
}

/// The cards that are set aside for those who came before: of those that are free at this look, as many as each wants, of
/// those that each would take.
pub(crate) fn set_aside<'a>(
    ahead: impl IntoIterator<Item = &'a Waiter>,
    claimed: &HashSet<GpuUuid>,
    look: &Look,
    now: &Moment,
) -> HashSet<GpuUuid> {
    let free: HashSet<&GpuUuid> = look.vacant.iter().chain(&look.free).collect();
    let mut aside = HashSet::new();
    for waiter in ahead {
        let for_it: Vec<_> = waiter
            .acceptable
            .iter()
            .filter(|card| free.contains(*card))
            .filter(|card| !claimed.contains(*card) && !aside.contains(*card))
            .take(waiter.wanted)
            .cloned()
            .collect();
        let suffices = for_it.len() >= waiter.wanted;
        if suffices || now.since_boot.saturating_sub(waiter.arrived) < PATIENCE {
            aside.extend(for_it);
        }
    }
    aside
}

#[derive(Serialize, Deserialize)]
struct WrittenTicket {
    version: u32,
    waiter: WrittenProcess,
    wanted: usize,
    arrived_us: u64,
    asked_us: u64,
    acceptable: Vec<GpuUuid>,
}
