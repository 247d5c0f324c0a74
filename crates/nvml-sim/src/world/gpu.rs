//! Simulated GPUs, instances and processes: their readings at a given time.

use crate::code::Code;
use crate::line::Line;
use crate::pci::Address;
use crate::scenario::{self, Buffers, Sensors, Value};
use crate::world::whole;

const MIB: f64 = 1024.0 * 1024.0;

/// Instance ids of a process that is on no instance.
const NO_INSTANCE: u32 = u32::MAX;

/// Memory of a process whose memory is unknown.
const UNKNOWN_MEMORY: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Gpu {
    /// The GPU of the scenario, with its name, UUID and minor number.
    pub(crate) scripted: scenario::Gpu,
    pub(crate) pci: Address,
    pub(crate) buffers: Buffers,
    pub(crate) sensors: Sensors,
    pub(crate) processes: Vec<Process>,
    pub(crate) instances: Vec<Instance>,
}

/// A time line; `None` if the driver returns NOT_SUPPORTED.
#[derive(Debug)]
pub(crate) struct Reading(Option<Line>);

impl Reading {
    pub(crate) fn new(value: Option<&Value>, default: Option<f64>) -> Reading {
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

impl Gpu {
    pub(crate) fn new(scripted: &scenario::Gpu, index: usize, buffers: &Buffers) -> Gpu {
        let mut scripted = scripted.clone();
        if scripted.clock_sm_mhz.is_none() {
            scripted.clock_sm_mhz = scripted.clock_graphics_mhz.clone();
        }
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let own_address = Address {
            domain: number >> 8,
            bus: number.wrapping_add(1) & 0xff,
            device: 0,
        };
        if scripted.name.is_empty() {
            scripted.name = "NVIDIA A100-SXM4-80GB".to_owned();
        }
        if scripted.uuid.is_empty() {
            scripted.uuid = format!("GPU-5e1f0000-0000-4000-8000-{index:012x}");
        }
        scripted.minor.get_or_insert(number);
        let instances = scripted.instances.iter().zip(0..);
        Gpu {
            pci: Address::parse(&scripted.pci).unwrap_or(own_address),
            buffers: scripted.buffers.as_ref().unwrap_or(buffers).clone(),
            sensors: Sensors::new(&scripted),
            processes: processes(&scripted.processes, None),
            instances: instances
                .map(|(part, place)| Instance::new(part, place, &scripted.uuid))
                .collect(),
            scripted,
        }
    }

    pub(crate) fn is_lost(&self, time: f64) -> bool {
        within(&self.scripted.lost, time)
    }

    pub(crate) fn is_absent(&self, time: f64) -> bool {
        within(&self.scripted.absent, time)
    }

    /// Returns the MIG mode; `None` for a GPU without MIG.
    pub(crate) fn mig_mode(&self) -> Option<bool> {
        self.scripted
            .mig_mode
            .or((!self.instances.is_empty()).then_some(true))
    }

    /// Fails in MIG mode, in which a GPU has no utilisation.
    pub(crate) fn check_no_mig(&self) -> Result<(), Code> {
        match self.mig_mode() {
            Some(true) => Err(Code::NOT_SUPPORTED),
            _ => Ok(()),
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
        if self.scripted.unified_memory {
            return Err(Code::NOT_SUPPORTED);
        }
        let total = whole(self.scripted.memory_total_mib.unwrap_or(81_920.0) * MIB);
        let reserved = whole(self.scripted.memory_reserved_mib.unwrap_or(500.0) * MIB).min(total);
        let set = self.scripted.memory_used_mib.as_ref();
        let used = used_memory(
            set.map(|_| &self.sensors.memory_used_mib),
            self.all_processes(),
            time,
        )?;
        Ok(Sizes {
            total,
            reserved,
            used: used.min(total - reserved),
        })
    }

    /// Returns the energy since second 0. It never decreases unless the scenario says so.
    pub(crate) fn energy_mj(&self, time: f64) -> Result<u64, Code> {
        match &self.scripted.energy_mj {
            Some(_) => self.sensors.energy_mj.at(time).map(whole),
            None => Ok(whole(self.sensors.power_w.line()?.area(time) * 1000.0)),
        }
    }

    pub(crate) fn fans(&self) -> u32 {
        self.scripted
            .fans
            .unwrap_or_else(|| u32::from(self.sensors.fan_percent.0.is_some()))
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
    pub(crate) gpu_instance: u32,
    pub(crate) scripted: scenario::Instance,
    memory_used_mib: Option<Reading>,
    pub(crate) processes: Vec<Process>,
}

impl Instance {
    pub(crate) fn exists_at(&self, time: f64) -> bool {
        is_between(self.scripted.from, self.scripted.until, time)
    }

    fn new(scripted: &scenario::Instance, place: u32, gpu_uuid: &str) -> Instance {
        let mut scripted = scripted.clone();
        let index = scripted.index.unwrap_or(place);
        let gpu_instance = scripted.gpu_instance.unwrap_or(index.saturating_add(1));
        if scripted.uuid.is_empty() {
            let bare = gpu_uuid.strip_prefix("GPU-").unwrap_or(gpu_uuid);
            // The last two digits would repeat the GPU's; they become the instance's.
            let stem = bare.get(..bare.len().saturating_sub(2)).unwrap_or(bare);
            scripted.uuid = format!("MIG-{stem}{:02x}", 0xf0_u32.wrapping_add(index) & 0xff);
        }
        let used = scripted.memory_used_mib.as_ref();
        Instance {
            index,
            gpu_instance,
            memory_used_mib: used.map(|value| Reading::new(Some(value), None)),
            processes: processes(
                &scripted.processes,
                Some((gpu_instance, scripted.compute_instance)),
            ),
            scripted,
        }
    }

    pub(crate) fn memory(&self, time: f64) -> Result<Sizes, Code> {
        let total = whole(self.scripted.memory_total_mib * MIB);
        let used = used_memory(self.memory_used_mib.as_ref(), self.processes.iter(), time)?;
        Ok(Sizes {
            total,
            reserved: 0,
            used: used.min(total),
        })
    }
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) scripted: scenario::Process,
    /// Memory in bytes; `None` is unknown.
    memory: Option<(Line, f64)>,
    protected_mib: Line,
    /// Utilisation of the SMs, the memory, the encoder and the decoder.
    pub(crate) utils: [Line; 4],
    pub(crate) gpu_instance: u32,
    pub(crate) compute_instance: u32,
}

impl Process {
    fn new(scripted: &scenario::Process, ids: Option<(u32, u32)>) -> Process {
        let line = |value: &Option<Value>| {
            let line = value.as_ref().and_then(Line::new);
            line.unwrap_or_else(|| Line::constant(0.0))
        };
        let utils = [
            &scripted.sm_util,
            &scripted.memory_util,
            &scripted.encoder_util,
            &scripted.decoder_util,
        ];
        let (gpu_instance, compute_instance) = ids.unwrap_or((NO_INSTANCE, NO_INSTANCE));
        let memory = match (&scripted.memory_bytes, &scripted.memory_mib) {
            (Some(bytes), _) => Line::new(bytes).map(|line| (line, 1.0)),
            (None, Some(mib)) => Line::new(mib).map(|line| (line, MIB)),
            (None, None) => Some((Line::constant(0.0), 1.0)),
        };
        Process {
            memory,
            protected_mib: line(&scripted.protected_mib),
            utils: utils.map(line),
            gpu_instance: scripted.gpu_instance.unwrap_or(gpu_instance),
            compute_instance: scripted.compute_instance.unwrap_or(compute_instance),
            scripted: scripted.clone(),
        }
    }

    pub(crate) fn runs_at(&self, time: f64) -> bool {
        is_between(self.scripted.from, self.scripted.until, time)
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

fn processes(scripted: &[scenario::Process], ids: Option<(u32, u32)>) -> Vec<Process> {
    scripted
        .iter()
        .map(|scripted| Process::new(scripted, ids))
        .collect()
}

/// Returns whether a time is in a period of the scenario. A period without `from` or `until` is unbounded on that side.
pub(super) fn is_between(from: Option<f64>, until: Option<f64>, time: f64) -> bool {
    from.is_none_or(|from| from <= time) && until.is_none_or(|until| time < until)
}

/// Returns the used memory in bytes: the reading of the scenario, or the sum over the processes. Unknown memory counts
/// as zero.
fn used_memory<'a>(
    reading: Option<&Reading>,
    processes: impl Iterator<Item = &'a Process>,
    time: f64,
) -> Result<u64, Code> {
    if let Some(reading) = reading {
        return Ok(whole(reading.at(time)? * MIB));
    }
    let known = processes
        .filter(|process| process.runs_at(time))
        .map(|process| process.memory_bytes(time))
        .filter(|bytes| *bytes != UNKNOWN_MEMORY);
    Ok(known.fold(0, u64::saturating_add))
}

fn within(intervals: &[[f64; 2]], time: f64) -> bool {
    let mut intervals = intervals.iter();
    intervals.any(|[from, until]| is_between(Some(*from), Some(*until), time))
}
