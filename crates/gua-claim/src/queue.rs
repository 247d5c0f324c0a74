//! The queue: waiting in order of arrival.
//!
//! A waiter's ticket contains the number of GPUs that it waits for, and which ones it would take once they are free.
//! Free GPUs are **set aside** for the waiters ahead, in their order; later requests take from the rest. So a request
//! for one GPU does not wait behind one for another model, and a request for eight is not starved by a stream of small
//! ones. While too few GPUs are free for a request, they are kept idle for it only during its first hour
//! ([`MAX_KEEP_TIME`]); after that it is still the first to be served whenever enough are free at once.
//!
//! **The order is what each waiter saw when it joined**, under the lock. No clock decides it: neither a clock that is
//! set back nor a ticket with a forged time of arrival moves any waiter. The time of arrival is for display, and on the
//! clock since boot.
//!
//! A ticket counts for a living process of its file's owner only: a file that names PID 1 reserves nothing. Skipped are
//! also waiters that are stopped (Ctrl-Z: they keep their place), and that want more GPUs than the host has. A process in
//! another PID namespace, or one that `hidepid` hides, cannot be checked: its ticket counts as long as it is renewed,
//! which the kernel records (`st_ctime`).

use std::collections::HashSet;
use std::time::Duration;

use gua_model::{GpuUuid, ProcessKey, Uid};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ask::{MAX_GPUS, MAX_WAIT};
use crate::claim::{WrittenProcess, micros};
use crate::facts::{Kernel, Life, Moment, Observed, PidNamespace, is_elsewhere};
use crate::survey::Leftover;
use crate::user_dir::{Entry, UserDir};

pub(crate) const TICKET: &str = "wait-";
const VERSION: u32 = 1;

/// Maximum time for which free GPUs are kept for a waiter that needs more of them.
pub const MAX_KEEP_TIME: Duration = Duration::from_hours(1);

/// Time after which a waiter that cannot be checked is skipped if it has not renewed its ticket. It renews it every few
/// seconds, unless it was stopped or killed, or its driver does not answer.
const SILENCE: Duration = Duration::from_mins(2);

/// A waiting process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    pub owner: Uid,
    /// Process that waits.
    pub process: ProcessKey,
    /// PID namespace of the process.
    pub namespace: Option<PidNamespace>,
    pub wanted: usize,
    /// Time of arrival since boot.
    pub arrived: Duration,
    /// GPUs that it would take once they are free, best first.
    pub acceptable: Vec<GpuUuid>,
    /// Time at which its ticket was last written, according to the kernel.
    pub(crate) renewed: Timestamp,
    pub(crate) name: String,
}

/// Unique id of a ticket: its owner and its file name.
pub(crate) type TicketId = (Uid, String);

/// A place in the queue, given up when it is dropped.
#[derive(Debug)]
pub struct Ticket {
    pub(crate) waiter: Waiter,
    /// Tickets that were in the queue when this one joined.
    pub(crate) ahead: HashSet<TicketId>,
    pub(crate) user_dir: UserDir,
    /// Claims that seemed to have ended at the last request.
    pub(crate) leftovers: Vec<Leftover>,
}

impl Ticket {
    /// Time of arrival since boot.
    pub fn arrived(&self) -> Duration {
        self.waiter.arrived
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // If the removal fails, the ticket counts only while this process lives.
        let _ = self.user_dir.remove(&self.waiter.name);
    }
}

impl Waiter {
    pub(crate) fn id(&self) -> TicketId {
        (self.owner, self.name.clone())
    }

    /// Whether this waiter has ended.
    pub(crate) fn has_ended(&self, now: &Moment, kernel: &dyn Kernel) -> bool {
        self.process.boot != now.boot
            || now.since_boot.saturating_sub(self.arrived) > MAX_WAIT
            || self.standing(kernel) == Life::Ended
    }

    /// State of its process. A process of another user is not the one that wrote the ticket.
    fn standing(&self, kernel: &dyn Kernel) -> Life {
        if is_elsewhere(self.namespace, kernel) {
            return Life::Unknown;
        }
        match kernel.standing(&self.process) {
            Life::Running | Life::Stopped if kernel.user(&self.process) != Some(self.owner) => {
                Life::Ended
            }
            standing => standing,
        }
    }

    /// Whether the waiters behind have to wait for this one.
    pub(crate) fn counts(&self, observed: &Observed, now: &Moment, kernel: &dyn Kernel) -> bool {
        self.wanted <= observed.gpus
            && match self.standing(kernel) {
                Life::Running => true,
                Life::Stopped | Life::Ended => false,
                Life::Unknown => now.wall.duration_since(self.renewed).unsigned_abs() <= SILENCE,
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

    /// Parses a ticket. A time of arrival in the future is replaced by now.
    pub(crate) fn from_entry(entry: &Entry, now: &Moment) -> Option<Self> {
        let written: WrittenTicket = serde_json::from_slice(&entry.bytes).ok()?;
        if written.acceptable.len() > MAX_GPUS {
            return None;
        }
        Some(Self {
            owner: entry.owner,
            process: written.waiter.key()?,
            namespace: written.waiter.namespace(),
            wanted: written.wanted,
            arrived: Duration::from_micros(written.arrived_us).min(now.since_boot),
            acceptable: written.acceptable,
            renewed: entry.changed,
            name: entry.name.clone(),
        })
    }
}

/// GPUs that are set aside for the waiters ahead: of the GPUs that are free in this sample, as many as each wants and
/// would take.
pub(crate) fn set_aside<'a>(
    ahead: impl IntoIterator<Item = &'a Waiter>,
    claimed: &HashSet<GpuUuid>,
    observed: &Observed,
    now: &Moment,
) -> HashSet<GpuUuid> {
    let free: HashSet<&GpuUuid> = observed.vacant.iter().chain(&observed.free).collect();
    let mut aside = HashSet::new();
    for waiter in ahead {
        let for_it: Vec<_> = waiter
            .acceptable
            .iter()
            .filter(|gpu| free.contains(*gpu))
            .filter(|gpu| !claimed.contains(*gpu) && !aside.contains(*gpu))
            .take(waiter.wanted)
            .cloned()
            .collect();
        let suffices = for_it.len() >= waiter.wanted;
        if suffices || now.since_boot.saturating_sub(waiter.arrived) < MAX_KEEP_TIME {
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
