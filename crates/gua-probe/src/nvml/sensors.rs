//! The readings of a GPU that change from tick to tick.
//!
//! A new reading is added here and to the table in `gua_model::readings`.

use gua_model::sample::{PerformanceState, Switch, ThrottleReasons};
use gua_model::{
    Bytes, Celsius, FanSpeed, Gpu, Megahertz, Millijoules, Milliwatts, Missing, Percent, Reading,
    UtilWindow,
};

use super::calls::Calls;
use super::code::Code;
use super::library::{Clock, Device, EccKind, Library, Memory};

/// Ten kilowatts: eight times the draw of the largest module.
const MOST_MILLIWATTS: u32 = 10_000_000;
const MOST_MEGAHERTZ: u32 = 10_000;
/// Percent of a nominal maximum, which may be exceeded.
const MOST_FAN_SPEED: u16 = 1000;
const MOST_MEMORY: u64 = 1 << 50;
/// A counter beyond this would have taken centuries.
const MOST_COUNT: u64 = 1 << 56;

/// Reads the sensors of a GPU.
pub(super) fn read(gpu: &mut Gpu, calls: &mut Calls<'_>, device: Device) {
    let temperature = calls.call("nvmlDeviceGetTemperature", |library| {
        // A temperature below zero comes as a huge unsigned number.
        let value = library.temperature(device)?.cast_signed();
        match (-100..=250).contains(&value) {
            true => Ok(value),
            false => Err(Code::IMPLAUSIBLE),
        }
    });
    gpu.temperature = temperature.map(Celsius);
    gpu.power = power(calls, "nvmlDeviceGetPowerUsage", |library| {
        library.get(&library.raw.nvmlDeviceGetPowerUsage, device)
    });
    let energy = calls.number(
        "nvmlDeviceGetTotalEnergyConsumption",
        MOST_COUNT,
        |library| library.get(&library.raw.nvmlDeviceGetTotalEnergyConsumption, device),
    );
    gpu.energy = energy.map(Millijoules);
    gpu.sm_clock = clock(calls, device, Clock::Sm);
    gpu.memory_clock = clock(calls, device, Clock::Memory);
    let fan = calls.number("nvmlDeviceGetFanSpeed", MOST_FAN_SPEED, |library| {
        let speed = library.get(&library.raw.nvmlDeviceGetFanSpeed, device)?;
        u16::try_from(speed).map_err(|_| Code::IMPLAUSIBLE)
    });
    gpu.fan = fan.map(FanSpeed);
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

fn power(
    calls: &mut Calls<'_>,
    name: &str,
    call: impl FnOnce(&Library) -> Result<u32, Code>,
) -> Reading<Milliwatts> {
    let power = calls.number(name, MOST_MILLIWATTS, call);
    power.map(|value| Milliwatts(value.into()))
}

fn clock(calls: &mut Calls<'_>, device: Device, clock: Clock) -> Reading<Megahertz> {
    let megahertz = calls.number("nvmlDeviceGetClockInfo", MOST_MEGAHERTZ, |library| {
        library.clock(device, clock)
    });
    megahertz.map(Megahertz)
}

/// Reads the enforced power limit. It is a setting, so it is read as rarely as the others.
pub(super) fn power_limit(calls: &mut Calls<'_>, device: Device) -> Reading<Milliwatts> {
    power(calls, "nvmlDeviceGetEnforcedPowerLimit", |library| {
        library.get_or(
            &library.raw.nvmlDeviceGetEnforcedPowerLimit,
            &library.raw.nvmlDeviceGetPowerManagementLimit,
            device,
        )
    })
}

pub(super) fn read_memory(gpu: &mut Gpu, calls: &mut Calls<'_>, device: Device) {
    let memory = calls.call("nvmlDeviceGetMemoryInfo", |library| {
        let memory: Memory = library.memory(device)?;
        match memory.total.0 <= MOST_MEMORY {
            true => Ok(memory),
            false => Err(Code::IMPLAUSIBLE),
        }
    });
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
    gpu.ecc_corrected = errors(EccKind::Corrected);
    gpu.ecc_uncorrected = errors(EccKind::Uncorrected);
    gpu.ecc_mode = mode;
}
