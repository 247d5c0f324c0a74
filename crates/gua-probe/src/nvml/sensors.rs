//! The readings of a GPU: sensors, which change from tick to tick, and settings, which rarely do.
//!
//! A new reading is added here and to the table in `gua_model::readings`.

use gua_model::sample::{ComputeMode, MemoryRepairs, PerformanceState, Switch, ThrottleReasons};
use gua_model::{
    Celsius, FanSpeed, Gpu, Megahertz, Millijoules, Milliwatts, Missing, Percent, Reading,
    UtilWindow,
};

use super::calls::Calls;
use super::code::Code;
use super::library::{self, Device, at_most, pci_id, plausible, switch};

/// Ten kilowatts: eight times the draw of the largest module.
const MAX_MILLIWATTS: u32 = 10_000_000;
const MAX_MEGAHERTZ: u32 = 10_000;
/// Percent of a nominal maximum, which may be exceeded.
const MAX_FAN_SPEED: u32 = 1000;
/// A counter beyond this would have taken centuries.
const MAX_COUNT: u64 = 1 << 56;

/// Reads the sensors of a GPU.
pub(super) fn read(gpu: &mut Gpu, calls: &mut Calls<'_>, device: Device) {
    gpu.temperature = calls.read(device, &library::TEMPERATURE, |value| {
        // A temperature below zero comes as a huge unsigned number.
        let celsius = plausible(value.cast_signed(), |value| (-100..=250).contains(value));
        celsius.map(Celsius)
    });
    gpu.power = milliwatts(calls, device, &library::POWER);
    let energy = calls.read(device, &library::ENERGY, at_most(MAX_COUNT));
    gpu.energy = energy.map(Millijoules);
    let mut clock = |query| {
        calls
            .read(device, query, at_most(MAX_MEGAHERTZ))
            .map(Megahertz)
    };
    gpu.sm_clock = clock(&library::SM_CLOCK);
    gpu.memory_clock = clock(&library::MEMORY_CLOCK);
    gpu.fan = calls.read(device, &library::FAN_SPEED, |speed| {
        let speed = u16::try_from(at_most(MAX_FAN_SPEED)(speed)?);
        speed.map(FanSpeed).map_err(|_| Code::IMPLAUSIBLE)
    });
    gpu.performance_state = calls.read(device, &library::PERFORMANCE_STATE, |state| {
        match u8::try_from(state) {
            Ok(state @ 0..=15) => Ok(PerformanceState(state)),
            // NVML_PSTATE_UNKNOWN.
            Ok(32) => Err(Code::NOT_SUPPORTED),
            _ => Err(Code::IMPLAUSIBLE),
        }
    });
    gpu.throttle = calls.read(device, &library::THROTTLE, |bits| Ok(ThrottleReasons(bits)));
}

/// Reads the name and the address of a GPU unless they are known.
pub(super) fn read_identity(known: &mut Gpu, calls: &mut Calls<'_>, device: Device) {
    if known.name.is_err() {
        known.name = calls.call("nvmlDeviceGetName", |library| library.name(device));
    }
    if known.pci.is_err() {
        known.pci = calls.read(device, &library::PCI, pci_id);
    }
}

/// Copies the name and the address, which a lost GPU keeps.
pub(super) fn copy_identity(from: &Gpu, to: &mut Gpu, why: Missing) {
    to.name = from.name.clone().map_err(|_| why);
    to.pci = from.pci.map_err(|_| why);
}

/// Reads the settings of a GPU. [`copy_settings`] keeps them for later ticks and must copy every one of them.
pub(super) fn read_settings(gpu: &mut Gpu, calls: &mut Calls<'_>, device: Device) {
    gpu.power_limit = milliwatts(calls, device, &library::POWER_LIMIT);
    gpu.ecc_mode = calls.read(device, &library::ECC_MODE, switch);
    gpu.compute_mode = calls.read(device, &library::COMPUTE_MODE, |mode| {
        Ok(match mode {
            0 => ComputeMode::Default,
            1 => ComputeMode::ExclusiveThread,
            2 => ComputeMode::Prohibited,
            3 => ComputeMode::ExclusiveProcess,
            other => ComputeMode::Other(other),
        })
    });
    gpu.persistence = calls.read(device, &library::PERSISTENCE, switch);
    gpu.memory_repairs = memory_repairs(calls, device);
}

pub(super) fn copy_settings(from: &Gpu, to: &mut Gpu) {
    to.power_limit = from.power_limit;
    to.ecc_mode = from.ecc_mode;
    to.compute_mode = from.compute_mode;
    to.persistence = from.persistence;
    to.memory_repairs = from.memory_repairs;
}

/// Copies the readings of health, which the driver has of the whole GPU only, to an instance: a fault affects every
/// instance.
pub(super) fn copy_health(parent: &Gpu, instance: &mut Gpu) {
    instance.ecc_mode = parent.ecc_mode;
    instance.ecc_corrected = parent.ecc_corrected;
    instance.ecc_uncorrected = parent.ecc_uncorrected;
    instance.memory_repairs = parent.memory_repairs;
    instance.throttle = parent.throttle;
}

fn milliwatts(
    calls: &mut Calls<'_>,
    device: Device,
    query: &library::Query<u32>,
) -> Reading<Milliwatts> {
    let value = calls.read(device, query, at_most(MAX_MILLIWATTS));
    value.map(|value| Milliwatts(value.into()))
}

/// Reads which repairs of the memory are pending or have failed. GPUs up to Volta retire pages, later ones remap rows, so
/// one of the two calls is unsupported. With MIG instances, the driver reports no remapped rows.
fn memory_repairs(calls: &mut Calls<'_>, device: Device) -> Reading<MemoryRepairs> {
    let rows = calls.call("nvmlDeviceGetRemappedRows", |library| {
        library.remapped_rows(device)
    });
    let pages = calls.read(device, &library::RETIREMENT_PENDING, switch);
    let bit = |switch: Switch, bit: u64| if switch == Switch::On { bit } else { 0 };
    let rows = rows.map(|(pending, failed)| {
        bit(pending, MemoryRepairs::REMAP_PENDING) | bit(failed, MemoryRepairs::REMAP_FAILED)
    });
    let pages = pages.map(|pending| bit(pending, MemoryRepairs::RETIREMENT_PENDING));
    match (rows, pages) {
        (Ok(rows), Ok(pages)) => Ok(MemoryRepairs(rows | pages)),
        (Ok(bits), Err(Missing::Unsupported)) | (Err(Missing::Unsupported), Ok(bits)) => {
            Ok(MemoryRepairs(bits))
        }
        (Err(Missing::Unsupported), Err(why)) | (Err(why), _) | (_, Err(why)) => Err(why),
    }
}

pub(super) fn read_memory(gpu: &mut Gpu, calls: &mut Calls<'_>, device: Device) {
    let memory = calls.call("nvmlDeviceGetMemoryInfo", |library| library.memory(device));
    gpu.memory_total = memory.map(|memory| memory.total);
    gpu.memory_used = memory.map(|memory| memory.used);
    gpu.memory_reserved = memory.and_then(|memory| memory.reserved.ok_or(Missing::Unsupported));
}

/// Reads the utilisation. `window` is the result of reading the driver's buffer of samples.
pub(super) fn read_utilisation(
    gpu: &mut Gpu,
    calls: &mut Calls<'_>,
    device: Device,
    window: Result<UtilWindow, Code>,
) {
    let rates = calls.read(device, &library::UTILISATION, Ok);
    // More than a hundred is invalid: the reading is missing, and not a hundred.
    let mut percent = |value| {
        let name = library::UTILISATION.name;
        Percent::new(value).ok_or_else(|| calls.failed(name, Code::IMPLAUSIBLE))
    };
    gpu.util = rates.and_then(|rates| percent(rates.gpu));
    gpu.memory_util = rates.and_then(|rates| percent(rates.memory));
    gpu.window = calls.call("nvmlDeviceGetSamples", |_| window);
}

/// Reads the counters of ECC, which exist only while its mode is on.
pub(super) fn read_ecc(gpu: &mut Gpu, calls: &mut Calls<'_>, device: Device) {
    let mode = gpu.ecc_mode;
    let mut errors = |query| match mode? {
        Switch::On => calls.read(device, query, at_most(MAX_COUNT)),
        Switch::Off => Err(Missing::Unsupported),
    };
    gpu.ecc_corrected = errors(&library::ECC_CORRECTED);
    gpu.ecc_uncorrected = errors(&library::ECC_UNCORRECTED);
}
