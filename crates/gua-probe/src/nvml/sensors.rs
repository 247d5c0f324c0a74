//! The readings of a GPU that change from tick to tick.
//!
//! A new reading is added here and to the table in `gua_model::readings`.

use gua_model::sample::{MemoryRepairs, PerformanceState, Switch, ThrottleReasons};
use gua_model::{
    Bytes, Celsius, FanSpeed, Gpu, Megahertz, Millijoules, Milliwatts, Missing, Percent, Reading,
    UtilWindow,
};

use nvml_wrapper_sys::bindings as sys;

use super::calls::{Calls, get};
use super::code::Code;
use super::library::{Device, MOST_MEMORY, plausible};

/// Ten kilowatts: eight times the draw of the largest module.
const MOST_MILLIWATTS: u32 = 10_000_000;
const MOST_MEGAHERTZ: u32 = 10_000;
/// Percent of a nominal maximum, which may be exceeded.
const MOST_FAN_SPEED: u32 = 1000;
/// A counter beyond this would have taken centuries.
const MOST_COUNT: u64 = 1 << 56;

/// Reads the sensors of a GPU.
pub(super) fn read(gpu: &mut Gpu, calls: &mut Calls<'_>, device: Device) {
    let temperature = calls.call("nvmlDeviceGetTemperature", |library| {
        // A temperature below zero comes as a huge unsigned number.
        let value = library.temperature(device)?.cast_signed();
        plausible(value, |value| (-100..=250).contains(value))
    });
    gpu.temperature = temperature.map(Celsius);
    let power = get!(calls, device, nvmlDeviceGetPowerUsage, most MOST_MILLIWATTS);
    gpu.power = power.map(|value| Milliwatts(value.into()));
    let energy = get!(calls, device, nvmlDeviceGetTotalEnergyConsumption, most MOST_COUNT);
    gpu.energy = energy.map(Millijoules);
    gpu.sm_clock = clock(calls, device, sys::nvmlClockType_enum_NVML_CLOCK_SM);
    gpu.memory_clock = clock(calls, device, sys::nvmlClockType_enum_NVML_CLOCK_MEM);
    let fan = get!(calls, device, nvmlDeviceGetFanSpeed, most MOST_FAN_SPEED);
    gpu.fan = fan.and_then(|speed| {
        u16::try_from(speed)
            .map(FanSpeed)
            .map_err(|_| Missing::Failed)
    });
    let state = calls.call("nvmlDeviceGetPerformanceState", |library| {
        library.performance_state(device)
    });
    gpu.performance_state = state.map(PerformanceState);
    let reasons = calls.call("nvmlDeviceGetCurrentClocksEventReasons", |library| {
        // The older name is the only one before driver 535.
        library.get_or(
            &library.raw.nvmlDeviceGetCurrentClocksEventReasons,
            &library.raw.nvmlDeviceGetCurrentClocksThrottleReasons,
            device,
        )
    });
    gpu.throttle = reasons.map(ThrottleReasons);
}

fn clock(calls: &mut Calls<'_>, device: Device, clock: sys::nvmlClockType_t) -> Reading<Megahertz> {
    let megahertz = calls.number("nvmlDeviceGetClockInfo", MOST_MEGAHERTZ, |library| {
        library.clock(device, clock)
    });
    megahertz.map(Megahertz)
}

/// Reads the enforced power limit. It is a setting, so it is read as rarely as the others.
pub(super) fn power_limit(calls: &mut Calls<'_>, device: Device) -> Reading<Milliwatts> {
    let name = "nvmlDeviceGetEnforcedPowerLimit";
    let limit = calls.number(name, MOST_MILLIWATTS, |library| {
        library.get_or(
            &library.raw.nvmlDeviceGetEnforcedPowerLimit,
            &library.raw.nvmlDeviceGetPowerManagementLimit,
            device,
        )
    });
    limit.map(|value| Milliwatts(value.into()))
}

/// Reads which repairs of the memory are pending or have failed. GPUs up to Volta retire pages, later ones remap rows, so
/// one of the two calls is unsupported. With MIG instances, the driver reports no remapped rows.
pub(super) fn memory_repairs(calls: &mut Calls<'_>, device: Device) -> Reading<MemoryRepairs> {
    let rows = calls.call("nvmlDeviceGetRemappedRows", |library| {
        library.remapped_rows(device)
    });
    let pages = calls.call("nvmlDeviceGetRetiredPagesPendingStatus", |library| {
        library.retirement_pending(device)
    });
    let bit = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
    let rows = rows.map(|rows| {
        bit(rows.pending, MemoryRepairs::REMAP_PENDING)
            | bit(rows.failed, MemoryRepairs::REMAP_FAILED)
    });
    let pages = pages.map(|pending| bit(pending == Switch::On, MemoryRepairs::RETIREMENT_PENDING));
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

/// Returns the memory of a process, unless it is more than any GPU has.
pub(super) fn plausible_memory(memory: Reading<Bytes>) -> Reading<Bytes> {
    match memory {
        Ok(memory) if memory.0 > MOST_MEMORY => Err(Missing::Failed),
        memory => memory,
    }
}

/// Reads the utilisation. `window` is the result of reading the driver's buffer of samples.
pub(super) fn read_utilisation(
    gpu: &mut Gpu,
    calls: &mut Calls<'_>,
    device: Device,
    window: Result<UtilWindow, Code>,
) {
    let name = "nvmlDeviceGetUtilizationRates";
    let rates = calls.call(name, |library| library.utilisation(device));
    // More than a hundred is invalid: the reading is missing, and not a hundred.
    let mut percent =
        |value| Percent::new(value).ok_or_else(|| calls.failed(name, Code::IMPLAUSIBLE));
    gpu.util = rates.and_then(|(gpu, _)| percent(gpu));
    gpu.memory_util = rates.and_then(|(_, memory)| percent(memory));
    gpu.window = calls.call("nvmlDeviceGetSamples", |_| window);
}

/// Sets the ECC mode and reads its counters, which exist only while the mode is on.
pub(super) fn read_ecc(
    gpu: &mut Gpu,
    calls: &mut Calls<'_>,
    device: Device,
    mode: Reading<Switch>,
) {
    let mut errors = |kind| match mode? {
        Switch::On => calls.number("nvmlDeviceGetTotalEccErrors", MOST_COUNT, |library| {
            library.ecc_errors(device, kind)
        }),
        Switch::Off => Err(Missing::Unsupported),
    };
    gpu.ecc_corrected = errors(sys::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_CORRECTED);
    gpu.ecc_uncorrected = errors(sys::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
    gpu.ecc_mode = mode;
}
