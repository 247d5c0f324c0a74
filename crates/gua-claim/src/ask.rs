//! Requests for GPUs, at once or with a place in the queue, and their release.

use std::time::Duration;

use gua_model::{GpuUuid, ProcessKey, Uid};
use rustix::io::Errno;

use crate::claim::{Claim, ClaimId, LiveClaim};
use crate::directory::{ClaimDir, Lock};
use crate::error::ClaimError;
use crate::facts::{Kernel, Life, Observed};
use crate::offer::Offer;
use crate::queue::{TICKET, Ticket, Waiter, set_aside};
use crate::survey::Sweep;
use crate::user_dir::{MAX_FILES, UserDir, random_word};

pub use gua_model::claim::MAX_LEASE;

/// Maximum lifetime of a ticket.
pub const MAX_WAIT: Duration = Duration::from_hours(7 * 24);

/// Maximum number of GPUs and MIG instances in a request. No host has more, and it keeps the files of claims and events
/// well below their size limits.
pub const MAX_GPUS: usize = 256;

/// A request for GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Minimum number: fewer are not taken.
    pub at_least: usize,
    /// Maximum number, if so many are free.
    pub at_most: usize,
    pub lease: Duration,
    /// The process that the claim ends with.
    pub for_process: ProcessKey,
    /// The requesting process. Until the claim is handed over, it ends with this process.
    pub requester: ProcessKey,
}

/// Answer to a request.
#[derive(Debug)]
pub enum Answer {
    /// GPUs that a second sample must confirm.
    Offered(Offer),
    Short(Short),
    /// The sample is too old.
    StaleSample,
}

/// Too few GPUs are left, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Short {
    /// GPUs that are available now; fewer than asked for.
    pub left: Vec<GpuUuid>,
    pub claims: Vec<LiveClaim>,
    /// Waiters ahead, in order of arrival.
    pub ahead: Vec<Waiter>,
}

impl ClaimDir {
    /// Takes GPUs at once, or returns why there are too few. Waiters go first.
    pub fn take(
        &self,
        request: &Request,
        observed: &Observed,
        kernel: &dyn Kernel,
    ) -> Result<Answer, ClaimError> {
        let lock = self.checked_lock(request, observed, kernel)?;
        self.take_locked(&lock, request, None, observed, kernel)
    }

    /// Joins the end of the queue for the asking process, until the ticket is dropped or the process ends.
    pub fn join(
        &self,
        request: &Request,
        observed: &Observed,
        kernel: &dyn Kernel,
    ) -> Result<Ticket, ClaimError> {
        let lock = self.checked_lock(request, observed, kernel)?;
        let (survey, _) = self.read_all(observed, kernel, Sweep::Ended)?;
        let mine = |waiter: &&Waiter| self.is_mine(waiter.owner);
        if survey.queue.iter().filter(mine).count() >= MAX_FILES / 2 {
            return Err(self.too_many("waiting processes"));
        }
        let user_dir = self.own_user_dir(&lock)?;
        let now = kernel.now();
        let waiter = Waiter {
            owner: self.me(),
            process: request.requester,
            namespace: kernel.namespace(),
            wanted: request.at_least,
            arrived: now.since_boot,
            acceptable: acceptable(observed),
            renewed: now.wall,
            name: format!("{TICKET}{}", random_word()),
        };
        let ticket = Ticket {
            waiter,
            ahead: survey.queue.iter().map(Waiter::id).collect(),
            user_dir,
            leftovers: Vec::new(),
        };
        ticket
            .user_dir
            .write(&ticket.waiter.name, &ticket.waiter.to_bytes())
            .map_err(|source| self.cannot_write(source))?;
        Ok(ticket)
    }

    /// Takes GPUs if it is the ticket's turn. Drop the ticket once they are handed over.
    pub fn advance(
        &self,
        ticket: &mut Ticket,
        request: &Request,
        observed: &Observed,
        kernel: &dyn Kernel,
    ) -> Result<Answer, ClaimError> {
        let lock = self.checked_lock(request, observed, kernel)?;
        self.sweep(&std::mem::take(&mut ticket.leftovers), observed, kernel);
        ticket.waiter.acceptable = acceptable(observed);
        self.put_in(&lock, ticket)?;
        self.take_locked(&lock, request, Some(ticket), observed, kernel)
    }

    /// Publishes which GPUs this ticket would take, and that its process is still waiting. A ticket that was removed
    /// (by a cleaner of temporary files, or with the whole user directory) is written again and keeps its place: the
    /// waiters behind it know its id.
    fn put_in(&self, lock: &Lock, ticket: &mut Ticket) -> Result<(), ClaimError> {
        let bytes = ticket.waiter.to_bytes();
        let mut written = ticket.user_dir.write(&ticket.waiter.name, &bytes);
        if written == Err(Errno::NOENT) {
            ticket.user_dir = self.own_user_dir(lock)?;
            written = ticket.user_dir.write(&ticket.waiter.name, &bytes);
        }
        written.map_err(|source| self.cannot_write(source))
    }

    /// Pause before the next [`ClaimDir::advance`], by the number of waiters ahead.
    pub fn pause(ahead: usize) -> Duration {
        let steps = u32::try_from(ahead).unwrap_or(u32::MAX).min(8);
        Duration::from_millis(300 + 200 * u64::from(steps))
    }

    /// Releases the GPUs of a claim. It needs no lock, so no other user can block it. Root may release any user's
    /// claim: all claims with this id are removed, because anyone can copy an id and the copy must not be removed
    /// instead of the claim.
    pub fn release(&self, id: &ClaimId) -> Result<Vec<Claim>, ClaimError> {
        let mut released = self.remove_claims(id, Some(self.me()))?;
        if released.is_empty() && self.me() == Uid::ROOT {
            released = self.remove_claims(id, None)?;
        }
        if released.is_empty() {
            for user_dir in self.user_dirs(None, &mut Vec::new())? {
                if let Some(Claim { id, owner, .. }) = self.claim_in(&user_dir?, id)? {
                    return Err(ClaimError::NotYours { id, owner });
                }
            }
            return Err(ClaimError::NoSuchClaim(id.clone()));
        }
        released.sort_by_key(|claim| claim.owner);
        Ok(released)
    }

    /// Acquires the lock for a request, if the request can be granted at all.
    fn checked_lock(
        &self,
        request: &Request,
        observed: &Observed,
        kernel: &dyn Kernel,
    ) -> Result<Lock, ClaimError> {
        if request.at_least == 0 {
            return Err(ClaimError::NoGpus);
        }
        if request.at_least > observed.gpus.min(MAX_GPUS) {
            return Err(ClaimError::Impossible {
                wanted: request.at_least,
                gpus: observed.gpus,
            });
        }
        if request.lease > MAX_LEASE {
            return Err(ClaimError::TooLong);
        }
        if kernel.standing(&request.for_process) == Life::Ended {
            return Err(ClaimError::ProcessEnded);
        }
        self.lock()
    }

    /// Chooses GPUs and writes the claim, under the lock.
    fn take_locked(
        &self,
        lock: &Lock,
        request: &Request,
        ticket: Option<&mut Ticket>,
        observed: &Observed,
        kernel: &dyn Kernel,
    ) -> Result<Answer, ClaimError> {
        if Self::is_stale(observed, kernel) {
            return Ok(Answer::StaleSample);
        }
        let (survey, leftovers) = self.read_all(observed, kernel, Sweep::Ended)?;
        let now = kernel.now();
        let claimed = survey.claimed();
        let comes_before = |waiter: &Waiter| match &ticket {
            Some(ticket) => ticket.ahead.contains(&waiter.id()),
            None => true,
        };
        let mut ahead = survey.queue;
        ahead.retain(|waiter| comes_before(waiter) && waiter.counts(observed, &now, kernel));
        let aside = set_aside(&ahead, &claimed, observed, &now);
        let mut left: Vec<GpuUuid> = observed.free.clone();
        left.retain(|gpu| !claimed.contains(gpu) && !aside.contains(gpu));
        if left.len() < request.at_least {
            if let Some(ticket) = ticket {
                ticket.leftovers = leftovers;
            }
            return Ok(Answer::Short(Short {
                left,
                claims: survey.claims,
                ahead,
            }));
        }
        let own = |live: &&LiveClaim| self.is_mine(live.claim.owner);
        if survey.claims.iter().filter(own).count() >= MAX_FILES / 2 {
            return Err(self.too_many("claims"));
        }
        left.truncate(request.at_most.clamp(request.at_least, MAX_GPUS));
        let claim = Claim {
            id: ClaimId::fresh(),
            owner: self.me(),
            gpus: left,
            for_process: request.for_process,
            namespace: kernel.namespace(),
            session: kernel.session(&request.for_process),
            made: now.wall,
            deadline: now.since_boot + request.lease,
        };
        let offer = self.offer(lock, claim, request.requester, now.since_boot, leftovers)?;
        Ok(Answer::Offered(offer))
    }

    /// Removes the claims of one user or of all that have this id.
    fn remove_claims(&self, id: &ClaimId, only: Option<Uid>) -> Result<Vec<Claim>, ClaimError> {
        let mut removed = Vec::new();
        for user_dir in self.user_dirs(only, &mut Vec::new())? {
            let user_dir = user_dir?;
            if let Some(claim) = self.claim_in(&user_dir, id)? {
                match user_dir.remove(&id.file()) {
                    Ok(()) => removed.push(claim),
                    Err(Errno::NOENT) => {}
                    Err(source) => return Err(self.cannot_write(source)),
                }
            }
        }
        Ok(removed)
    }

    fn claim_in(&self, user_dir: &UserDir, id: &ClaimId) -> Result<Option<Claim>, ClaimError> {
        let name = id.file();
        let entry = user_dir.read(&name);
        let entry = entry.map_err(|source| self.cannot_read(source))?;
        let entry = entry.and_then(Result::ok);
        Ok(entry.and_then(|entry| Claim::from_bytes(entry.owner, &name, &entry.bytes)))
    }

    /// Whether a file belongs to the same person as this process.
    fn is_mine(&self, owner: Uid) -> bool {
        self.person(owner) == self.person(self.me())
    }

    fn too_many(&self, what: &'static str) -> ClaimError {
        ClaimError::TooMany {
            owner: self.me(),
            what,
        }
    }
}

/// GPUs for the ticket, limited to the number that fits into its file.
fn acceptable(observed: &Observed) -> Vec<GpuUuid> {
    observed.acceptable.iter().take(MAX_GPUS).cloned().collect()
}
