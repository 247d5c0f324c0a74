//! A sample: everything that one tick read on one host. Each reading has a value, or the reason why it is missing.
//!
//! The readings of a GPU are declared in [`crate::readings`].

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{BootId, GpuUuid, Pid};
use crate::owner::Identity;
use crate::reading::{Missing, Reading};
pub use crate::readings::Gpu;
use crate::unit::{Bytes, Percent};

/// All readings of one tick.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Start of the tick by the wall clock. Serialised as a number, which is cheaper than text.
    #[serde(with = "jiff::fmt::serde::timestamp::nanosecond::required")]
    pub at: Timestamp,
    /// Start of the tick as time since boot, including suspend. This clock never jumps.
    pub since_boot: Duration,
    pub boot: Reading<BootId>,
    pub driver: Driver,
    /// GPUs in the driver's order; MIG instances follow their parent.
    pub gpus: Vec<Gpu>,
    /// Failed calls. A reading that the hardware does not have is not a problem.
    pub problems: Vec<Problem>,
}

/// Versions of the driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driver {
    pub version: Reading<String>,
    /// Newest CUDA version that the driver supports, as major and minor.
    pub cuda: Reading<(u32, u32)>,
}

/// One failed call to the driver. The readings that depend on it are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// UUID of the GPU, if it is known.
    pub gpu: Option<GpuUuid>,
    /// Index of the GPU, if only that is known.
    pub index: Option<u32>,
    pub call: String,
    /// Error code of the driver; `None` for errors that the driver did not report itself.
    pub code: Option<u32>,
    pub why: Missing,
    /// Description of the error by the driver.
    pub text: String,
}

impl Problem {
    /// Whether this is the same problem at another time. The text may contain numbers that change.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.gpu, self.index, &self.call, self.code)
            == (&other.gpu, other.index, &other.call, other.code)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.gpu, self.index) {
            (Some(uuid), _) => write!(out, "{uuid}: ")?,
            (None, Some(index)) => write!(out, "gpu {index}: ")?,
            (None, None) => {}
        }
        write!(out, "{}: {}", self.call, self.text)?;
        if let Some(code) = self.code {
            write!(out, " ({code})")?;
        }
        Ok(())
    }
}

/// Relation of a GPU to the physical GPU: the whole of it, or a MIG instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// A physical GPU that is not partitioned.
    Whole,
    /// A physical GPU in MIG mode. Its instances are counted in its place.
    Parent { instances: u32 },
    /// A MIG instance.
    Instance {
        parent: GpuUuid,
        gpu_instance: Reading<u32>,
        compute_instance: Reading<u32>,
        slice: Reading<Slice>,
    },
}

impl Place {
    /// Reports whether this GPU counts as capacity. A parent whose instances are counted does not, so that nothing is
    /// counted twice.
    pub fn counts(&self) -> bool {
        !matches!(self, Place::Parent { instances: 1.. })
    }

    /// Returns the displayed number of the GPU with this index. A MIG instance adds its own number, such as `2:1`.
    pub fn label(&self, index: u32) -> String {
        match self {
            Place::Instance {
                gpu_instance: Ok(instance),
                compute_instance,
                ..
            } => match compute_instance {
                Ok(compute @ 1..) => format!("{index}:{instance}.{compute}"),
                _ => format!("{index}:{instance}"),
            },
            Place::Instance { .. } => format!("{index}:?"),
            Place::Whole | Place::Parent { .. } => index.to_string(),
        }
    }

    /// Returns the UUID of the GPU that this one is an instance of.
    pub fn parent(&self) -> Option<&GpuUuid> {
        match self {
            Place::Instance { parent, .. } => Some(parent),
            Place::Whole | Place::Parent { .. } => None,
        }
    }
}

/// Share of its parent's compute slices that a MIG instance has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    pub slices: u32,
    pub of: u32,
}

/// Performance state: P0 (fastest) to P15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerformanceState(pub u8);

/// Bit set of the reasons why clocks are below their maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThrottleReasons(pub u64);

impl ThrottleReasons {
    /// Bits and names as in `nvml.h` (`nvmlClocksEventReasons`).
    const NAMES: [(u64, &str); 9] = [
        (0x001, "gpu-idle"),
        (0x002, "applications-clocks"),
        (0x004, "sw-power-cap"),
        (0x008, "hw-slowdown"),
        (0x010, "sync-boost"),
        (0x020, "sw-thermal"),
        (0x040, "hw-thermal"),
        (0x080, "hw-power-brake"),
        (0x100, "display-clocks"),
    ];

    /// Reasons that lower the clocks of a busy GPU: the power limit, heat, and slowdowns of the hardware.
    pub const THROTTLED: Self = Self(0x004 | 0x008 | 0x020 | 0x040 | 0x080);

    /// Reports whether clocks are lowered. An idle GPU and clocks that an administrator has set are no throttling.
    pub fn is_throttled(self) -> bool {
        self.0 & Self::THROTTLED.0 != 0
    }

    /// Reports whether clocks are lowered because of heat.
    pub fn is_hot(self) -> bool {
        self.0 & (0x020 | 0x040) != 0
    }

    /// Reports whether the hardware lowers clocks for another reason than heat.
    pub fn is_slowed_by_hardware(self) -> bool {
        self.0 & (0x008 | 0x080) != 0
    }

    /// Returns the names of the reasons.
    pub fn names(self) -> Vec<String> {
        names_of(self.0, &Self::NAMES)
    }
}

/// Bit set of repairs of the memory that are pending or have failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRepairs(pub u64);

impl MemoryRepairs {
    /// A row is remapped at the next reset.
    pub const REMAP_PENDING: u64 = 1;
    /// A row could not be remapped.
    pub const REMAP_FAILED: u64 = 2;
    /// A page is retired at the next reboot.
    pub const RETIREMENT_PENDING: u64 = 4;

    const NAMES: [(u64, &str); 3] = [
        (Self::REMAP_PENDING, "remap-pending"),
        (Self::REMAP_FAILED, "remap-failed"),
        (Self::RETIREMENT_PENDING, "retirement-pending"),
    ];

    /// Returns whether the set contains one of the repairs above.
    pub fn has(self, repair: u64) -> bool {
        self.0 & repair != 0
    }

    /// Returns the names of the repairs.
    pub fn names(self) -> Vec<String> {
        names_of(self.0, &Self::NAMES)
    }
}

/// Returns the names of the bits. Unknown bits are shown as a hexadecimal number.
fn names_of(bits: u64, names: &[(u64, &str)]) -> Vec<String> {
    let known = names
        .iter()
        .filter(|(bit, _)| bits & bit != 0)
        .map(|(_, name)| (*name).to_owned());
    let unknown = bits & !names.iter().fold(0, |all, (bit, _)| all | bit);
    known
        .chain((unknown != 0).then(|| format!("{unknown:#x}")))
        .collect()
}

crate::words! {
    /// A mode that is on or off.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Switch {
        On = "on",
        Off = "off",
    }
}

/// Limit on the processes that may use a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ComputeMode {
    Default,
    ExclusiveThread,
    Prohibited,
    ExclusiveProcess,
    /// A number that this version does not know.
    Other(u32),
}

impl fmt::Display for ComputeMode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ComputeMode::Default => out.write_str("default"),
            ComputeMode::ExclusiveThread => out.write_str("exclusive-thread"),
            ComputeMode::Prohibited => out.write_str("prohibited"),
            ComputeMode::ExclusiveProcess => out.write_str("exclusive-process"),
            ComputeMode::Other(number) => write!(out, "unknown {number}"),
        }
    }
}

/// One process on one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// 0 for processes that the driver lists without a pid: they hold the GPU and have no identity.
    pub pid: Pid,
    pub kind: ProcessKind,
    pub memory: Reading<Bytes>,
    /// Mean SM utilisation since the last tick; `Ok(None)` if the driver has no sample of the process.
    pub sm_util: Reading<Option<Percent>>,
    /// Identity of the process. `Err(Gone)` only if the kernel reports that there is no such process; `Err(Denied)` if
    /// it is hidden (`hidepid`) or in another pid namespace.
    pub identity: Reading<Identity>,
}

crate::words! {
    /// The driver's lists that a process is in.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum ProcessKind {
        Compute = "compute",
        Graphics = "graphics",
        /// Both lists. It is one process, and it counts as a compute process.
        Both = "both",
    }
}

impl ProcessKind {
    /// Reports whether the process is in the compute list.
    pub fn computes(self) -> bool {
        !matches!(self, ProcessKind::Graphics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_counts_only_while_it_has_no_instances() {
        assert!(Place::Whole.counts());
        assert!(Place::Parent { instances: 0 }.counts());
        assert!(!Place::Parent { instances: 2 }.counts());
    }

    #[test]
    fn throttle_bits_unknown_to_us_keep_their_number() {
        assert_eq!(ThrottleReasons(0).names(), Vec::<String>::new());
        assert_eq!(
            ThrottleReasons(0x4 | 0x2000).names(),
            ["sw-power-cap", "0x2000"]
        );
    }

    #[test]
    fn a_problem_names_the_gpu_the_call_and_the_code() {
        let problem = Problem {
            gpu: None,
            index: Some(3),
            call: "nvmlDeviceGetUUID".to_owned(),
            code: Some(777),
            why: Missing::Failed,
            text: "unknown error code".to_owned(),
        };
        assert_eq!(
            problem.to_string(),
            "gpu 3: nvmlDeviceGetUUID: unknown error code (777)"
        );
    }
}
