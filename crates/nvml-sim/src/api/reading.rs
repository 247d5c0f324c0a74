//! Readings that change over time: memory, utilisation, temperature, power, clocks, fans and error counts.

use std::ffi::{c_uint, c_ulonglong};

use crate::call::{Seen, exports};
use crate::code::Code;
use crate::foreign::{Device, Out};
use crate::layout::{
    Bar1Memory, EccCounts, FanSpeed, Memory, MemoryV2, Temperature, Utilization, version_of,
};
use crate::world::{Sizes, whole, whole32};

exports! {
    R390 card fn nvmlDeviceGetMemoryInfo(device: Device, memory: Out<Memory>) |seen| {
        let Sizes { total, reserved, used } = sizes(seen)?;
        // The old record has no field for reserved memory, so it is included in the used memory.
        memory.set(Memory { total, free: total - reserved - used, used: reserved + used })
    };
    R525 card fn nvmlDeviceGetMemoryInfo_v2(device: Device, memory: Out<MemoryV2>) |seen| {
        let version = version_of::<MemoryV2>(2);
        if memory.get()?.version != version {
            return Err(Code::ARGUMENT_VERSION_MISMATCH);
        }
        let Sizes { total, reserved, used } = sizes(seen)?;
        memory.set(MemoryV2 { version, total, reserved, free: total - reserved - used, used })
    };
    R390 card fn nvmlDeviceGetBAR1MemoryInfo(device: Device, memory: Out<Bar1Memory>) |seen| {
        seen.sensor()?;
        let (total, used) = (256 << 20, 1 << 20);
        memory.set(Bar1Memory { total, free: total - used, used })
    };
    R390 card fn nvmlDeviceGetUtilizationRates(device: Device, utilization: Out<Utilization>) |seen| {
        let card = seen.sensor()?;
        let gpu = whole32(card.without_mig(&card.util)?.at(seen.time)?);
        let memory = whole32(card.memory_util.at(seen.time)?);
        utilization.set(Utilization { gpu, memory })
    };
    R390 card fn nvmlDeviceGetEncoderUtilization(device: Device, utilization: Out<c_uint>, period_us: Out<c_uint>) |seen| {
        let card = seen.sensor()?;
        utilization.set(whole32(card.without_mig(&card.encoder_util)?.at(seen.time)?))?;
        period_us.set(whole32(card.buffers.period_ms * 1000.0))
    };
    R390 card fn nvmlDeviceGetDecoderUtilization(device: Device, utilization: Out<c_uint>, period_us: Out<c_uint>) |seen| {
        let card = seen.sensor()?;
        utilization.set(whole32(card.without_mig(&card.decoder_util)?.at(seen.time)?))?;
        period_us.set(whole32(card.buffers.period_ms * 1000.0))
    };

    R390 card fn nvmlDeviceGetTemperature(device: Device, sensor: c_uint, temperature: Out<c_uint>) |seen| {
        if sensor != 0 {
            return Err(Code::INVALID_ARGUMENT);
        }
        temperature.set(whole32(seen.sensor()?.temperature_c.at(seen.time)?))
    };
    R580 card fn nvmlDeviceGetTemperatureV(device: Device, temperature: Out<Temperature>) |seen| {
        let asked = temperature.get()?;
        if asked.version != version_of::<Temperature>(1) {
            return Err(Code::ARGUMENT_VERSION_MISMATCH);
        }
        if asked.sensor != 0 {
            return Err(Code::INVALID_ARGUMENT);
        }
        let celsius = whole32(seen.sensor()?.temperature_c.at(seen.time)?).cast_signed();
        temperature.set(Temperature { celsius, ..asked })
    };
    R390 card fn nvmlDeviceGetTemperatureThreshold(device: Device, threshold: c_uint, temperature: Out<c_uint>) |seen| {
        seen.sensor()?;
        match threshold {
            0 => temperature.set(95),
            1 => temperature.set(92),
            2 => temperature.set(95),
            3 => temperature.set(85),
            4..=7 => Err(Code::NOT_SUPPORTED),
            _ => Err(Code::INVALID_ARGUMENT),
        }
    };

    R390 card fn nvmlDeviceGetPowerUsage(device: Device, power: Out<c_uint>) |seen| {
        power.set(whole32(seen.sensor()?.power_w.at(seen.time)? * 1000.0))
    };
    R390 card fn nvmlDeviceGetEnforcedPowerLimit(device: Device, limit: Out<c_uint>) |seen| limit.set(power_limit(seen)?);
    R390 card fn nvmlDeviceGetPowerManagementLimit(device: Device, limit: Out<c_uint>) |seen| limit.set(power_limit(seen)?);
    R390 card fn nvmlDeviceGetPowerManagementDefaultLimit(device: Device, limit: Out<c_uint>) |seen| limit.set(power_limit(seen)?);
    R390 card fn nvmlDeviceGetPowerManagementLimitConstraints(device: Device, least: Out<c_uint>, most: Out<c_uint>) |seen| {
        let limit = power_limit(seen)?;
        least.set(limit.min(100_000))?;
        most.set(limit)
    };
    R390 card fn nvmlDeviceGetTotalEnergyConsumption(device: Device, energy: Out<c_ulonglong>) |seen| {
        energy.set(seen.sensor()?.energy_mj(seen.time)?)
    };

    R390 card fn nvmlDeviceGetClockInfo(device: Device, clock: c_uint, mhz: Out<c_uint>) |seen| {
        mhz.set(clock_mhz(seen, clock, seen.time)?)
    };
    R390 card fn nvmlDeviceGetMaxClockInfo(device: Device, clock: c_uint, mhz: Out<c_uint>) |seen| {
        clock_mhz(seen, clock, seen.time)?;
        mhz.set(match clock {
            2 => 1593,
            3 => 1290,
            _ => 1410,
        })
    };
    R390 card fn nvmlDeviceGetApplicationsClock(device: Device, clock: c_uint, mhz: Out<c_uint>) |seen| {
        mhz.set(clock_mhz(seen, clock, seen.time)?)
    };
    R390 card fn nvmlDeviceGetFanSpeed(device: Device, percent: Out<c_uint>) |seen| {
        percent.set(whole32(seen.sensor()?.fan_percent.at(seen.time)?))
    };
    R418 card fn nvmlDeviceGetFanSpeed_v2(device: Device, fan: c_uint, percent: Out<c_uint>) |seen| {
        let card = seen.sensor()?;
        let speed = card.fan_percent.at(seen.time)?;
        if fan >= card.fans() {
            return Err(Code::INVALID_ARGUMENT);
        }
        percent.set(whole32(speed))
    };
    R525 card fn nvmlDeviceGetNumFans(device: Device, fans: Out<c_uint>) |seen| fans.set(seen.sensor()?.fans());
    R580 card fn nvmlDeviceGetFanSpeedRPM(device: Device, speed: Out<FanSpeed>) |seen| {
        let asked = speed.get()?;
        if asked.version != version_of::<FanSpeed>(1) {
            return Err(Code::ARGUMENT_VERSION_MISMATCH);
        }
        let card = seen.sensor()?;
        let percent = card.fan_percent.at(seen.time)?;
        if asked.fan >= card.fans() {
            return Err(Code::INVALID_ARGUMENT);
        }
        // A fan at full speed turns about fifty times a second.
        speed.set(FanSpeed { rpm: whole32(percent * 30.0), ..asked })
    };
    R390 card fn nvmlDeviceGetPerformanceState(device: Device, state: Out<c_uint>) |seen| {
        state.set(whole32(seen.sensor()?.performance_state.at(seen.time)?))
    };
    R390 card fn nvmlDeviceGetPowerState(device: Device, state: Out<c_uint>) |seen| {
        state.set(whole32(seen.sensor()?.performance_state.at(seen.time)?))
    };
    R390 card fn nvmlDeviceGetCurrentClocksThrottleReasons(device: Device, reasons: Out<c_ulonglong>) |seen| {
        reasons.set(whole(seen.sensor()?.throttle_reasons.at(seen.time)?))
    };
    // The same function under the name that 535 introduced.
    R535_54 card fn nvmlDeviceGetCurrentClocksEventReasons(device: Device, reasons: Out<c_ulonglong>) |seen| {
        reasons.set(whole(seen.sensor()?.throttle_reasons.at(seen.time)?))
    };
    R390 card fn nvmlDeviceGetSupportedClocksThrottleReasons(device: Device, reasons: Out<c_ulonglong>) |seen| {
        seen.sensor()?;
        reasons.set(0x1ff)
    };
    R535_54 card fn nvmlDeviceGetSupportedClocksEventReasons(device: Device, reasons: Out<c_ulonglong>) |seen| {
        seen.sensor()?;
        reasons.set(0x1ff)
    };
    R390 card fn nvmlDeviceGetPcieThroughput(device: Device, counter: c_uint, kib: Out<c_uint>) |seen| {
        let card = seen.sensor()?;
        match counter {
            0 => kib.set(whole32(card.pcie_tx_kib.at(seen.time)?)),
            1 => kib.set(whole32(card.pcie_rx_kib.at(seen.time)?)),
            _ => Err(Code::INVALID_ARGUMENT),
        }
    };
    R390 card fn nvmlDeviceGetPcieReplayCounter(device: Device, count: Out<c_uint>) |seen| {
        seen.sensor()?;
        count.set(0)
    };

    R390 card fn nvmlDeviceGetTotalEccErrors(device: Device, kind: c_uint, _since: c_uint, count: Out<c_ulonglong>) |seen| {
        count.set(ecc_errors(seen, kind)?)
    };
    R390 card fn nvmlDeviceGetDetailedEccErrors(device: Device, kind: c_uint, _since: c_uint, counts: Out<EccCounts>) |seen| {
        let device_memory = ecc_errors(seen, kind)?;
        counts.set(EccCounts { l1_cache: 0, l2_cache: 0, device_memory, register_file: 0 })
    };
    R390 card fn nvmlDeviceGetMemoryErrorCounter(device: Device, kind: c_uint, _since: c_uint, place: c_uint, count: Out<c_ulonglong>) |seen| {
        let errors = ecc_errors(seen, kind)?;
        // Location 2 is the device memory; all scripted errors occur there.
        count.set(if place == 2 { errors } else { 0 })
    };
}

fn sizes(seen: &Seen) -> Result<Sizes, Code> {
    match seen.instance() {
        None => seen.card().memory(seen.time),
        Some(instance) => instance.memory(seen.time),
    }
}

fn power_limit(seen: &Seen) -> Result<c_uint, Code> {
    Ok(whole32(
        seen.sensor()?.power_limit_w.at(seen.time)? * 1000.0,
    ))
}

/// Returns a clock by its number in the header: graphics, SM, memory, video.
fn clock_mhz(seen: &Seen, clock: c_uint, time: f64) -> Result<c_uint, Code> {
    let card = seen.sensor()?;
    let reading = match clock {
        0 => &card.clock_graphics_mhz,
        1 => &card.clock_sm_mhz,
        2 => &card.clock_memory_mhz,
        3 => &card.clock_video_mhz,
        _ => return Err(Code::INVALID_ARGUMENT),
    };
    reading.at(time).map(whole32)
}

pub(super) fn ecc_errors(seen: &Seen, kind: c_uint) -> Result<u64, Code> {
    let card = seen.sensor()?;
    if card.told.ecc != Some(true) {
        return Err(Code::NOT_SUPPORTED);
    }
    match kind {
        0 => card.ecc_corrected.at(seen.time).map(whole),
        1 => card.ecc_uncorrected.at(seen.time).map(whole),
        _ => Err(Code::INVALID_ARGUMENT),
    }
}
