//! Contents of all user directories: live claims, waiters, entries that do not count, and files that may be removed.

use std::collections::HashSet;
use std::time::Duration;

use gua_model::{GpuUuid, Uid};
use rustix::io::Errno;

use crate::claim::{CLAIM, Claim, Ended, Judged, LiveClaim};
use crate::directory::ClaimDir;
use crate::error::{ClaimError, Problem, Trouble};
use crate::facts::{Kernel, Moment, Observed};
use crate::queue::{TICKET, Waiter, set_aside};
use crate::user_dir::{Allowance, UserDir};

/// Contents of the shared directory, and problems with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// By owner and id.
    pub claims: Vec<LiveClaim>,
    /// In order of arrival, the stopped ones included.
    pub queue: Vec<Waiter>,
    pub problems: Vec<Problem>,
}

/// A claim whose process had ended when it was read. It is removed only if a later sample shows none of its processes on
/// the GPUs.
#[derive(Clone, Debug)]
pub(crate) struct Leftover {
    owner: Uid,
    name: String,
    seen: Duration,
}

/// Whether files that no longer count are removed; only under the lock, and only where that is allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sweep {
    Nothing,
    Ended,
}

impl Survey {
    /// GPUs that are claimed.
    pub fn claimed(&self) -> HashSet<GpuUuid> {
        let gpus = self.claims.iter().flat_map(|live| &live.gpus);
        gpus.map(|gpu| gpu.gpu.clone()).collect()
    }

    /// Free GPUs that are reserved for waiters.
    pub fn kept(&self, observed: &Observed, kernel: &dyn Kernel) -> HashSet<GpuUuid> {
        let now = kernel.now();
        let counts = |waiter: &&Waiter| waiter.counts(observed, &now, kernel);
        let waiting = self.queue.iter().filter(counts);
        set_aside(waiting, &self.claimed(), observed, &now)
    }
}

impl ClaimDir {
    /// Reads claims and waiters without the lock, for listings.
    pub fn survey(&self, observed: &Observed, kernel: &dyn Kernel) -> Result<Survey, ClaimError> {
        Ok(self.read_all(observed, kernel, Sweep::Nothing)?.0)
    }

    /// Returns the survey, and the claims that may be removed when a later sample agrees.
    pub(crate) fn read_all(
        &self,
        observed: &Observed,
        kernel: &dyn Kernel,
        sweep: Sweep,
    ) -> Result<(Survey, Vec<Leftover>), ClaimError> {
        let fail = |source| self.cannot_read(source);
        let mut reading = Reading {
            observed,
            kernel,
            now: kernel.now(),
            survey: Survey::default(),
            leftovers: Vec::new(),
            allowance: Allowance::default(),
        };
        let mut problems = Vec::new();
        for user_dir in self.user_dirs(None, &mut problems)? {
            let user_dir = user_dir?;
            let may_sweep = sweep == Sweep::Ended && self.may_change(user_dir.owner);
            reading.claims(&user_dir, may_sweep).map_err(fail)?;
            reading.queue(&user_dir, may_sweep).map_err(fail)?;
            if may_sweep {
                user_dir.sweep_unfinished(reading.now.wall.as_second());
            }
        }
        let mut survey = reading.survey;
        survey.problems = reading.allowance.problems;
        survey.problems.append(&mut problems);
        // Claims, tickets and user directories are counted separately; too many of a user are one problem.
        let mut too_many = HashSet::new();
        survey.problems.retain(|problem| {
            problem.trouble != Trouble::TooMany || too_many.insert(problem.owner)
        });
        let by_name = |problem: &Problem| (problem.owner, problem.name.clone());
        survey.problems.sort_by_cached_key(by_name);
        let place = |waiter: &Waiter| (waiter.arrived, waiter.id());
        survey.queue.sort_by_cached_key(place);
        survey
            .claims
            .sort_by_cached_key(|live| (live.claim.owner, live.claim.id.clone()));
        Ok((survey, reading.leftovers))
    }

    /// Removes the claims that had ended before this sample and are not in use in it.
    pub(crate) fn sweep(&self, leftovers: &[Leftover], observed: &Observed, kernel: &dyn Kernel) {
        let is_older = |leftover: &&Leftover| leftover.seen <= observed.at.since_boot;
        let owners: HashSet<Uid> = leftovers
            .iter()
            .filter(is_older)
            .map(|left| left.owner)
            .collect();
        for owner in owners {
            // A file that cannot be removed now does not count anyway.
            let mut problems = Vec::new();
            let user_dirs = self.user_dirs(Some(owner), &mut problems);
            for user_dir in user_dirs.into_iter().flatten().flatten() {
                let own = leftovers.iter().filter(|left| left.owner == owner);
                for leftover in own.filter(is_older) {
                    let Ok(Some(Ok(entry))) = user_dir.read(&leftover.name) else {
                        continue;
                    };
                    let claim = Claim::from_bytes(entry.owner, &entry.name, &entry.bytes);
                    let judged = claim.map(|claim| claim.judge(observed, kernel));
                    if matches!(judged, Some(Judged::Ended(_))) {
                        let _ = user_dir.remove(&leftover.name);
                    }
                }
            }
        }
    }

    fn may_change(&self, owner: Uid) -> bool {
        owner == self.me() || self.me() == Uid::ROOT
    }
}

/// A survey in progress, and the facts by which entries are judged.
struct Reading<'a> {
    observed: &'a Observed,
    kernel: &'a dyn Kernel,
    now: Moment,
    survey: Survey,
    leftovers: Vec<Leftover>,
    allowance: Allowance,
}

impl Reading<'_> {
    fn claims(&mut self, user_dir: &UserDir, may_sweep: bool) -> Result<(), Errno> {
        let owner = user_dir.owner;
        for entry in user_dir.entries(CLAIM, &mut self.allowance)? {
            let name = entry.name;
            match Claim::from_bytes(entry.owner, &name, &entry.bytes)
                .map(|claim| claim.judge(self.observed, self.kernel))
            {
                Some(Judged::Live(live)) => self.survey.claims.push(live),
                // A file that cannot be removed now does not count anyway.
                Some(Judged::Ended(Ended::Certain)) if may_sweep => drop(user_dir.remove(&name)),
                Some(Judged::Ended(Ended::WithItsProcess)) if may_sweep => {
                    self.leftovers.push(Leftover {
                        owner,
                        name,
                        seen: self.now.since_boot,
                    });
                }
                Some(Judged::Ended(_)) => {}
                Some(Judged::TooLong) => self.allowance.report(owner, &name, Trouble::TooLong),
                None => self.allowance.report(owner, &name, Trouble::Garbled),
            }
        }
        Ok(())
    }

    fn queue(&mut self, user_dir: &UserDir, may_sweep: bool) -> Result<(), Errno> {
        let owner = user_dir.owner;
        for entry in user_dir.entries(TICKET, &mut self.allowance)? {
            let name = &entry.name;
            match Waiter::from_entry(&entry, &self.now) {
                Some(waiter) if !waiter.has_ended(&self.now, self.kernel) => {
                    self.survey.queue.push(waiter);
                }
                // A ticket is created atomically, so this one is not being written.
                Some(_) | None if may_sweep => drop(user_dir.remove(name)),
                Some(_) => {}
                None => self.allowance.report(owner, name, Trouble::Garbled),
            }
        }
        Ok(())
    }
}
