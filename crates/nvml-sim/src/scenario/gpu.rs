//! GPUs, MIG instances and processes in the scenario file.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Buffers, Value, require};
use crate::pci::Address;
use crate::world::Reading;

/// Declares a GPU of the scenario. Each reading has its default, for scenarios without its key; `None` is NOT_SUPPORTED.
macro_rules! gpu {
    (
        keys { $($(#[$attribute:meta])* $key:ident: $type:ty,)* }
        readings { $($(#[$doc:meta])* $reading:ident = $default:expr,)* }
        tables { $($(#[$table_attribute:meta])* $table:ident: $table_type:ty,)* }
    ) => {
        /// A GPU. Every key has a default, so `[[gpu]]` alone is a healthy idle GPU.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Gpu {
            $($(#[$attribute])* pub $key: $type,)*
            $($(#[$doc])* pub $reading: Option<Value>,)*
            $($(#[$table_attribute])* pub $table: $table_type,)*
        }

        impl Gpu {
            /// Returns the readings that the scenario sets.
            fn readings(&self) -> impl Iterator<Item = &Value> {
                [$(&self.$reading,)*].into_iter().flatten()
            }
        }

        /// The readings of a GPU over time.
        #[derive(Debug)]
        pub(crate) struct Sensors { $(pub(crate) $reading: Reading,)* }

        impl Sensors {
            pub(crate) fn new(gpu: &Gpu) -> Sensors {
                Sensors { $($reading: Reading::new(gpu.$reading.as_ref(), $default),)* }
            }
        }
    };
}

gpu! {
    keys {
        /// Default: `NVIDIA A100-SXM4-80GB`.
        name: String,
        /// Default: derived from the GPU's position in the file.
        uuid: String,
        /// Such as `00000000:41:00.0`. Default: derived from the GPU's position in the file.
        pci: String,
        /// Default: none, as on consumer GPUs.
        serial: Option<String>,
        /// The number in `/dev/nvidiaN`. Default: the GPU's position in the file.
        minor: Option<u32>,
        /// The header's number; default 2 (Tesla).
        brand: Option<u32>,
        /// The header's number; default 7 (Ampere).
        architecture: Option<u32>,
        /// Default: `[8, 0]`.
        compute_capability: Option<[i32; 2]>,
        memory_total_mib: Option<f64>,
        /// Memory reserved by the driver: part of `used` in the old record, separate in the new one.
        memory_reserved_mib: Option<f64>,
        /// Whether the GPU shares the host's memory: its memory readings are not supported, but those of its processes are.
        unified_memory: bool,
        /// Default: 0 if `fan_percent` is absent, otherwise 1.
        fans: Option<u32>,
        /// If absent, the GPU has no ECC.
        ecc: Option<bool>,
        display: bool,
        /// Default: true.
        persistence: Option<bool>,
        /// The header's number; default 0.
        compute_mode: u32,
        /// Default: true if there is a `[[gpu.mig]]`. Without either, the GPU does not support MIG.
        mig_mode: Option<bool>,
    }
    readings {
        /// Default: the sum of the known memory of the processes.
        memory_used_mib = None,
        util = Some(0.0),
        memory_util = Some(0.0),
        encoder_util = Some(0.0),
        decoder_util = Some(0.0),
        temperature_c = Some(35.0),
        memory_temperature_c = None,
        power_w = Some(60.0),
        power_limit_w = Some(400.0),
        /// Default: the integral of `power_w` since second 0.
        energy_mj = None,
        fan_percent = None,
        clock_graphics_mhz = Some(1410.0),
        clock_sm_mhz = Some(1410.0),
        clock_memory_mhz = Some(1512.0),
        clock_video_mhz = Some(1275.0),
        performance_state = Some(0.0),
        throttle_reasons = Some(0.0),
        pcie_tx_kib = Some(0.0),
        pcie_rx_kib = Some(0.0),
        ecc_corrected = Some(0.0),
        ecc_uncorrected = Some(0.0),
        /// 1 if a memory row waits for a reset to be remapped. If absent, the GPU does not remap rows.
        remap_pending = None,
        /// 1 if a memory row could not be remapped.
        remap_failed = Some(0.0),
        /// 1 if a memory page waits for a reboot to be retired. If absent, the GPU does not retire pages.
        retirement_pending = None,
    }
    tables {
        /// Periods, as `[from, until]`, in which every call for the GPU returns GPU_IS_LOST.
        lost: Vec<[f64; 2]>,
        /// Periods in which the GPU is not even counted.
        absent: Vec<[f64; 2]>,
        buffers: Option<Buffers>,
        #[serde(rename = "process")]
        processes: Vec<Process>,
        #[serde(rename = "mig")]
        instances: Vec<Instance>,
    }
}

super::tables! {
    /// A MIG instance.
    pub struct Instance {
        /// Default: its position in the file. Gaps between indices are allowed; real GPUs have them too.
        index: Option<u32> = None,
        /// Default: derived from the GPU's UUID and the index.
        uuid: String = String::new(),
        profile: String = "1g.10gb".to_owned(),
        /// Default: the index plus 1.
        gpu_instance: Option<u32> = None,
        compute_instance: u32 = 0,
        slices: u32 = 1,
        /// Default: the value of `slices`.
        compute_slices: Option<u32> = None,
        multiprocessors: u32 = 14,
        memory_total_mib: f64 = 9728.0,
        memory_used_mib: Option<Value> = None,
        /// Seconds between which it exists. Default: always.
        from: Option<f64> = None,
        until: Option<f64> = None,
        #[serde(rename = "process")]
        processes: Vec<Process> = Vec::new(),
    }
}

/// A process on a GPU or on a MIG instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Process {
    pub pid: u32,
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Result of `nvmlSystemGetProcessName`. Default: the name in `/proc`.
    pub name: Option<String>,
    /// A number, a time line, or `"unknown"`.
    pub memory_mib: Option<Value>,
    /// Memory in bytes; it takes precedence over `memory_mib`.
    pub memory_bytes: Option<Value>,
    pub protected_mib: Option<Value>,
    pub sm_util: Option<Value>,
    pub memory_util: Option<Value>,
    pub encoder_util: Option<Value>,
    pub decoder_util: Option<Value>,
    /// Default: the MIG instance's; without an instance, all ones.
    pub gpu_instance: Option<u32>,
    pub compute_instance: Option<u32>,
    pub from: Option<f64>,
    pub until: Option<f64>,
}

/// The driver's lists that contain the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Compute,
    Graphics,
    Both,
    /// A client of the Multi-Process Service, in its list and in the compute list.
    Mps,
    /// The same on drivers that do not put it in the compute list.
    #[serde(rename = "mps-only")]
    MpsOnly,
}

impl Process {
    pub fn new(pid: u32, memory_mib: impl Into<Value>) -> Process {
        Process {
            pid,
            memory_mib: Some(memory_mib.into()),
            ..Process::default()
        }
    }

    fn check(&self) -> Result<(), String> {
        let utils = [
            &self.sm_util,
            &self.memory_util,
            &self.encoder_util,
            &self.decoder_util,
            &self.protected_mib,
        ];
        let mut utils = utils.into_iter().flatten();
        let message = "a process's utilisation is a number or a time line";
        require(utils.all(|value| !value.is_word()), message)?;
        let memory = [&self.memory_mib, &self.memory_bytes];
        let mut memory = memory.into_iter().flatten();
        let message = "a process's memory is a number, a time line or \"unknown\"";
        require(memory.all(|value| *value != Value::Unsupported), message)
    }
}

impl Gpu {
    pub(super) fn check(&self) -> Result<(), String> {
        require(
            self.readings().all(|value| *value != Value::Unknown),
            "only a process's memory can be \"unknown\"; a GPU's reading can be \"unsupported\"",
        )?;
        let sizes = [self.memory_total_mib, self.memory_reserved_mib];
        sizes.into_iter().flatten().try_for_each(check_size)?;
        for text in [&self.name, &self.uuid, &self.pci] {
            require(!text.contains('\0'), "a name cannot hold a zero byte")?;
        }
        let is_address = self.pci.is_empty() || Address::parse(&self.pci).is_some();
        require(is_address, "pci must look like 00000000:41:00.0")?;
        if let Some(buffers) = &self.buffers {
            buffers.check()?;
        }
        let mut indices = BTreeSet::new();
        for (instance, place) in self.instances.iter().zip(0..) {
            let place = instance.index.unwrap_or(place);
            let message = "a GPU has room for 16 MIG instances: index 0 to 15";
            require(place < 16, message)?;
            let message = "two MIG instances have the same index";
            require(indices.insert(place), message)?;
            check_size(instance.memory_total_mib)?;
        }
        let instances = self.instances.iter();
        let on_instances = instances.flat_map(|instance| &instance.processes);
        let mut processes = self.processes.iter().chain(on_instances);
        processes.try_for_each(Process::check)
    }
}

fn check_size(mib: f64) -> Result<(), String> {
    let is_size = mib.is_finite() && mib >= 0.0;
    require(is_size, "a memory size cannot be negative")
}
