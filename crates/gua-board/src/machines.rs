//! Detects two machines that report as one host, such as two copies of a disk image with the enrolment in it.
//!
//! A machine is identified by the UUIDs of its GPUs. If none of a host's GPUs were in its earlier reports, the machine may have
//! been rebuilt. If the earlier GPUs then report again, there are two machines: the first one remains the host, reports of the
//! other one are refused, and the Servers page shows a warning. Reports of the two are never mixed.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use gua_board_store::HostId;
use gua_model::GpuUuid;
use gua_wire::LiveReport;
use jiff::{SignedDuration, Timestamp};

use crate::live::PROMPT;

/// Time for which a machine that no longer reports is remembered.
const MEMORY: SignedDuration = SignedDuration::from_hours(24);

#[derive(Debug, Default)]
pub(crate) struct Machines(Mutex<HashMap<HostId, Known>>);

/// The machine that is the host, and another one that reported as it.
#[derive(Debug)]
struct Known {
    host: Machine,
    other: Option<Machine>,
    /// Whether both machines report.
    is_conflict: bool,
}

#[derive(Clone, Debug)]
struct Machine {
    gpus: BTreeSet<GpuUuid>,
    hostname: String,
    seen: Timestamp,
}

impl Machine {
    fn is(&self, other: &Machine) -> bool {
        !self.gpus.is_disjoint(&other.gpus)
    }
}

/// Error: the report comes from a machine other than the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OtherMachine;

impl Machines {
    /// Checks which machine sent a report. A report without GPUs is always accepted, because it does not identify a machine.
    /// A late report, such as one from a spool, does not show which machine is running now, so nothing is learned from it.
    pub(crate) fn admit(
        &self,
        host: &HostId,
        report: &LiveReport,
        now: Timestamp,
    ) -> Result<(), OtherMachine> {
        let machine = Machine {
            gpus: report.gpus.iter().map(|gpu| gpu.uuid.clone()).collect(),
            hostname: report.host.hostname.clone(),
            seen: now,
        };
        if machine.gpus.is_empty() {
            return Ok(());
        }
        let is_late = now.duration_since(report.observed_at) > PROMPT;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = all.get_mut(host) else {
            if is_late {
                return Ok(());
            }
            let known = Known {
                host: machine,
                other: None,
                is_conflict: false,
            };
            all.insert(host.clone(), known);
            return Ok(());
        };
        let is_remembered = |other: &Machine| now.duration_since(other.seen) < MEMORY;
        known.other = known.other.take().filter(is_remembered);
        known.is_conflict &= known.other.is_some() && is_remembered(&known.host);
        if is_late {
            let is_other = known.is_conflict && !known.host.is(&machine);
            return if is_other { Err(OtherMachine) } else { Ok(()) };
        }
        if known.host.is(&machine) {
            known.host = machine;
            return Ok(());
        }
        if known.is_conflict {
            known.other = Some(machine);
            return Err(OtherMachine);
        }
        let before = std::mem::replace(&mut known.host, machine);
        // The machine that was the host before has returned, so it was not rebuilt.
        known.is_conflict = known
            .other
            .as_ref()
            .is_some_and(|other| other.is(&known.host));
        known.other = Some(before);
        Ok(())
    }

    /// Returns the name of another machine that reports as a host.
    pub(crate) fn other(&self, host: &HostId, now: Timestamp) -> Option<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(host).filter(|known| known.is_conflict)?;
        let other = known.other.as_ref()?;
        (now.duration_since(other.seen) < MEMORY).then(|| other.hostname.clone())
    }

    /// Forgets a host that was revoked or replaced.
    pub(crate) fn remove(&self, host: &HostId) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(host);
    }
}
