//! Health of a GPU: faults that its readings show. `gua list`, `gua top` and boards display them, and a GPU with a fault
//! is not offered as free unless the user asks for it. This is the only definition of an unhealthy GPU.
//!
//! NVIDIA's documents on memory error management and the header `nvml.h` describe the readings: a reset of the
//! GPU clears uncorrected errors and pending repairs; a failed repair is a reason to replace the GPU.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::reading::Missing;
use crate::readings::Gpu;
use crate::sample::MemoryRepairs;
use crate::xid::Xid;

/// A fault that an administrator should know about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// The driver lost the GPU.
    Lost,
    /// The kernel log has an error that means trouble with the GPU.
    Xid(Xid),
    /// Memory errors that could not be corrected since the driver was loaded.
    UncorrectedErrors(u64),
    /// A defective row of memory could not be replaced by a spare one.
    RemapFailed,
    /// A defective row of memory is replaced at the next reset.
    RemapPending,
    /// A defective page of memory is retired at the next reboot.
    RetirementPending,
    /// Clocks are lowered because of heat.
    Hot,
    /// Clocks are lowered by the hardware: power brake or another slowdown.
    SlowedDown,
}

crate::words! {
    /// A [`Fault`] without its numbers, as documents name it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum FaultKind {
        Lost = "lost",
        Xid = "xid",
        UncorrectedErrors = "uncorrected-errors",
        RemapFailed = "remap-failed",
        RemapPending = "remap-pending",
        RetirementPending = "retirement-pending",
        Hot = "hot",
        SlowedDown = "slowed-down",
    }
}

impl FaultKind {
    /// Returns the fault in words.
    pub fn in_words(self) -> &'static str {
        match self {
            FaultKind::Lost => "lost by the driver",
            FaultKind::Xid => "an Xid error that indicates faulty hardware",
            FaultKind::UncorrectedErrors => "uncorrected memory errors",
            FaultKind::RemapFailed => "a memory row could not be remapped",
            FaultKind::RemapPending => "a memory row is remapped at the next reset",
            FaultKind::RetirementPending => "a memory page is retired at the next reboot",
            FaultKind::Hot => "slowed down by heat",
            FaultKind::SlowedDown => "slowed down by the hardware",
        }
    }
}

impl Fault {
    pub fn kind(self) -> FaultKind {
        match self {
            Fault::Lost => FaultKind::Lost,
            Fault::Xid(_) => FaultKind::Xid,
            Fault::UncorrectedErrors(_) => FaultKind::UncorrectedErrors,
            Fault::RemapFailed => FaultKind::RemapFailed,
            Fault::RemapPending => FaultKind::RemapPending,
            Fault::RetirementPending => FaultKind::RetirementPending,
            Fault::Hot => FaultKind::Hot,
            Fault::SlowedDown => FaultKind::SlowedDown,
        }
    }

    /// Returns the name in documents.
    pub fn as_str(self) -> &'static str {
        self.kind().as_str()
    }

    /// Returns the text of a narrow column.
    pub fn in_short(self) -> String {
        match self {
            Fault::Xid(xid) => format!("Xid {}", xid.code),
            Fault::UncorrectedErrors(errors) => format!("ECC {errors}"),
            Fault::RemapFailed => "remap failed".to_owned(),
            Fault::RemapPending => "remap".to_owned(),
            Fault::RetirementPending => "retire".to_owned(),
            Fault::SlowedDown => "slowed".to_owned(),
            Fault::Lost | Fault::Hot => self.as_str().to_owned(),
        }
    }

    /// Reports whether the fault remains until a person resets or replaces the GPU. A lost GPU may come back.
    pub fn lasts(self) -> bool {
        !matches!(self, Fault::Lost | Fault::Hot | Fault::SlowedDown)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.kind().in_words();
        match self {
            Fault::Xid(xid) => xid.fmt(out),
            Fault::UncorrectedErrors(1) => write!(out, "1 uncorrected memory error"),
            Fault::UncorrectedErrors(errors) => write!(out, "{errors} {words}"),
            _ => out.write_str(words),
        }
    }
}

/// Reports whether any reading of health could be taken. Without one, nobody knows whether the GPU is in order.
pub fn is_known(gpu: &Gpu) -> bool {
    gpu.ecc_uncorrected.is_ok()
        || gpu.memory_repairs.is_ok()
        || gpu.throttle.is_ok()
        || gpu.xid.is_ok()
}

/// Returns the faults of a GPU, the most serious first. A reading that is missing shows no fault.
pub fn faults(gpu: &Gpu) -> Vec<Fault> {
    let errors = gpu.ecc_uncorrected.ok().filter(|errors| *errors > 0);
    let repairs = gpu.memory_repairs.unwrap_or_default();
    let repair = |bit: u64, fault: Fault| repairs.has(bit).then_some(fault);
    let throttle = gpu.throttle.ok();
    let is_hot = throttle.is_some_and(|reasons| reasons.is_hot());
    let is_slowed = throttle.is_some_and(|reasons| reasons.is_slowed_by_hardware());
    [
        (gpu.util == Err(Missing::Gone)).then_some(Fault::Lost),
        gpu.xid.ok().flatten().map(Fault::Xid),
        errors.map(Fault::UncorrectedErrors),
        repair(MemoryRepairs::REMAP_FAILED, Fault::RemapFailed),
        repair(MemoryRepairs::REMAP_PENDING, Fault::RemapPending),
        repair(MemoryRepairs::RETIREMENT_PENDING, Fault::RetirementPending),
        is_hot.then_some(Fault::Hot),
        is_slowed.then_some(Fault::SlowedDown),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{MemoryRepairs, ThrottleReasons};

    fn healthy() -> Gpu {
        Gpu {
            ecc_uncorrected: Ok(0),
            memory_repairs: Ok(MemoryRepairs(0)),
            // An idle GPU at its power limit, with clocks set by an administrator, is in order.
            throttle: Ok(ThrottleReasons(0x1 | 0x2 | 0x4 | 0x10 | 0x100)),
            ..Gpu::without_readings("GPU-a".parse().unwrap(), 0, Missing::Unsupported)
        }
    }

    fn check(change: impl FnOnce(&mut Gpu), expected: &[&str]) {
        let mut gpu = healthy();
        change(&mut gpu);
        let found: Vec<String> = faults(&gpu).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_missing_reading_and_normal_throttling_are_no_faults() {
        check(|_| {}, &[]);
        check(|gpu| gpu.ecc_uncorrected = Err(Missing::Failed), &[]);
        check(|gpu| gpu.memory_repairs = Err(Missing::Unsupported), &[]);
        check(|gpu| gpu.throttle = Err(Missing::Denied), &[]);
        check(|gpu| gpu.xid = Err(Missing::Denied), &[]);
        check(|gpu| gpu.xid = Ok(None), &[]);
    }

    #[test]
    fn every_reading_of_health_shows_its_fault() {
        check(|gpu| gpu.util = Err(Missing::Gone), &["lost by the driver"]);
        check(
            |gpu| gpu.ecc_uncorrected = Ok(1),
            &["1 uncorrected memory error"],
        );
        let repairs = |bits| move |gpu: &mut Gpu| gpu.memory_repairs = Ok(MemoryRepairs(bits));
        check(repairs(1), &["a memory row is remapped at the next reset"]);
        check(repairs(2), &["a memory row could not be remapped"]);
        check(repairs(4), &["a memory page is retired at the next reboot"]);
        let throttle = |bits| move |gpu: &mut Gpu| gpu.throttle = Ok(ThrottleReasons(bits));
        check(throttle(0x20), &["slowed down by heat"]);
        check(throttle(0x40), &["slowed down by heat"]);
        check(throttle(0x08), &["slowed down by the hardware"]);
        check(throttle(0x80), &["slowed down by the hardware"]);
        let xid = Xid {
            at: "2026-11-18T09:00:12Z".parse().unwrap(),
            code: 79,
        };
        let shown = ["Xid 79 at 2026-11-18T09:00:12Z"];
        check(|gpu| gpu.xid = Ok(Some(xid)), &shown);
    }

    #[test]
    fn faults_that_need_a_person_last() {
        let mut gpu = healthy();
        gpu.ecc_uncorrected = Ok(3);
        gpu.throttle = Ok(ThrottleReasons(0x40 | 0x8));
        let found = faults(&gpu);
        let lasting: Vec<&str> = found
            .iter()
            .filter(|fault| fault.lasts())
            .map(|fault| fault.as_str())
            .collect();
        assert_eq!(lasting, ["uncorrected-errors"]);
        let short: Vec<String> = found.iter().map(|fault| fault.in_short()).collect();
        assert_eq!(short, ["ECC 3", "hot", "slowed"]);
    }
}
