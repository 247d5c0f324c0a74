//! Everything that one tick saw on one host: a reading, or the reason for its absence, for each thing that was asked.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::id::{BootId, GpuUuid, PciId, Pid};
use crate::owner::Identity;
use crate::reading::{Missing, Reading};
use crate::unit::{Bytes, Celsius, FanSpeed, Megahertz, Millijoules, Milliwatts, Percent};
use crate::window::UtilWindow;

/// All readings of one tick.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When the tick began, by the wall clock. As a number where it crosses a pipe: a text is dear to write and to read.
    #[serde(with = "jiff::fmt::serde::timestamp::nanosecond::required")]
    pub at: Timestamp,
    /// The same moment on the clock that never jumps: time since boot, suspend included.
    pub since_boot: Duration,
    pub boot: Reading<BootId>,
    pub driver: Driver,
    /// In the driver's order; MIG instances follow their parent.
    pub gpus: Vec<Gpu>,
    /// What went wrong on the way. A value that the hardware does not have is no problem.
    pub problems: Vec<Problem>,
}

/// The driver that answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driver {
    pub version: Reading<String>,
    /// The newest CUDA version that the driver can run, as major and minor.
    pub cuda: Reading<(u32, u32)>,
}

/// One call that failed, kept beside the readings that it cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The card, where its name is known.
    pub gpu: Option<GpuUuid>,
    /// The card's number, where that is all that is known.
    pub index: Option<u32>,
    pub call: String,
    /// The driver's own number for the error; `None` where no driver code stands behind it.
    pub code: Option<u32>,
    pub why: Missing,
    /// What the driver calls this error.
    pub text: String,
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

/// One card, or one MIG instance of a card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    pub uuid: GpuUuid,
    /// The driver's number of the card (an instance carries its parent's). For display only.
    pub index: u32,
    pub place: Place,
    pub name: Reading<String>,
    pub pci: Reading<PciId>,
    pub memory_total: Reading<Bytes>,
    pub memory_used: Reading<Bytes>,
    /// What the driver keeps for itself. Where the driver cannot tell it apart (`Unsupported`), `memory_used` includes it.
    pub memory_reserved: Reading<Bytes>,
    /// Busy share of the driver's last sample period (a second or less).
    pub util: Reading<Percent>,
    /// Busy share since the last tick, from the driver's buffer.
    pub window: Reading<UtilWindow>,
    pub memory_util: Reading<Percent>,
    pub temperature: Reading<Celsius>,
    pub power: Reading<Milliwatts>,
    pub power_limit: Reading<Milliwatts>,
    /// The driver's counter since it was loaded.
    pub energy: Reading<Millijoules>,
    pub sm_clock: Reading<Megahertz>,
    pub memory_clock: Reading<Megahertz>,
    pub fan: Reading<FanSpeed>,
    pub performance_state: Reading<PerformanceState>,
    pub throttle: Reading<ThrottleReasons>,
    pub ecc: Reading<Ecc>,
    pub mig: Reading<Switch>,
    pub compute_mode: Reading<ComputeMode>,
    pub persistence: Reading<Switch>,
    /// Whether the list of compute processes could be read.
    pub compute_list: Reading<()>,
    /// Whether the list of graphics processes could be read.
    pub graphics_list: Reading<()>,
    pub processes: Vec<Process>,
}

impl Gpu {
    /// A card of which nothing could be read, for the one reason given.
    #[must_use]
    pub fn without_readings(uuid: GpuUuid, index: u32, why: Missing) -> Self {
        Self {
            uuid,
            index,
            place: Place::Whole,
            name: Err(why),
            pci: Err(why),
            memory_total: Err(why),
            memory_used: Err(why),
            memory_reserved: Err(why),
            util: Err(why),
            window: Err(why),
            memory_util: Err(why),
            temperature: Err(why),
            power: Err(why),
            power_limit: Err(why),
            energy: Err(why),
            sm_clock: Err(why),
            memory_clock: Err(why),
            fan: Err(why),
            performance_state: Err(why),
            throttle: Err(why),
            ecc: Err(why),
            mig: Err(why),
            compute_mode: Err(why),
            persistence: Err(why),
            compute_list: Err(why),
            graphics_list: Err(why),
            processes: Vec::new(),
        }
    }

    /// Used memory with what the driver keeps for itself, as its older record counts it and tools that read that record.
    pub fn memory_used_with_reserved(&self) -> Reading<Bytes> {
        Ok(self.memory_used? + self.memory_held_back()?)
    }

    /// What the driver keeps for itself beside the used memory. A driver that cannot tell it apart counts it as used already,
    /// so there is nothing beside; a reading that failed is unknown.
    pub fn memory_held_back(&self) -> Reading<Bytes> {
        match self.memory_reserved {
            Err(Missing::Unsupported) => Ok(Bytes(0)),
            told => told,
        }
    }
}

/// Whether a gpu is a card or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// A card that is used as a whole.
    Whole,
    /// A card in MIG mode. Its instances are counted in its place.
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
    /// Whether this gpu stands for capacity. A card whose instances stand for it does not: nothing is counted twice.
    #[must_use]
    pub fn counts(&self) -> bool {
        !matches!(self, Place::Parent { instances: 1.. })
    }

    /// The card that this gpu is an instance of.
    #[must_use]
    pub fn parent(&self) -> Option<&GpuUuid> {
        match self {
            Place::Instance { parent, .. } => Some(parent),
            Place::Whole | Place::Parent { .. } => None,
        }
    }
}

/// How much of its parent an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    pub slices: u32,
    pub of: u32,
}

/// P0 (fastest) to P15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerformanceState(pub u8);

/// The driver's bit set of reasons why clocks are not at their highest.
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

    /// The reasons by name; bits that are not known keep their number.
    #[must_use]
    pub fn names(self) -> Vec<String> {
        let known = Self::NAMES
            .iter()
            .filter(|(bit, _)| self.0 & bit != 0)
            .map(|(_, name)| (*name).to_owned());
        let unknown = self.0 & !Self::NAMES.iter().fold(0, |all, (bit, _)| all | bit);
        known
            .chain((unknown != 0).then(|| format!("{unknown:#x}")))
            .collect()
    }
}

/// Memory errors since the driver was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ecc {
    pub mode: Switch,
    pub corrected: Reading<u64>,
    pub uncorrected: Reading<u64>,
}

/// Something that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Switch {
    On,
    Off,
}

/// How many processes a card takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ComputeMode {
    Default,
    ExclusiveThread,
    Prohibited,
    ExclusiveProcess,
    /// A number that the driver gave and that this version does not know.
    Other(u32),
}

/// One process on one card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: Pid,
    pub kind: ProcessKind,
    pub memory: Reading<Bytes>,
    /// Mean SM utilisation since the last tick; `Ok(None)` where the driver has no sample of it.
    pub sm_util: Reading<Option<Percent>>,
    /// Who it is. `Err(Gone)` only when the kernel said that there is no such process; `Err(Denied)` when it is hidden
    /// from us or lives in a pid namespace that we do not see.
    pub identity: Reading<Identity>,
}

/// In which of the driver's lists a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ProcessKind {
    Compute,
    Graphics,
    /// In both lists. It is one process, and it computes.
    Both,
}

impl ProcessKind {
    #[must_use]
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
    fn memory_with_what_is_held_back_is_unknown_where_either_reading_failed() {
        let check = |used, reserved, expected| {
            let uuid = "GPU-a".parse().unwrap();
            let gpu = Gpu {
                memory_used: used,
                memory_reserved: reserved,
                ..Gpu::without_readings(uuid, 0, Missing::Failed)
            };
            assert_eq!(gpu.memory_used_with_reserved(), expected);
        };
        check(Ok(Bytes(7)), Ok(Bytes(2)), Ok(Bytes(9)));
        // A driver that cannot tell it apart counts it as used already.
        check(Ok(Bytes(7)), Err(Missing::Unsupported), Ok(Bytes(7)));
        check(Ok(Bytes(7)), Err(Missing::Failed), Err(Missing::Failed));
        check(Ok(Bytes(7)), Err(Missing::Gone), Err(Missing::Gone));
        check(Err(Missing::Failed), Ok(Bytes(2)), Err(Missing::Failed));
        check(
            Err(Missing::Unsupported),
            Err(Missing::Unsupported),
            Err(Missing::Unsupported),
        );
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
    fn a_problem_names_the_card_the_call_and_the_code() {
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
