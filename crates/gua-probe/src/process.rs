//! The identity of processes, from `/proc`, their cgroups and the passwd source.
//!
//! Only requested processes are read, and the result is cached until the process changes or is not requested any more.
//! Environments are never read, and command lines only by [`command`], for display.

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

/// Delay until a process that seems unchanged is read again. It limits how long a change that its mark does not show (a
/// move to another cgroup) stays unseen.
const READ_AGAIN: Duration = Duration::from_mins(10);

/// Delay until a living process is checked for another name or owner, which an exec or a setuid changes. With slower
/// ticks it is checked at every tick.
const COMPARE_AGAIN: Duration = Duration::from_secs(10);

/// Directory of the kernel's process files. Production passes `/proc`, a test passes a temporary directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcRoot(pub PathBuf);

impl Default for ProcRoot {
    fn default() -> Self {
        Self(PathBuf::from("/proc"))
    }
}

/// Source of user names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Passwd {
    /// The C library's configuration: the passwd file, LDAP, SSSD.
    #[default]
    System,
    /// One file in the format of `/etc/passwd`.
    File(PathBuf),
}

/// Cache of the processes of the current tick and of the last one.
pub struct ProcessTable {
    tree: Tree,
    names: Names,
    boot: OnceCell<BootId>,
    processes: BTreeMap<Pid, Known>,
    tick: u64,
}

/// A cached process, or why there is none with its pid.
struct Known {
    /// Last tick in which it was requested.
    tick: u64,
    read_at: Duration,
    /// Time at which its name and owner were last compared.
    compared_at: Duration,
    /// Whether the answers of this tick assume that the process has not ended, which was not checked yet.
    is_assumed: bool,
    seen: Reading<Seen>,
}

/// When to check whether a known process has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Liveness {
    Now,
    /// Later, by [`ProcessTable::confirm`], for all of them in one call.
    Later,
}

impl ProcessTable {
    /// A table that resolves PIDs of this process's own namespace, such as those of claims.
    #[must_use]
    pub fn new(root: ProcRoot, passwd: Passwd) -> Self {
        Self::with(Tree::new(root), Names::new(passwd))
    }

    /// Resolves PIDs that the driver reports instead, by the setting `driver.pids`.
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

    /// Returns the boot id of this host.
    pub fn boot(&self) -> Reading<BootId> {
        if let Some(boot) = self.boot.get() {
            return Ok(*boot);
        }
        let boot = self.tree.boot()?;
        Ok(*self.boot.get_or_init(|| boot))
    }

    /// Returns the identity of a process. `Gone` only if the kernel reports that there is none and the driver's pids
    /// are valid here; `Denied` if it is hidden or in another pid namespace; never a guess.
    ///
    /// Within one tick the answer stays the same.
    pub fn resolve(&mut self, pid: Pid) -> Reading<Identity> {
        self.resolve_at(pid, clock::monotonic(), Liveness::Now)
    }

    /// As [`ProcessTable::resolve`], but a known process is assumed to be alive until [`ProcessTable::confirm`] is
    /// called.
    pub(crate) fn resolve_for_now(&mut self, pid: Pid, now: Duration) -> Reading<Identity> {
        self.resolve_at(pid, now, Liveness::Later)
    }

    /// Returns the processes that were assumed to be alive and have ended: their answers in this tick are wrong, and
    /// they must be resolved again. All others were alive from before they were requested until now.
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
                // As if it was not requested in this tick.
                known.tick = known.tick.wrapping_sub(1);
            }
        }
        pids
    }

    fn resolve_at(&mut self, pid: Pid, now: Duration, liveness: Liveness) -> Reading<Identity> {
        // Zero and negative numbers denote process groups to the kernel, and are never passed to it.
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

    /// Returns a user by uid, with the name if it is known in time.
    pub fn user(&mut self, uid: Uid) -> User {
        User {
            uid,
            name: self.names.name(uid, clock::monotonic()),
        }
    }

    /// Ends the tick: processes that were not requested are dropped, and the others are checked again in the next.
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
