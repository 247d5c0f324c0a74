//! Waiting in order of arrival.
//!
//! A waiter's ticket says since when, for how many cards, and which cards it would take now. Cards that are free are
//! **set aside** for those ahead, in their order; whoever comes later takes from what is left. So a request for one card
//! does not wait behind one for another model, and a request for eight is not starved by a stream of small ones. Cards
//! are kept idle for a request that they do not suffice for only during its first hour ([`PATIENCE`]); after that it is
//! still the first to be served whenever enough are free at once.
//!
//! Passed over are waiters that have ended, that are stopped (Ctrl-Z: they keep their place), and that want more cards
//! than the host has. Whether a waiter of another pid namespace lives cannot be asked: it counts while it asks.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::time::Duration;

use gua_model::{GpuUuid, ProcessKey, Uid};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW};
use serde::{Deserialize, Serialize};

use crate::ask::LONGEST_WAIT;
use crate::claim::{LOOK_AGE, WrittenProcess, micros};
use crate::drawer::{Drawer, Entry, overwrite};
use crate::facts::{Look, PidNamespace, Processes, Standing, is_elsewhere};

pub(crate) const TICKET: &str = "wait-";
const VERSION: u32 = 1;

/// How long free cards are kept for a waiter for whom they do not suffice.
pub const PATIENCE: Duration = Duration::from_hours(1);

/// The wall clock may be corrected by this much, and a file's birth has whole seconds.
const BIRTH_SLACK: Duration = Duration::from_secs(5);

/// A waiter of another pid namespace that has not asked for so long is passed over. It asks every few seconds, unless it
/// was stopped or killed, or its driver does not answer.
const SILENCE_SECONDS: i64 = 120;

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
    /// The cards that it would take now if they were not claimed.
    pub acceptable: Vec<GpuUuid>,
    /// When it last asked for its turn, by the wall clock in seconds.
    pub(crate) asked: i64,
    pub(crate) name: String,
}

/// A place in the queue, given up when it is dropped.
#[derive(Debug)]
pub struct Ticket {
    pub(crate) waiter: Waiter,
    pub(crate) drawer: Drawer,
    pub(crate) file: OwnedFd,
}

impl Ticket {
    /// The place in the order of arrival: never moves, unless others ahead leave.
    #[must_use]
    pub fn arrived(&self) -> Duration {
        self.waiter.arrived
    }

    /// Tells those behind which cards would be taken now, and that somebody still asks.
    pub(crate) fn accept(&mut self, free: &[GpuUuid]) -> Result<(), rustix::io::Errno> {
        if self.waiter.acceptable != free {
            free.clone_into(&mut self.waiter.acceptable);
            return overwrite(&self.file, &self.waiter.to_bytes());
        }
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        rustix::fs::futimens(&self.file, &times)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // If it stays, it counts as long as this process lives and no longer.
        let _ = self.drawer.remove(&self.waiter.name);
    }
}

impl Waiter {
    /// Whether this waiter has gone for good.
    pub(crate) fn has_ended(&self, look: &Look, processes: &dyn Processes) -> bool {
        self.process.boot != look.at.boot
            || look.at.since_boot.saturating_sub(self.arrived) > LONGEST_WAIT
            || (!is_elsewhere(self.namespace, processes)
                && processes.standing(&self.process) == Standing::Ended)
    }

    /// Whether those behind have to wait for this one.
    pub(crate) fn counts(&self, look: &Look, processes: &dyn Processes) -> bool {
        self.wanted <= look.cards
            && match is_elsewhere(self.namespace, processes) {
                true => look.at.wall.as_second().saturating_sub(self.asked) <= SILENCE_SECONDS,
                false => processes.standing(&self.process) != Standing::Stopped,
            }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let written = WrittenTicket {
            version: VERSION,
            waiter: WrittenProcess::new(self.process, self.namespace),
            wanted: self.wanted,
            arrived_us: micros(self.arrived),
            acceptable: self.acceptable.clone(),
        };
        serde_json::to_vec(&written).expect("plain fields always fit JSON")
    }

    pub(crate) fn from_entry(entry: &Entry, look: &Look) -> Option<Self> {
        let written: WrittenTicket = serde_json::from_slice(&entry.bytes).ok()?;
        let said = Duration::from_micros(written.arrived_us);
        // Nobody comes from the future; honest looks differ by no more than the wait for the lock.
        if said > look.at.since_boot + LOOK_AGE {
            return None;
        }
        Some(Self {
            owner: entry.owner,
            process: written.waiter.key()?,
            namespace: written.waiter.namespace(),
            wanted: written.wanted,
            arrived: arrival(said, entry.born, look),
            acceptable: written.acceptable,
            asked: entry.changed,
            name: entry.name.clone(),
        })
    }
}

/// Nobody came before their file was made, whatever it says; the kernel knows when that was, if the file system keeps it.
fn arrival(said: Duration, born: Option<i64>, look: &Look) -> Duration {
    let Some(born) = born else { return said };
    let age = look.at.wall.as_second().saturating_sub(born);
    let age = Duration::from_secs(u64::try_from(age).unwrap_or(0));
    let made = look.at.since_boot.saturating_sub(age);
    if made > said + BIRTH_SLACK {
        // Whole seconds, rounded so that a lie gains nothing.
        made + Duration::from_secs(1)
    } else {
        said
    }
}

/// The cards that are set aside for those who came before.
pub(crate) fn set_aside<'a>(
    ahead: impl IntoIterator<Item = &'a Waiter>,
    claimed: &HashSet<GpuUuid>,
    now: Duration,
) -> HashSet<GpuUuid> {
    let mut aside = HashSet::new();
    for waiter in ahead {
        let for_it: Vec<_> = waiter
            .acceptable
            .iter()
            .filter(|card| !claimed.contains(*card) && !aside.contains(*card))
            .take(waiter.wanted)
            .cloned()
            .collect();
        let suffices = for_it.len() >= waiter.wanted;
        if suffices || now.saturating_sub(waiter.arrived) < PATIENCE {
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
    acceptable: Vec<GpuUuid>,
}
