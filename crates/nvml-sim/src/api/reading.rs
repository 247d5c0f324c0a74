//! Readings that change over time: memory, utilisation, temperature, power, clocks, fans and error counts.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlBAR1Memory_t, nvmlEccErrorCounts_t, nvmlFanSpeedInfo_t, nvmlMemory_t, nvmlMemory_v2_t,
    nvmlTemperature_v1_t, nvmlUtilization_t,
};

use crate::call::{Seen, exports};
use crate::code::Code;
use crate::foreign::{Device, Out};
use crate::layout::version_of;
use crate::world::{Sizes, whole, whole32};

exports! {
    R390 value fn nvmlDeviceGetMemoryInfo(device: Device, memory: Out<nvmlMemory_t>) |seen| {
        let Sizes { total, reserved, used } = sizes(seen)?;
        // The old record has no field for reserved memory, so it is included in the used memory.
        nvmlMemory_t { total, free: total - reserved - used, used: reserved + used }
    };
    R525 gpu fn nvmlDeviceGetMemoryInfo_v2(device: Device, memory: Out<nvmlMemory_v2_t>) |seen| {
        let version = check_version(memory.get()?.version, version_of::<nvmlMemory_v2_t>(2))?;
        let Sizes { total, reserved, used } = sizes(seen)?;
        memory.set(nvmlMemory_v2_t { version, total, reserved, free: total - reserved - used, used })
    };
    R390 value fn nvmlDeviceGetBAR1MemoryInfo(device: Device, memory: Out<nvmlBAR1Memory_t>) |seen| {
        seen.sensor()?;
        let (total, used) = (256 << 20, 1 << 20);
        nvmlBAR1Memory_t { bar1Total: total, bar1Free: total - used, bar1Used: used }
    };
    R390 value fn nvmlDeviceGetUtilizationRates(device: Device, utilization: Out<nvmlUtilization_t>) |seen| {
        let gpu = whole32(seen.read_without_mig(|sensors| &sensors.util)?);
        nvmlUtilization_t { gpu, memory: whole32(seen.read(|sensors| &sensors.memory_util)?) }
    };
    R390 gpu fn nvmlDeviceGetEncoderUtilization(device: Device, utilization: Out<c_uint>, period_us: Out<c_uint>) |seen| {
        utilization.set(whole32(seen.read_without_mig(|sensors| &sensors.encoder_util)?))?;
        period_us.set(whole32(seen.gpu().buffers.period_ms * 1000.0))
    };
    R390 gpu fn nvmlDeviceGetDecoderUtilization(device: Device, utilization: Out<c_uint>, period_us: Out<c_uint>) |seen| {
        utilization.set(whole32(seen.read_without_mig(|sensors| &sensors.decoder_util)?))?;
        period_us.set(whole32(seen.gpu().buffers.period_ms * 1000.0))
    };

    R390 gpu fn nvmlDeviceGetTemperature(device: Device, sensor: c_uint, celsius: Out<c_uint>) |seen| {
        celsius.set(temperature(seen, sensor)?)
    };
    R580 gpu fn nvmlDeviceGetTemperatureV(device: Device, celsius: Out<nvmlTemperature_v1_t>) |seen| {
        let asked = celsius.get()?;
        check_version(asked.version, version_of::<nvmlTemperature_v1_t>(1))?;
        celsius.set(nvmlTemperature_v1_t { temperature: temperature(seen, asked.sensorType)?.cast_signed(), ..asked })
    };
    R390 gpu fn nvmlDeviceGetTemperatureThreshold(device: Device, threshold: c_uint, temperature: Out<c_uint>) |seen| {
        seen.sensor()?;
        match threshold {
            0 | 2 => temperature.set(95),
            1 => temperature.set(92),
            3 => temperature.set(85),
            4..=7 => Err(Code::NOT_SUPPORTED),
            _ => Err(Code::INVALID_ARGUMENT),
        }
    };

    R390 value fn nvmlDeviceGetPowerUsage(device: Device, milliwatts: Out<c_uint>) |seen| whole32(seen.read(|sensors| &sensors.power_w)? * 1000.0);
    R390 value fn nvmlDeviceGetEnforcedPowerLimit(device: Device, milliwatts: Out<c_uint>) |seen| power_limit(seen)?;
    R390 value fn nvmlDeviceGetPowerManagementLimit(device: Device, milliwatts: Out<c_uint>) |seen| power_limit(seen)?;
    R390 value fn nvmlDeviceGetPowerManagementDefaultLimit(device: Device, milliwatts: Out<c_uint>) |seen| power_limit(seen)?;
    R390 gpu fn nvmlDeviceGetPowerManagementLimitConstraints(device: Device, least: Out<c_uint>, most: Out<c_uint>) |seen| {
        let limit = power_limit(seen)?;
        least.set(limit.min(100_000))?;
        most.set(limit)
    };
    R390 value fn nvmlDeviceGetTotalEnergyConsumption(device: Device, millijoules: Out<c_ulonglong>) |seen| seen.sensor()?.energy_mj(seen.time)?;

    R390 gpu fn nvmlDeviceGetClockInfo(device: Device, clock: c_uint, mhz: Out<c_uint>) |seen| mhz.set(clock_mhz(seen, clock)?);
    R390 gpu fn nvmlDeviceGetApplicationsClock(device: Device, clock: c_uint, mhz: Out<c_uint>) |seen| mhz.set(clock_mhz(seen, clock)?);
    R390 gpu fn nvmlDeviceGetMaxClockInfo(device: Device, clock: c_uint, mhz: Out<c_uint>) |seen| {
        clock_mhz(seen, clock)?;
        mhz.set(match clock { 2 => 1593, 3 => 1290, _ => 1410 })
    };
    R390 value fn nvmlDeviceGetFanSpeed(device: Device, percent: Out<c_uint>) |seen| whole32(seen.read(|sensors| &sensors.fan_percent)?);
    R418 gpu fn nvmlDeviceGetFanSpeed_v2(device: Device, fan: c_uint, percent: Out<c_uint>) |seen| percent.set(whole32(fan_percent(seen, fan)?));
    R525 value fn nvmlDeviceGetNumFans(device: Device, fans: Out<c_uint>) |seen| seen.sensor()?.fans();
    R580 gpu fn nvmlDeviceGetFanSpeedRPM(device: Device, speed: Out<nvmlFanSpeedInfo_t>) |seen| {
        let asked = speed.get()?;
        check_version(asked.version, version_of::<nvmlFanSpeedInfo_t>(1))?;
        // A fan at full speed turns about fifty times a second.
        speed.set(nvmlFanSpeedInfo_t { speed: whole32(fan_percent(seen, asked.fan)? * 30.0), ..asked })
    };
    R390 value fn nvmlDeviceGetPerformanceState(device: Device, state: Out<c_uint>) |seen| whole32(seen.read(|sensors| &sensors.performance_state)?);
    R390 value fn nvmlDeviceGetPowerState(device: Device, state: Out<c_uint>) |seen| whole32(seen.read(|sensors| &sensors.performance_state)?);
    R390 value fn nvmlDeviceGetCurrentClocksThrottleReasons(device: Device, reasons: Out<c_ulonglong>) |seen| whole(seen.read(|sensors| &sensors.throttle_reasons)?);
    // The same functions under the names that 535 introduced.
    R535_54 value fn nvmlDeviceGetCurrentClocksEventReasons(device: Device, reasons: Out<c_ulonglong>) |seen| whole(seen.read(|sensors| &sensors.throttle_reasons)?);
    R390 value fn nvmlDeviceGetSupportedClocksThrottleReasons(device: Device, reasons: Out<c_ulonglong>) |seen| seen.constant(0x1ff)?;
    R535_54 value fn nvmlDeviceGetSupportedClocksEventReasons(device: Device, reasons: Out<c_ulonglong>) |seen| seen.constant(0x1ff)?;
    R390 gpu fn nvmlDeviceGetPcieThroughput(device: Device, counter: c_uint, kib: Out<c_uint>) |seen| {
        seen.sensor()?;
        kib.set(whole32(match counter {
            0 => seen.read(|sensors| &sensors.pcie_tx_kib)?,
            1 => seen.read(|sensors| &sensors.pcie_rx_kib)?,
            _ => return Err(Code::INVALID_ARGUMENT),
        }))
    };
    R390 value fn nvmlDeviceGetPcieReplayCounter(device: Device, count: Out<c_uint>) |seen| seen.constant(0)?;

    R390 gpu fn nvmlDeviceGetTotalEccErrors(device: Device, kind: c_uint, _since: c_uint, count: Out<c_ulonglong>) |seen| {
        count.set(ecc_errors(seen, kind)?)
    };
    R450 gpu fn nvmlDeviceGetRemappedRows(device: Device, corrected: Out<c_uint>, uncorrected: Out<c_uint>, pending: Out<c_uint>, failed: Out<c_uint>) |seen| {
        let waits = whole32(seen.read_without_mig(|sensors| &sensors.remap_pending)?);
        pending.set(waits)?;
        failed.set(whole32(seen.read(|sensors| &sensors.remap_failed)?))?;
        corrected.set(0)?;
        uncorrected.set(waits)
    };
    R390 value fn nvmlDeviceGetRetiredPagesPendingStatus(device: Device, pending: Out<c_uint>) |seen| whole32(seen.read(|sensors| &sensors.retirement_pending)?);
    R390 gpu fn nvmlDeviceGetDetailedEccErrors(device: Device, kind: c_uint, _since: c_uint, counts: Out<nvmlEccErrorCounts_t>) |seen| {
        let deviceMemory = ecc_errors(seen, kind)?;
        counts.set(nvmlEccErrorCounts_t { l1Cache: 0, l2Cache: 0, deviceMemory, registerFile: 0 })
    };
    R390 gpu fn nvmlDeviceGetMemoryErrorCounter(device: Device, kind: c_uint, _since: c_uint, place: c_uint, count: Out<c_ulonglong>) |seen| {
        let errors = ecc_errors(seen, kind)?;
        // Location 2 is the device memory; all scripted errors occur there.
        count.set(if place == 2 { errors } else { 0 })
    };
}

/// Checks the version word in a record of the caller, and returns it.
pub(super) fn check_version(found: c_uint, expected: c_uint) -> Result<c_uint, Code> {
    match found == expected {
        true => Ok(expected),
        false => Err(Code::ARGUMENT_VERSION_MISMATCH),
    }
}

fn sizes(seen: &Seen) -> Result<Sizes, Code> {
    match seen.instance() {
        None => seen.gpu().memory(seen.time),
        Some(instance) => instance.memory(seen.time),
    }
}

fn temperature(seen: &Seen, sensor: c_uint) -> Result<c_uint, Code> {
    match sensor {
        0 => Ok(whole32(seen.read(|sensors| &sensors.temperature_c)?)),
        _ => Err(Code::INVALID_ARGUMENT),
    }
}

fn power_limit(seen: &Seen) -> Result<c_uint, Code> {
    Ok(whole32(
        seen.read(|sensors| &sensors.power_limit_w)? * 1000.0,
    ))
}

fn fan_percent(seen: &Seen, fan: c_uint) -> Result<f64, Code> {
    let percent = seen.read(|sensors| &sensors.fan_percent)?;
    match fan < seen.gpu().fans() {
        true => Ok(percent),
        false => Err(Code::INVALID_ARGUMENT),
    }
}

/// Returns a clock by its number in the header.
fn clock_mhz(seen: &Seen, clock: c_uint) -> Result<c_uint, Code> {
    seen.sensor()?;
    let mhz = match clock {
        0 => seen.read(|sensors| &sensors.clock_graphics_mhz),
        1 => seen.read(|sensors| &sensors.clock_sm_mhz),
        2 => seen.read(|sensors| &sensors.clock_memory_mhz),
        3 => seen.read(|sensors| &sensors.clock_video_mhz),
        _ => Err(Code::INVALID_ARGUMENT),
    };
    mhz.map(whole32)
}

pub(super) fn ecc_errors(seen: &Seen, kind: c_uint) -> Result<u64, Code> {
    if seen.sensor()?.scripted.ecc != Some(true) {
        return Err(Code::NOT_SUPPORTED);
    }
    let count = match kind {
        0 => seen.read(|sensors| &sensors.ecc_corrected),
        1 => seen.read(|sensors| &sensors.ecc_uncorrected),
        _ => Err(Code::INVALID_ARGUMENT),
    };
    count.map(whole)
}
