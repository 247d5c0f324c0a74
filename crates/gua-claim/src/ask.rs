//! Asking for cards: at once, or with a place in the queue; giving them back; and a survey of who has what.

use std::collections::HashSet;
use std::time::Duration;

use gua_model::{GpuUuid, ProcessKey, Uid};
use rustix::io::Errno;

use crate::claim::{CLAIM, Claim, ClaimId, Judged, LiveClaim};
use crate::directory::{ClaimDir, Lock};
use crate::drawer::{Allowance, Drawer, MOST_FILES, random_word};
use crate::error::{ClaimError, Problem, Trouble};
use crate::facts::{Look, Processes, Standing};
use crate::queue::{TICKET, Ticket, Waiter, set_aside};

/// No claim lasts longer, whoever wrote it and whatever it says. A shorter limit is the caller's to set; this one is part
/// of the format, because a claim that one user honours and another does not is a card given twice.
pub const LONGEST_LEASE: Duration = Duration::from_hours(7 * 24);

/// No ticket counts longer.
pub const LONGEST_WAIT: Duration = Duration::from_hours(7 * 24);

/// No host has more cards and instances; keeps a claim's file well below its limit.
const MOST_CARDS: usize = 256;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Fewer are no help: all of them, or none.
    pub at_least: usize,
    /// More are taken if they are free.
    pub at_most: usize,
    pub lease: Duration,
    /// The process that the claim ends with.
    pub holder: ProcessKey,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Granted(Claim),
    Short(Short),
}

/// Too few are left, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Short {
    /// What could be had now; fewer than asked for.
    pub left: Vec<GpuUuid>,
    pub claims: Vec<LiveClaim>,
    /// Those who came before, first come first.
    pub ahead: Vec<Waiter>,
}

/// Everything in the shared directory that counts, and what does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// By owner and id.
    pub claims: Vec<LiveClaim>,
    /// In order of arrival, the stopped ones included.
    pub queue: Vec<Waiter>,
    pub problems: Vec<Problem>,
}

impl Survey {
    /// The cards that somebody has claimed.
    #[must_use]
    pub fn claimed(&self) -> HashSet<GpuUuid> {
        let cards = self.claims.iter().flat_map(|live| &live.cards);
        cards.map(|card| card.gpu.clone()).collect()
    }

    /// The free cards that are kept for those who wait.
    #[must_use]
    pub fn kept(&self, look: &Look, processes: &dyn Processes) -> HashSet<GpuUuid> {
        let counts = |waiter: &&Waiter| waiter.counts(look, processes);
        let waiting = self.queue.iter().filter(counts);
        set_aside(waiting, &self.claimed(), look.at.since_boot)
    }
}

impl ClaimDir {
    /// Who has what and who waits, without the lock: for listings.
    pub fn survey(&self, look: &Look, processes: &dyn Processes) -> Result<Survey, ClaimError> {
        self.survey_drawers(look, processes, Sweep::Nothing)
    }

    /// Takes cards at once, or tells why there are too few. Those who wait go before.
    pub fn take(
        &self,
        request: &Request,
        look: &Look,
        processes: &dyn Processes,
    ) -> Result<Answer, ClaimError> {
        self.check(request, look, processes)?;
        let lock = self.lock()?;
        self.take_locked(&lock, request, None, look, processes)
    }

    /// Takes a place at the end of the queue, for the process that calls. It is kept until the ticket is dropped or the
    /// process ends.
    pub fn join(
        &self,
        request: &Request,
        waiter: ProcessKey,
        look: &Look,
        processes: &dyn Processes,
    ) -> Result<Ticket, ClaimError> {
        self.check(request, look, processes)?;
        let lock = self.lock()?;
        let survey = self.survey_drawers(look, processes, Sweep::Ended)?;
        let mine = |waiter: &&Waiter| waiter.owner == self.me();
        if survey.queue.iter().filter(mine).count() >= MOST_FILES / 2 {
            return Err(self.too_many("waiting processes"));
        }
        let drawer = self.own_drawer(&lock)?;
        // The look is from before the lock: who got the lock later must not come before.
        let last = survey.queue.last().map(|last| last.arrived);
        let after_last = last.map_or(Duration::ZERO, |last| last + Duration::from_micros(1));
        let waiter = Waiter {
            owner: self.me(),
            process: waiter,
            namespace: processes.namespace(),
            wanted: request.at_least,
            arrived: look.at.since_boot.max(after_last),
            acceptable: acceptable(look),
            asked: look.at.wall.as_second(),
            name: format!("{TICKET}{}", random_word()),
        };
        let file = drawer
            .create(&waiter.name)
            .map_err(|source| self.cannot_write(source))?;
        let ticket = Ticket {
            waiter,
            drawer,
            file,
        };
        crate::drawer::overwrite(&ticket.file, &ticket.waiter.to_bytes())
            .map_err(|source| self.cannot_write(source))?;
        Ok(ticket)
    }

    /// Takes cards if the ticket's turn has come. The ticket should be dropped once they are granted.
    pub fn advance(
        &self,
        ticket: &mut Ticket,
        request: &Request,
        look: &Look,
        processes: &dyn Processes,
    ) -> Result<Answer, ClaimError> {
        self.check(request, look, processes)?;
        let lock = self.lock()?;
        ticket
            .accept(&acceptable(look))
            .map_err(|source| self.cannot_write(source))?;
        self.take_locked(&lock, request, Some(&ticket.waiter.name), look, processes)
    }

    /// How long to pause before the next [`ClaimDir::advance`], with so many ahead: those far back need not hurry.
    #[must_use]
    pub fn pause(ahead: usize) -> Duration {
        let steps = u32::try_from(ahead).unwrap_or(u32::MAX).min(8);
        Duration::from_millis(300 + 200 * u64::from(steps))
    }

    /// Gives the cards back. Needs no lock, so nobody can hinder it. Root may give back anyone's: all that are called
    /// so, since anyone can copy an id and the copy must not go in the place of the claim.
    pub fn release(&self, id: &ClaimId) -> Result<Vec<Claim>, ClaimError> {
        let mut released = Vec::new();
        let mut remove = |drawer: &Drawer, claim| match drawer.remove(&id.file()) {
            Ok(()) => {
                released.push(claim);
                Ok(())
            }
            Err(Errno::NOENT) => Ok(()),
            Err(source) => Err(self.cannot_write(source)),
        };
        match self.own_claim(id) {
            Ok((drawer, claim)) => remove(&drawer, claim)?,
            Err(ClaimError::NotYours { .. }) if self.me() == Uid::ROOT => {
                for name in self.drawer_names()? {
                    if let Some((drawer, claim)) = self.claim_in(&name, id)? {
                        remove(&drawer, claim)?;
                    }
                }
            }
            Err(error) => return Err(error),
        }
        if released.is_empty() {
            return Err(ClaimError::NoSuchClaim(id.clone()));
        }
        Ok(released)
    }

    fn check(
        &self,
        request: &Request,
        look: &Look,
        processes: &dyn Processes,
    ) -> Result<(), ClaimError> {
        if request.at_least == 0 {
            return Err(ClaimError::NoCards);
        }
        if request.at_least > look.cards.min(MOST_CARDS) {
            return Err(ClaimError::Impossible {
                wanted: request.at_least,
                cards: look.cards,
            });
        }
        if request.lease > LONGEST_LEASE {
            return Err(too_long());
        }
        if processes.standing(&request.holder) == Standing::Ended {
            return Err(ClaimError::HolderEnded);
        }
        Ok(())
    }

    /// Picks and writes, with nobody else doing so meanwhile.
    fn take_locked(
        &self,
        lock: &Lock,
        request: &Request,
        ticket: Option<&str>,
        look: &Look,
        processes: &dyn Processes,
    ) -> Result<Answer, ClaimError> {
        let survey = self.survey_drawers(look, processes, Sweep::Ended)?;
        let claimed = survey.claimed();
        let mine =
            |waiter: &Waiter| waiter.owner == self.me() && Some(waiter.name.as_str()) == ticket;
        let ahead: Vec<_> = survey
            .queue
            .into_iter()
            .take_while(|waiter| !mine(waiter))
            .filter(|waiter| waiter.counts(look, processes))
            .collect();
        let aside = set_aside(&ahead, &claimed, look.at.since_boot);
        let mut left: Vec<GpuUuid> = look.free.clone();
        left.retain(|card| !claimed.contains(card) && !aside.contains(card));
        if left.len() < request.at_least {
            return Ok(Answer::Short(Short {
                left,
                claims: survey.claims,
                ahead,
            }));
        }
        let own = |live: &&LiveClaim| live.claim.owner == self.me();
        if survey.claims.iter().filter(own).count() >= MOST_FILES / 2 {
            return Err(self.too_many("claims"));
        }
        left.truncate(request.at_most.clamp(request.at_least, MOST_CARDS));
        let claim = Claim {
            id: ClaimId::fresh(),
            owner: self.me(),
            cards: left,
            holder: request.holder,
            namespace: processes.namespace(),
            made: look.at.wall,
            deadline: look.at.since_boot + request.lease,
        };
        self.own_drawer(lock)?
            .write(&claim.id.file(), &claim.to_bytes())
            .map_err(|source| self.cannot_write(source))?;
        Ok(Answer::Granted(claim))
    }

    fn survey_drawers(
        &self,
        look: &Look,
        processes: &dyn Processes,
        sweep: Sweep,
    ) -> Result<Survey, ClaimError> {
        let fail = |source| self.cannot_read(source);
        let mut survey = Survey::default();
        let mut allowed = (Allowance::default(), Allowance::default());
        for name in self.drawer_names()? {
            let Some(drawer) = self.drawer(&name, &mut survey.problems)? else {
                continue;
            };
            let judge = Judge {
                look,
                processes,
                may_sweep: matches!(sweep, Sweep::Ended) && self.may_change(&drawer),
            };
            survey
                .read_claims(&drawer, &judge, &mut allowed.0)
                .map_err(fail)?;
            survey
                .read_queue(&drawer, &judge, &mut allowed.1)
                .map_err(fail)?;
            if judge.may_sweep {
                drawer.sweep_unfinished(look.at.wall.as_second());
            }
        }
        let place = |waiter: &Waiter| (waiter.arrived, waiter.owner, waiter.name.clone());
        survey.queue.sort_by_key(place);
        survey
            .claims
            .sort_by_key(|live| (live.claim.owner, live.claim.id.clone()));
        Ok(survey)
    }

    /// The caller's own claim. A stranger's file of the same name does not stand in its way.
    fn own_claim(&self, id: &ClaimId) -> Result<(Drawer, Claim), ClaimError> {
        let mut other = None;
        for name in self.drawer_names()? {
            match self.claim_in(&name, id)? {
                Some(own) if own.0.owner == self.me() => return Ok(own),
                Some((drawer, _)) => other = Some(drawer.owner),
                None => {}
            }
        }
        let id = id.clone();
        Err(match other {
            Some(owner) => ClaimError::NotYours { id, owner },
            None => ClaimError::NoSuchClaim(id),
        })
    }

    fn claim_in(&self, drawer: &str, id: &ClaimId) -> Result<Option<(Drawer, Claim)>, ClaimError> {
        let Some(drawer) = self.drawer(drawer, &mut Vec::new())? else {
            return Ok(None);
        };
        let name = id.file();
        let entry = drawer
            .read(&name)
            .map_err(|source| self.cannot_read(source))?;
        let Some(Ok(entry)) = entry else {
            return Ok(None);
        };
        let claim = Claim::from_bytes(entry.owner, &name, &entry.bytes);
        Ok(claim.map(|claim| (drawer, claim)))
    }

    fn may_change(&self, drawer: &Drawer) -> bool {
        drawer.owner == self.me() || self.me() == Uid::ROOT
    }

    fn too_many(&self, what: &'static str) -> ClaimError {
        ClaimError::TooMany {
            owner: self.me(),
            what,
        }
    }
}

/// Whether files that count no longer are removed; only under the lock, and only where that is allowed.
#[derive(Clone, Copy)]
enum Sweep {
    Nothing,
    Ended,
}

/// By what the entries of a drawer are judged.
struct Judge<'a> {
    look: &'a Look,
    processes: &'a dyn Processes,
    may_sweep: bool,
}

impl Survey {
    fn read_claims(
        &mut self,
        drawer: &Drawer,
        judge: &Judge<'_>,
        allowance: &mut Allowance,
    ) -> Result<(), Errno> {
        let Judge {
            look,
            processes,
            may_sweep,
        } = *judge;
        for name in drawer.names(CLAIM, allowance, &mut self.problems)? {
            let Some(entry) = self.entry(drawer, &name)? else {
                continue;
            };
            match Claim::from_bytes(entry.owner, &name, &entry.bytes)
                .map(|claim| claim.judge(look, processes))
            {
                Some(Judged::Live(live)) => self.claims.push(live),
                // What one cannot remove now counts for nothing anyway.
                Some(Judged::Ended) if may_sweep => drop(drawer.remove(&name)),
                Some(Judged::Ended) => {}
                Some(Judged::TooLong) => self.report(drawer, &name, Trouble::TooLong),
                None => self.report(drawer, &name, Trouble::Garbled),
            }
        }
        Ok(())
    }

    fn read_queue(
        &mut self,
        drawer: &Drawer,
        judge: &Judge<'_>,
        allowance: &mut Allowance,
    ) -> Result<(), Errno> {
        let Judge {
            look,
            processes,
            may_sweep,
        } = *judge;
        for name in drawer.names(TICKET, allowance, &mut self.problems)? {
            let Some(entry) = self.entry(drawer, &name)? else {
                continue;
            };
            match Waiter::from_entry(&entry, look) {
                Some(waiter) if !waiter.has_ended(look, processes) => self.queue.push(waiter),
                // Under the lock nobody is half way through writing one.
                Some(_) | None if may_sweep => drop(drawer.remove(&name)),
                Some(_) => {}
                None => self.report(drawer, &name, Trouble::Garbled),
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        drawer: &Drawer,
        name: &str,
    ) -> Result<Option<crate::drawer::Entry>, Errno> {
        match drawer.read(name)? {
            Some(Ok(entry)) => Ok(Some(entry)),
            Some(Err(problem)) => {
                self.problems.push(problem);
                Ok(None)
            }
            None => Ok(None),
        }
    }

    fn report(&mut self, drawer: &Drawer, name: &str, trouble: Trouble) {
        self.problems
            .push(Problem::new(Some(drawer.owner), name, trouble));
    }
}

/// What goes into a ticket: no more than fits its file.
fn acceptable(look: &Look) -> Vec<GpuUuid> {
    look.free.iter().take(MOST_CARDS).cloned().collect()
}

fn too_long() -> ClaimError {
    ClaimError::TooLong {
        longest: LONGEST_LEASE,
    }
}
