//! Who a process is, from `/proc`, its cgroup and the passwd source.
//!
//! Only processes that are asked for are looked at, and what was found is remembered until the process changes or
//! nobody asks for it any more. Environments are never read, and command lines by [`command`] alone, for a person's eyes.

mod ancestry;
mod cgroup;
pub mod command;
pub mod cost;
mod end;
#[cfg(test)]
pub(crate) mod fake;
pub mod family;
pub mod ignored;
pub mod lineage;
mod names;
#[doc(hidden)]
pub mod parse;
mod tree;
mod watch;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use gua_model::DriverPids;
use gua_model::id::{BootId, Pid, ProcessKey, StartTicks, Uid};
use gua_model::owner::{Identity, User, Workload};
use gua_model::reading::{Missing, Reading};
use serde::{Deserialize, Serialize};

pub use self::ancestry::{Ancestor, ancestry};
pub use self::end::wait_for_end;
use self::names::Names;
pub use self::names::{groups_of, is_group, is_user};
use self::tree::{Seen, Tree};
use crate::clock;

/// When a process that seems unchanged is read anew: what does not show in its mark (a move to another cgroup) shows
/// after this time.
const READ_AGAIN: Duration = Duration::from_mins(10);

/// When a process that lives on is looked at for another name or owner: an exec or a setuid shows within this time. At
/// slower ticks than this it is every tick.
const COMPARE_AGAIN: Duration = Duration::from_secs(10);

/// Where the kernel's process files are. Production passes `/proc`, a test passes a temporary directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcRoot(pub PathBuf);

impl Default for ProcRoot {
    fn default() -> Self {
        Self(PathBuf::from("/proc"))
    }
}

/// Where users have their names from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Passwd {
    /// What the C library asks: the passwd file, LDAP, SSSD.
    #[default]
    System,
    /// One file in the form of `/etc/passwd`.
    File(PathBuf),
}

/// The processes of the current tick, and those of the last that are still there.
pub struct ProcessTable {
    tree: Tree,
    names: Names,
    boot: OnceCell<BootId>,
    processes: BTreeMap<Pid, Known>,
    tick: u64,
}

/// One process, or why there is none under its pid.
struct Known {
    /// The tick that asked last.
    tick: u64,
    read_at: Duration,
    /// When its name and its owner were last compared with what was read.
    compared_at: Duration,
    /// Whether the answers of this tick rest on the process not having ended, which was not looked at yet.
    is_assumed: bool,
    seen: Reading<Seen>,
}

/// When it is looked at whether a known process has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Liveness {
    Now,
    /// By [`ProcessTable::confirm`], for all of them in one go.
    Later,
}

impl ProcessTable {
    #[must_use]
    pub fn new(root: ProcRoot, passwd: Passwd) -> Self {
        Self::with(Tree::new(root), Names::new(passwd))
    }

    /// Sets which PID namespace the PIDs to be resolved belong to: those of the driver, or with [`DriverPids::Here`] those
    /// of this process and its relatives.
    #[must_use]
    pub fn with_driver_pids(self, driver_pids: DriverPids) -> Self {
        Self {
            tree: self.tree.with_driver_pids(driver_pids),
            ..self
        }
    }

    fn with(tree: Tree, names: Names) -> Self {
        Self {
            tree,
            names,
            boot: OnceCell::new(),
            processes: BTreeMap::new(),
            tick: 0,
        }
    }

    /// The running boot of this host.
    pub fn boot(&self) -> Reading<BootId> {
        if let Some(boot) = self.boot.get() {
            return Ok(*boot);
        }
        let boot = self.tree.boot()?;
        Ok(*self.boot.get_or_init(|| boot))
    }

    /// Who the process is. `Gone` only when the kernel said that there is none and the driver's pids are ours; `Denied`
    /// when it is hidden from us or numbered in a pid namespace that we do not see; never a guess.
    ///
    /// Within one tick the answer stays the same.
    pub fn resolve(&mut self, pid: Pid) -> Reading<Identity> {
        self.resolve_at(pid, clock::monotonic(), Liveness::Now)
    }

    /// As [`ProcessTable::resolve`], but a process that is known is taken to live on until [`ProcessTable::confirm`] is
    /// asked.
    pub(crate) fn resolve_for_now(&mut self, pid: Pid, now: Duration) -> Reading<Identity> {
        self.resolve_at(pid, now, Liveness::Later)
    }

    /// Which of the processes that were taken to live on have ended: what was said of them in this tick was not true, and
    /// they are to be resolved again. All others lived from before they were asked for until now.
    pub(crate) fn confirm(&mut self) -> Vec<Pid> {
        let ended = self.tree.ended();
        let mut pids = Vec::new();
        for (pid, known) in &mut self.processes {
            let was_assumed = std::mem::take(&mut known.is_assumed);
            if was_assumed
                && let Ok(seen) = &known.seen
                && seen.may_be_of(&ended)
            {
                pids.push(*pid);
                // As if nobody had asked for it in this tick.
                known.tick = known.tick.wrapping_sub(1);
            }
        }
        pids
    }

    fn resolve_at(&mut self, pid: Pid, now: Duration, liveness: Liveness) -> Reading<Identity> {
        // Zero and negative numbers mean whole groups of processes to the kernel, and never reach it.
        let number = i32::try_from(pid.0)
            .ok()
            .and_then(rustix::process::Pid::from_raw)
            .ok_or(Missing::Failed)?;
        let boot = self.boot()?;
        if self
            .processes
            .get(&pid)
            .is_none_or(|known| known.tick != self.tick)
        {
            self.look(pid, number, now, liveness);
        }
        let known = self.processes.get(&pid).ok_or(Missing::Failed)?;
        let seen = known.seen.as_ref().map_err(|why| *why)?;
        Ok(identity(
            ProcessKey {
                boot,
                pid,
                start: StartTicks(seen.mark.start),
            },
            seen,
            &mut self.names,
            now,
        ))
    }

    fn look(&mut self, pid: Pid, number: rustix::process::Pid, now: Duration, liveness: Liveness) {
        if let Some(known) = self.processes.get_mut(&pid)
            && let Ok(seen) = &known.seen
            && now.saturating_sub(known.read_at) < READ_AGAIN
        {
            let is_fresh = now.saturating_sub(known.compared_at) < COMPARE_AGAIN;
            let is_assumed = is_fresh && liveness == Liveness::Later && seen.is_watched();
            let lives_on = || seen.is_watched() && !seen.may_be_of(&self.tree.ended());
            let is_the_same = if is_assumed || (is_fresh && lives_on()) {
                known.is_assumed = is_assumed;
                true
            } else {
                known.compared_at = now;
                self.tree.is_still(number, seen)
            };
            if is_the_same {
                known.tick = self.tick;
                return;
            }
        }
        let known = Known {
            tick: self.tick,
            read_at: now,
            compared_at: now,
            is_assumed: false,
            seen: self.tree.see(number),
        };
        self.processes.insert(pid, known);
    }

    /// A user by their number, with the name if it is known in time.
    pub fn user(&mut self, uid: Uid) -> User {
        User {
            uid,
            name: self.names.name(uid, clock::monotonic()),
        }
    }

    /// Ends the tick: processes that nobody asked for are forgotten, and the others are looked at again in the next.
    pub fn end_tick(&mut self) {
        self.end_tick_at(clock::monotonic());
    }

    fn end_tick_at(&mut self, now: Duration) {
        let tick = self.tick;
        self.processes
            .retain(|_, known| known.tick == tick && known.seen.is_ok());
        self.tick += 1;
        self.names.end_tick(now);
    }
}

impl fmt::Debug for ProcessTable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ProcessTable")
            .field("processes", &self.processes.len())
            .finish_non_exhaustive()
    }
}

fn identity(key: ProcessKey, seen: &Seen, names: &mut Names, now: Duration) -> Identity {
    let mut user = |uid: Uid| User {
        uid,
        name: names.name(uid, now),
    };
    Identity {
        key,
        login: seen.login.map(|uid| uid.map(&mut user)),
        own: seen.own.map(&mut user),
        workload: Workload {
            container: seen.cgroup.container.clone(),
            pod: seen.cgroup.pod.clone(),
            job: seen.cgroup.job.clone(),
            user: seen.cgroup.user.map(&mut user),
        },
        comm: seen.comm.clone(),
    }
}

#[cfg(test)]
mod tests;
