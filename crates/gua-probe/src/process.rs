//! The identity of processes, from `/proc`, their cgroups and the passwd source.
//!
//! Only requested processes are read, and the result is cached until the process changes or is not requested any more.
//! Environments are never read, and command lines only by [`command`], for display.

mod ancestry;
mod cgroup;
pub mod command;
mod containers;
pub mod cost;
mod end;
#[cfg(test)]
pub(crate) mod fake;
pub mod family;
pub mod ignored;
pub mod lineage;
mod login;
mod names;
#[doc(hidden)]
pub mod parse;
mod tree;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::iter;
use std::path::PathBuf;
use std::time::Duration;

use gua_model::id::{BootId, Pid, ProcessKey, StartTicks, Uid};
use gua_model::owner::{Identity, OwnerPolicy, User, Workload};
use gua_model::reading::{Missing, Reading};
use rustix::io::Errno;
use rustix::process::test_kill_process;
use serde::{Deserialize, Serialize};

pub use self::ancestry::{Ancestor, ancestry};
use self::containers::Containers;
pub use self::containers::has_container_runtime;
pub use self::end::wait_for_end;
use self::names::Names;
pub use self::names::{
    groups_of, is_group, is_user, name_in_directory, sub_uids, uid_in_directory, user_ids,
};
use self::parse::Stat;
use self::tree::{Seen, Tree};
use crate::clock;
use crate::host::{self, HostRoot};
use crate::probe::ProbeOptions;

/// Delay until a process that seems unchanged is read again. It limits how long a change that its mark does not show (a
/// move to another cgroup) stays unseen.
const READ_AGAIN: Duration = Duration::from_mins(10);

/// Maximum number of bytes to read of a file of which only the beginning is needed.
const MAX_BYTES: u64 = 4096;

/// Maximum depth of a process tree. It also ends a walk through pids that are reused meanwhile.
const MAX_CHAIN_LENGTH: usize = 256;

/// Directory of the kernel's process files. Production passes `/proc`, a test passes a temporary directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcRoot(pub PathBuf);

impl Default for ProcRoot {
    fn default() -> Self {
        Self(PathBuf::from("/proc"))
    }
}

impl ProcRoot {
    /// Reads the beginning of a file of a process.
    fn read(&self, pid: Pid, name: &str) -> Reading<Vec<u8>> {
        let path = self.0.join(pid.to_string()).join(name);
        host::read(&path, MAX_BYTES).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Missing::Gone,
            ErrorKind::PermissionDenied => Missing::Denied,
            _ => Missing::Failed,
        })
    }

    /// Reads the short name and the numbers of a process.
    fn stat(&self, pid: Pid) -> Reading<(Vec<u8>, Stat)> {
        let text = self.read(pid, "stat")?;
        let (comm, stat) = parse::stat(&text).ok_or(Missing::Failed)?;
        Ok((comm.to_vec(), stat))
    }

    /// Returns a process and its visible ancestors down to the pid `lowest`, nearest first, each with its short name and its
    /// numbers. Each is read only when the iterator reaches it.
    fn chain(&self, pid: Pid, lowest: Pid) -> impl Iterator<Item = (Pid, Vec<u8>, Stat)> {
        let mut next = pid;
        let chain = iter::from_fn(move || {
            let at = next;
            if at < lowest {
                return None;
            }
            let (comm, stat) = self.stat(at).ok()?;
            next = Pid(stat.parent);
            Some((at, comm, stat))
        });
        chain.take(MAX_CHAIN_LENGTH)
    }

    /// Returns why a process is not in the tree: it does not exist, or it is hidden. `hidepid` hides other users' processes
    /// from `/proc`; kill(2) still reports whether one exists. The kernel knows nothing about the processes of another tree.
    fn absent(&self, pid: Pid) -> Missing {
        let number = number(pid).filter(|_| *self == Self::default());
        match number.map(test_kill_process) {
            Some(Err(Errno::SRCH)) | None => Missing::Gone,
            Some(_) => Missing::Denied,
        }
    }
}

/// Converts a PID for a system call. Returns `None` for zero, which the driver reports for a process that it does not name. To
/// the kernel, zero and negative numbers denote process groups, so they are never passed to it.
fn number(pid: Pid) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(i32::try_from(pid.0).ok()?)
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
    containers: Containers,
    policy: OwnerPolicy,
    boot: OnceCell<BootId>,
    processes: BTreeMap<Pid, Known>,
    tick: u64,
}

/// A cached process, or why there is none with its pid.
struct Known {
    /// Last tick in which it was requested.
    tick: u64,
    read_at: Duration,
    /// Whether its login uid counts.
    login_counts: bool,
    /// The user of its job, pod or container.
    workload_user: Option<Uid>,
    seen: Reading<Seen>,
}

/// The processes and users of this host.
impl Default for ProcessTable {
    fn default() -> Self {
        Self::new(ProcRoot::default(), Passwd::System)
    }
}

impl ProcessTable {
    /// A table that resolves PIDs of this process's own namespace, such as those of claims.
    pub fn new(root: ProcRoot, passwd: Passwd) -> Self {
        Self::with(Tree::new(root), Names::new(passwd))
    }

    /// Returns a table for the PIDs that the driver reports.
    pub(crate) fn of_driver(options: ProbeOptions) -> Self {
        let mut tree = Tree::new(options.proc_root);
        tree.driver_pids = options.driver_pids;
        Self {
            containers: Containers::new(options.state_root.0),
            policy: options.owners,
            ..Self::with(tree, Names::new(options.passwd))
        }
    }

    fn with(tree: Tree, names: Names) -> Self {
        Self {
            tree,
            names,
            containers: Containers::new(HostRoot::default().0),
            policy: OwnerPolicy::default(),
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
        self.resolve_at(pid, clock::monotonic())
    }

    pub(crate) fn resolve_at(&mut self, pid: Pid, now: Duration) -> Reading<Identity> {
        let number = number(pid).ok_or(Missing::Denied)?;
        let boot = self.boot()?;
        if self
            .processes
            .get(&pid)
            .is_none_or(|known| known.tick != self.tick)
        {
            self.refresh(pid, number, now);
        }
        let known = self.processes.get(&pid).ok_or(Missing::Failed)?;
        let seen = known.seen.as_ref().map_err(|why| *why)?;
        let key = ProcessKey {
            boot,
            pid,
            start: StartTicks(seen.mark.start),
        };
        let mut user = |uid: Uid| User {
            uid,
            name: self.names.name(uid, now),
        };
        let (login, claimed_login) = match seen.login {
            Ok(Some(uid)) if !known.login_counts => (Ok(None), Some(user(uid))),
            login => (login.map(|uid| uid.map(&mut user)), None),
        };
        let cgroup = &seen.cgroup;
        let container = cgroup.container.as_ref();
        let containers = &mut self.containers;
        let mut identity = Identity {
            key,
            login,
            claimed_login,
            own: seen.own.map(&mut user),
            workload: Workload {
                // The files of a rootless runtime belong to its user.
                container_name: container
                    .filter(|_| known.workload_user.is_none())
                    .and_then(|id| containers.container(id, now)),
                pod_name: cgroup
                    .pod
                    .as_ref()
                    .and_then(|uid| containers.pod(uid, container, now)),
                container: container.cloned(),
                pod: cgroup.pod.clone(),
                job: cgroup.job.clone(),
                user: known.workload_user.map(&mut user),
                ..Workload::default()
            },
            comm: seen.comm.clone(),
        };
        let paths = cgroup.paths.iter().map(String::as_str);
        self.policy.apply(&mut identity, &paths);
        Ok(identity)
    }

    fn refresh(&mut self, pid: Pid, number: rustix::process::Pid, now: Duration) {
        if let Some(known) = self.processes.get_mut(&pid)
            && let Ok(seen) = &known.seen
            && now.saturating_sub(known.read_at) < READ_AGAIN
            && self.tree.is_still(number, seen)
        {
            known.tick = self.tick;
            return;
        }
        let seen = self.tree.see(number);
        let run = self.containers.root.join("run");
        let root = &self.tree.root;
        let known = Known {
            tick: self.tick,
            read_at: now,
            login_counts: seen
                .as_ref()
                .is_ok_and(|seen| login::counts(root, &run, pid, seen)),
            workload_user: seen.as_ref().ok().and_then(|Seen { cgroup, .. }| {
                // With cgroups of version 2, the path of a job does not name its user.
                let of_job = || cgroup.job.as_ref().and_then(|_| login::job_user(root, pid));
                cgroup.user.or_else(of_job)
            }),
            seen,
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
        let tick = self.tick;
        self.processes
            .retain(|_, known| known.tick == tick && known.seen.is_ok());
        self.tick += 1;
        self.names.end_tick(clock::monotonic());
    }
}

impl fmt::Debug for ProcessTable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ProcessTable")
            .field("processes", &self.processes.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
