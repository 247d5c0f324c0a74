//! Simulated GPUs, instances and processes: their readings at a given time.

use crate::code::Code;
use crate::line::Line;
use crate::pci::Address;
use crate::scenario::{self, Buffers, Kind, Value};
use crate::world::whole;

const MIB: f64 = 1024.0 * 1024.0;

/// Instance ids of a process that is on no instance.
const NO_INSTANCE: u32 = u32::MAX;

/// Memory of a process whose memory is unknown.
const UNKNOWN_MEMORY: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Card {
    pub(crate) told: scenario::Card,
    pub(crate) uuid: String,
    pub(crate) name: String,
    pub(crate) pci: Address,
    pub(crate) minor: u32,
    pub(crate) buffers: Buffers,
    pub(crate) util: Reading,
    pub(crate) memory_util: Reading,
    pub(crate) encoder_util: Reading,
    pub(crate) decoder_util: Reading,
    pub(crate) temperature_c: Reading,
    pub(crate) memory_temperature_c: Reading,
    pub(crate) power_w: Reading,
    pub(crate) power_limit_w: Reading,
    energy_mj: Option<Reading>,
    pub(crate) fan_percent: Reading,
    pub(crate) clock_graphics_mhz: Reading,
    pub(crate) clock_sm_mhz: Reading,
    pub(crate) clock_memory_mhz: Reading,
    pub(crate) clock_video_mhz: Reading,
    pub(crate) performance_state: Reading,
    pub(crate) throttle_reasons: Reading,
    pub(crate) pcie_tx_kib: Reading,
    pub(crate) pcie_rx_kib: Reading,
    pub(crate) ecc_corrected: Reading,
    pub(crate) ecc_uncorrected: Reading,
    memory_used_mib: Option<Reading>,
    pub(crate) processes: Vec<Process>,
    pub(crate) instances: Vec<Instance>,
}

/// A time line; `None` if the driver returns NOT_SUPPORTED.
#[derive(Debug)]
pub(crate) struct Reading(Option<Line>);

impl Reading {
    fn new(value: Option<&Value>, default: Option<f64>) -> Reading {
        Reading(match value {
            Some(value) => Line::new(value),
            None => default.map(Line::constant),
        })
    }

    pub(crate) fn at(&self, time: f64) -> Result<f64, Code> {
        Ok(self.line()?.at(time))
    }

    pub(crate) fn line(&self) -> Result<&Line, Code> {
        self.0.as_ref().ok_or(Code::NOT_SUPPORTED)
    }
}

impl Card {
    pub(crate) fn new(told: &scenario::Card, index: usize, buffers: &Buffers) -> Card {
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let reading = |value: &Option<Value>, default| Reading::new(value.as_ref(), default);
        let uuid = if told.uuid.is_empty() {
            format!("GPU-5e1f0000-0000-4000-8000-{index:012x}")
        } else {
            told.uuid.clone()
        };
        let own_address = Address {
            domain: number >> 8,
            bus: number.wrapping_add(1) & 0xff,
            device: 0,
        };
        let instances = told
            .instances
            .iter()
            .enumerate()
            .map(|(place, part)| Instance::new(part, place, &uuid))
            .collect();
        Card {
            name: if told.name.is_empty() {
                "NVIDIA A100-SXM4-80GB".to_owned()
            } else {
                told.name.clone()
            },
            pci: Address::parse(&told.pci).unwrap_or(own_address),
            minor: told.minor.unwrap_or(number),
            buffers: told.buffers.clone().unwrap_or_else(|| buffers.clone()),
            util: reading(&told.util, Some(0.0)),
            memory_util: reading(&told.memory_util, Some(0.0)),
            encoder_util: reading(&told.encoder_util, Some(0.0)),
            decoder_util: reading(&told.decoder_util, Some(0.0)),
            temperature_c: reading(&told.temperature_c, Some(35.0)),
            memory_temperature_c: reading(&told.memory_temperature_c, None),
            power_w: reading(&told.power_w, Some(60.0)),
            power_limit_w: reading(&told.power_limit_w, Some(400.0)),
            energy_mj: told
                .energy_mj
                .as_ref()
                .map(|value| Reading::new(Some(value), None)),
            fan_percent: reading(&told.fan_percent, None),
            clock_graphics_mhz: reading(&told.clock_graphics_mhz, Some(1410.0)),
            clock_sm_mhz: Reading::new(
                told.clock_sm_mhz
                    .as_ref()
                    .or(told.clock_graphics_mhz.as_ref()),
                Some(1410.0),
            ),
            clock_memory_mhz: reading(&told.clock_memory_mhz, Some(1512.0)),
            clock_video_mhz: reading(&told.clock_video_mhz, Some(1275.0)),
            performance_state: reading(&told.performance_state, Some(0.0)),
            throttle_reasons: reading(&told.throttle_reasons, Some(0.0)),
            pcie_tx_kib: reading(&told.pcie_tx_kib, Some(0.0)),
            pcie_rx_kib: reading(&told.pcie_rx_kib, Some(0.0)),
            ecc_corrected: reading(&told.ecc_corrected, Some(0.0)),
            ecc_uncorrected: reading(&told.ecc_uncorrected, Some(0.0)),
            memory_used_mib: told
                .memory_used_mib
                .as_ref()
                .map(|value| Reading::new(Some(value), None)),
            processes: told
                .processes
                .iter()
                .map(|process| Process::new(process, None))
                .collect(),
            instances,
            uuid,
            told: told.clone(),
        }
    }

    pub(crate) fn is_lost(&self, time: f64) -> bool {
        within(&self.told.lost, time)
    }

    pub(crate) fn is_absent(&self, time: f64) -> bool {
        within(&self.told.absent, time)
    }

    /// Returns the MIG mode; `None` for a GPU without MIG.
    pub(crate) fn mig_mode(&self) -> Option<bool> {
        self.told
            .mig_mode
            .or((!self.instances.is_empty()).then_some(true))
    }

    /// Returns a reading that a GPU in MIG mode does not have.
    pub(crate) fn without_mig<'a>(&self, reading: &'a Reading) -> Result<&'a Reading, Code> {
        if self.mig_mode() == Some(true) {
            Err(Code::NOT_SUPPORTED)
        } else {
            Ok(reading)
        }
    }

    /// Returns the processes of the GPU and of all its instances.
    pub(crate) fn all_processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().chain(
            self.instances
                .iter()
                .flat_map(|instance| &instance.processes),
        )
    }

    pub(crate) fn memory(&self, time: f64) -> Result<Sizes, Code> {
        if self.told.unified_memory {
            return Err(Code::NOT_SUPPORTED);
        }
        let total = whole(self.told.memory_total_mib.unwrap_or(81_920.0) * MIB);
        let reserved = whole(self.told.memory_reserved_mib.unwrap_or(500.0) * MIB).min(total);
        let used = match &self.memory_used_mib {
            Some(reading) => whole(reading.at(time)? * MIB),
            None => sum_of_memory(self.all_processes(), time),
        };
        Ok(Sizes {
            total,
            reserved,
            used: used.min(total - reserved),
        })
    }

    /// Returns the energy since second 0. It never decreases unless the scenario says so.
    pub(crate) fn energy_mj(&self, time: f64) -> Result<u64, Code> {
        match &self.energy_mj {
            Some(reading) => reading.at(time).map(whole),
            None => Ok(whole(self.power_w.line()?.area(time) * 1000.0)),
        }
    }

    pub(crate) fn fans(&self) -> u32 {
        self.told
            .fans
            .unwrap_or_else(|| u32::from(self.fan_percent.0.is_some()))
    }
}

/// Memory in the layout of the newer record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) total: u64,
    pub(crate) reserved: u64,
    pub(crate) used: u64,
}

#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) index: u32,
    pub(crate) uuid: String,
    pub(crate) gpu_instance: u32,
    pub(crate) told: scenario::Instance,
    memory_used_mib: Option<Reading>,
    pub(crate) processes: Vec<Process>,
}

impl Instance {
    fn new(told: &scenario::Instance, place: usize, card_uuid: &str) -> Instance {
        let index = told
            .index
            .unwrap_or_else(|| u32::try_from(place).unwrap_or(u32::MAX));
        let gpu_instance = told.gpu_instance.unwrap_or(index.saturating_add(1));
        let ids = (gpu_instance, told.compute_instance);
        let uuid = if told.uuid.is_empty() {
            let bare = card_uuid.strip_prefix("GPU-").unwrap_or(card_uuid);
            // The last two digits would repeat the GPU's; they become the instance's.
            let stem = bare.get(..bare.len().saturating_sub(2)).unwrap_or(bare);
            format!("MIG-{stem}{:02x}", 0xf0_u32.wrapping_add(index) & 0xff)
        } else {
            told.uuid.clone()
        };
        Instance {
            index,
            uuid,
            gpu_instance,
            memory_used_mib: told
                .memory_used_mib
                .as_ref()
                .map(|value| Reading::new(Some(value), None)),
            processes: told
                .processes
                .iter()
                .map(|process| Process::new(process, Some(ids)))
                .collect(),
            told: told.clone(),
        }
    }

    pub(crate) fn memory(&self, time: f64) -> Result<Sizes, Code> {
        let total = whole(self.told.memory_total_mib * MIB);
        let used = match &self.memory_used_mib {
            Some(reading) => whole(reading.at(time)? * MIB),
            None => sum_of_memory(self.processes.iter(), time),
        };
        Ok(Sizes {
            total,
            reserved: 0,
            used: used.min(total),
        })
    }
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) kind: Kind,
    pub(crate) name: Option<String>,
    /// Memory in bytes; `None` is unknown.
    memory: Option<(Line, f64)>,
    protected_mib: Line,
    pub(crate) sm_util: Line,
    pub(crate) memory_util: Line,
    pub(crate) encoder_util: Line,
    pub(crate) decoder_util: Line,
    pub(crate) gpu_instance: u32,
    pub(crate) compute_instance: u32,
    from: f64,
    until: f64,
}

impl Process {
    fn new(told: &scenario::Process, ids: Option<(u32, u32)>) -> Process {
        let line = |value: &Option<Value>| {
            value
                .as_ref()
                .and_then(Line::new)
                .unwrap_or_else(|| Line::constant(0.0))
        };
        let memory = match (&told.memory_bytes, &told.memory_mib) {
            (Some(bytes), _) => Line::new(bytes).map(|line| (line, 1.0)),
            (None, Some(mib)) => Line::new(mib).map(|line| (line, MIB)),
            (None, None) => Some((Line::constant(0.0), 1.0)),
        };
        Process {
            pid: told.pid,
            kind: told.kind,
            name: told.name.clone(),
            memory,
            protected_mib: line(&told.protected_mib),
            sm_util: line(&told.sm_util),
            memory_util: line(&told.memory_util),
            encoder_util: line(&told.encoder_util),
            decoder_util: line(&told.decoder_util),
            gpu_instance: told
                .gpu_instance
                .or(ids.map(|(gpu, _)| gpu))
                .unwrap_or(NO_INSTANCE),
            compute_instance: told
                .compute_instance
                .or(ids.map(|(_, compute)| compute))
                .unwrap_or(NO_INSTANCE),
            from: told.from.unwrap_or(f64::NEG_INFINITY),
            until: told.until.unwrap_or(f64::INFINITY),
        }
    }

    pub(crate) fn runs_at(&self, time: f64) -> bool {
        self.from <= time && time < self.until
    }

    /// Returns the memory; all ones if it is unknown.
    pub(crate) fn memory_bytes(&self, time: f64) -> u64 {
        match &self.memory {
            Some((line, unit)) => whole(line.at(time) * unit),
            None => UNKNOWN_MEMORY,
        }
    }

    pub(crate) fn protected_bytes(&self, time: f64) -> u64 {
        whole(self.protected_mib.at(time) * MIB)
    }
}

/// Returns the sum; unknown memory counts as zero.
fn sum_of_memory<'a>(processes: impl Iterator<Item = &'a Process>, time: f64) -> u64 {
    processes
        .filter(|process| process.runs_at(time))
        .map(|process| process.memory_bytes(time))
        .filter(|bytes| *bytes != UNKNOWN_MEMORY)
        .fold(0, u64::saturating_add)
}

fn within(intervals: &[[f64; 2]], time: f64) -> bool {
    intervals
        .iter()
        .any(|[from, until]| *from <= time && time < *until)
}
