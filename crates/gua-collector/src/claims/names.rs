//! Claims in words: their holders and deadlines.

use std::time::Duration;

use gua_claim::LiveClaim;
use gua_model::text::sanitize;
use gua_model::{Pid, ProcessKey, Uid};
use gua_probe::process::ProcessTable;
use gua_render::listing::ListedClaim;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Looks up the names of users and processes.
#[derive(Debug, Default)]
pub struct Names(ProcessTable);

impl Names {
    /// A user by name, else `uid 1000`.
    pub fn user(&mut self, uid: Uid) -> String {
        self.0.user(uid).shown()
    }

    /// A process's short name, if it is still that process and can be seen.
    pub fn comm(&mut self, key: &ProcessKey) -> Option<String> {
        let identity = self.0.resolve(key.pid).ok()?;
        let comm = (identity.key == *key).then_some(identity.comm)?.ok()?;
        Some(sanitize(&comm))
    }

    /// `pid 4711 (bash) of ada`, as far as it can be seen.
    pub fn process(&mut self, pid: Pid) -> String {
        let Ok(identity) = self.0.resolve(pid) else {
            return format!("pid {pid}");
        };
        let comm = identity.comm.map(|comm| format!(" ({})", sanitize(&comm)));
        let user = identity.own.map(|user| format!(" of {}", user.shown()));
        let (comm, user) = (comm.unwrap_or_default(), user.unwrap_or_default());
        format!("pid {pid}{comm}{user}")
    }

    /// `ada (pid 4711 bash)`.
    pub fn user_and_process(&mut self, owner: Uid, process: &ProcessKey) -> String {
        let comm = self.comm(process).map(|comm| format!(" {comm}"));
        let (user, comm) = (self.user(owner), comm.unwrap_or_default());
        format!("{user} (pid {}{comm})", process.pid)
    }

    /// The claim as a row of the documents.
    pub fn listed(&mut self, live: &LiveClaim, now: Timestamp) -> ListedClaim {
        ListedClaim {
            id: live.claim.id.to_string(),
            user: self.user(live.claim.owner),
            uid: live.claim.owner.0,
            for_pid: live.claim.for_process.pid.0,
            for_comm: self.comm(&live.claim.for_process),
            since: live.claim.made,
            until: deadline(live.left, now),
        }
    }

    /// `ada (pid 4711 bash) until 14:30:05`.
    pub fn claim(&mut self, live: &LiveClaim, now: Timestamp) -> String {
        let who = self.user_and_process(live.claim.owner, &live.claim.for_process);
        match deadline(live.left, now) {
            Some(at) => format!("{who} until {}", moment(at, now)),
            None => format!("{who} while its processes are on the GPU"),
        }
    }
}

/// The deadline by the wall clock; `None` once it has passed.
pub fn deadline(left: Duration, now: Timestamp) -> Option<Timestamp> {
    (!left.is_zero()).then(|| now.checked_add(left).ok())?
}

/// A time in the local zone, with its date if that is not today.
pub fn moment(at: Timestamp, now: Timestamp) -> String {
    let zone = TimeZone::system();
    let (at, now) = (at.to_zoned(zone.clone()), now.to_zoned(zone));
    let shape = match at.date() == now.date() {
        true => "%H:%M:%S",
        false => "%Y-%m-%d %H:%M",
    };
    at.strftime(shape).to_string()
}
