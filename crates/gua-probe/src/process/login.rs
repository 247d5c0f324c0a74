//! Whether a login uid counts, and the user of a job whose cgroup does not name one.
//!
//! The kernel lets any process set its login uid while it is unset, so the number alone proves nothing. It counts where
//! state that only root can write confirms it: the slice of the user that the process is in, logind's record of the audit
//! session, or the ancestors of the process, if root started that session. It does not count where a daemon started the
//! process, which then inherited the login of the user who started the daemon.

use std::path::Path;

use gua_model::id::{Pid, Uid};

use super::tree::Seen;
use super::{ProcRoot, parse};
use crate::host::logind;

/// Name of the daemon that starts the processes of a Slurm job as its user.
const STEP_DAEMON: &str = "slurmstepd";

/// Names of daemons that run the jobs of other users: of Slurm, PBS, Grid Engine and HTCondor.
const JOB_DAEMONS: &str = "slurmstepd slurmd pbs_mom sge_execd sge_shepherd condor_starter";

/// Reports whether the login of a process counts. `run` is the directory of logind's records.
pub(super) fn counts(proc: &ProcRoot, run: &Path, pid: Pid, seen: &Seen) -> bool {
    let Ok(Some(login)) = seen.login else {
        // There is nothing to doubt.
        return true;
    };
    let cgroup = &seen.cgroup;
    let is_in_workload = cgroup.container.is_some() || cgroup.pod.is_some();
    if cgroup.job.is_some() || (is_in_workload && !cgroup.is_daemonless) {
        return false;
    }
    if seen.own == Ok(login) {
        return true;
    }
    let ancestors = ancestors(proc, pid);
    let is_daemon = |one: &Ancestor| one.is_root && JOB_DAEMONS.split(' ').any(|name| one.is(name));
    if ancestors.iter().any(is_daemon) {
        return false;
    }
    cgroup.slice == Some(login)
        || seen.session.is_some_and(|session| {
            logind::session_user(run, session) == Some(login)
                || is_roots_session(&ancestors, login, session)
        })
}

/// Returns the user of the Slurm job that a process is in: the user of the process that the daemon of the job step started. A
/// process below it can run as another user: by a set-uid program, or in a user namespace.
pub(super) fn job_user(proc: &ProcRoot, pid: Pid) -> Option<Uid> {
    let ancestors = ancestors(proc, pid);
    let is_daemon = |one: &Ancestor| one.is_root && one.is(STEP_DAEMON);
    let daemon = ancestors.iter().position(is_daemon)?;
    Some(ancestors.get(daemon.checked_sub(1)?)?.own)
}

struct Ancestor {
    comm: Vec<u8>,
    /// Its effective user.
    own: Uid,
    /// Whether its real and its effective user are root. A program that is set-uid root keeps the real user.
    is_root: bool,
    login: Option<Uid>,
    session: Option<u32>,
}

impl Ancestor {
    fn is(&self, name: &str) -> bool {
        self.comm == name.as_bytes()
    }
}

/// Maximum number of ancestors that are considered. Each is read from four files.
const MAX_ANCESTORS: usize = 64;

/// Returns the process and its ancestors without pid 1, nearest first.
fn ancestors(proc: &ProcRoot, pid: Pid) -> Vec<Ancestor> {
    let chain = proc.chain(pid, Pid(2));
    chain
        .take(MAX_ANCESTORS)
        .map_while(|(at, comm, _)| ancestor(proc, at, comm))
        .collect()
}

fn ancestor(proc: &ProcRoot, pid: Pid, comm: Vec<u8>) -> Option<Ancestor> {
    let uids = parse::status_uids(&proc.read(pid, "status").ok()?)?;
    let number = |name: &str| parse::loginuid(&proc.read(pid, name).ok()?)?;
    Some(Ancestor {
        comm,
        own: Uid(uids.effective),
        is_root: (uids.real, uids.effective) == (0, 0),
        login: number("loginuid").map(Uid),
        session: number("sessionid"),
    })
}

/// Reports whether root began the audit session: its first process is root's, and that is the child of a process of root
/// without a login, such as sshd or cron. A session that began in a process of a user, or whose beginning has ended, may
/// have any login uid.
fn is_roots_session(ancestors: &[Ancestor], login: Uid, session: u32) -> bool {
    let of_session = |one: &&Ancestor| one.session == Some(session) && one.login == Some(login);
    let inside = ancestors.iter().take_while(of_session).count();
    let first = inside.checked_sub(1).and_then(|last| ancestors.get(last));
    let parent = ancestors.get(inside);
    first.is_some_and(|first| first.is_root)
        && parent.is_some_and(|parent| parent.is_root && parent.login.is_none())
}
