//! The driver's sample buffers: finite, with one sample per period; old samples are dropped.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlProcessUtilizationInfo_v1_t, nvmlProcessUtilizationSample_t,
    nvmlProcessesUtilizationInfo_v1_t, nvmlSample_t, nvmlValue_t,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT as UNSIGNED_INT,
};

use super::reading::check_version;
use crate::call::{Seen, exports};
use crate::code::Code;
use crate::foreign::{Array, Count, Device, Out};
use crate::layout::version_of;
use crate::line::Line;
use crate::world::{whole, whole32};

exports! {
    R390 gpu fn nvmlDeviceGetSamples(device: Device, kind: c_uint, last_seen: c_ulonglong, value_kind: Out<c_uint>, count: Count, samples: Array<nvmlSample_t>) |seen| {
        let (line, unit) = series(seen, kind)?;
        let buffers = &seen.gpu().buffers;
        let junk_every = u64::from(if is_utilization(kind) { buffers.junk_every } else { 0 });
        let room = count.get()?;
        value_kind.set(UNSIGNED_INT)?;
        if samples.is_null() {
            return count.set(usize::try_from(buffers.samples).unwrap_or(0));
        }
        if room == 0 {
            return Err(Code::INVALID_ARGUMENT);
        }
        let sample = |tick: Tick| {
            let junk = tick.number.checked_rem(junk_every) == Some(0);
            let value = if junk { buffers.junk } else { whole32(line.mean(tick.time, tick.period) * unit) };
            nvmlSample_t { timeStamp: tick.stamp, sampleValue: nvmlValue_t { ullVal: value.into() } }
        };
        let found: Vec<_> = ticks(seen, buffers.samples, last_seen).take(room).map(sample).collect();
        count.set(found.len())?;
        if found.is_empty() {
            return Err(Code::NOT_FOUND);
        }
        samples.write(&found)
    };
    R390 gpu fn nvmlDeviceGetProcessUtilization(device: Device, samples: Array<nvmlProcessUtilizationSample_t>, count: Count, last_seen: c_ulonglong) |seen| {
        let room = count.get()?;
        let sample = |one: nvmlProcessUtilizationInfo_v1_t| {
            let nvmlProcessUtilizationInfo_v1_t { pid, timeStamp, smUtil, memUtil, encUtil, decUtil, .. } = one;
            nvmlProcessUtilizationSample_t { pid, timeStamp, smUtil, memUtil, encUtil, decUtil }
        };
        let found: Vec<_> = process_samples(seen, last_seen)?.into_iter().map(sample).collect();
        count.set(found.len())?;
        check_room(found.len(), room, samples.is_null())?;
        samples.write(&found)
    };
    R550 gpu fn nvmlDeviceGetProcessesUtilizationInfo(device: Device, list: Out<nvmlProcessesUtilizationInfo_v1_t>) |seen| {
        let asked = list.get()?;
        check_version(asked.version, version_of::<nvmlProcessesUtilizationInfo_v1_t>(1))?;
        let found = process_samples(seen, asked.lastSeenTimeStamp)?;
        let processSamplesCount = c_uint::try_from(found.len()).unwrap_or(c_uint::MAX);
        list.set(nvmlProcessesUtilizationInfo_v1_t { processSamplesCount, ..asked })?;
        let room = usize::try_from(asked.processSamplesCount).unwrap_or(usize::MAX);
        check_room(found.len(), room, asked.procUtilArray.is_null())?;
        Array::new(asked.procUtilArray).write(&found)
    };
}

fn check_room(found: usize, room: usize, is_null: bool) -> Result<(), Code> {
    if found == 0 {
        Err(Code::NOT_FOUND)
    } else if is_null || found > room {
        Err(Code::INSUFFICIENT_SIZE)
    } else {
        Ok(())
    }
}

/// End of one sample period, with the driver's time stamp.
#[derive(Clone, Copy, Debug)]
struct Tick {
    number: u64,
    time: f64,
    period: f64,
    stamp: u64,
}

/// Returns the ticks that a buffer of this depth still holds and that are newer than the time stamp, oldest first.
fn ticks(seen: &Seen, depth: u32, last_seen: u64) -> impl Iterator<Item = Tick> {
    let period = seen.gpu().buffers.period_ms / 1000.0;
    let newest = whole((seen.time / period).floor());
    // Tick 0 would cover time before the start of the scenario.
    let oldest = newest
        .saturating_sub(u64::from(depth))
        .saturating_add(1)
        .max(1);
    // A tick's number stays below 2^53 for millennia.
    let tick = move |number: u64| {
        let time = number as f64 * period;
        Tick {
            number,
            time,
            period,
            stamp: seen.world.stamp(time),
        }
    };
    // Time stamps increase with the tick number, so a binary search finds the first tick that was not read yet.
    let (mut first, mut end) = (oldest, newest.saturating_add(1));
    while first < end {
        let middle = first + (end - first) / 2;
        if tick(middle).stamp > last_seen {
            end = middle;
        } else {
            first = middle + 1;
        }
    }
    (first..=newest).map(tick)
}

fn is_utilization(kind: c_uint) -> bool {
    (1..=4).contains(&kind)
}

/// Returns the time line for a sampling type of the header, and the factor to the driver's unit.
fn series(seen: &Seen, kind: c_uint) -> Result<(&Line, f64), Code> {
    let gpu = seen.sensor()?;
    if is_utilization(kind) {
        gpu.check_no_mig()?;
    }
    let sensors = &gpu.sensors;
    let (reading, factor) = match kind {
        0 => (&sensors.power_w, 1000.0),
        1 => (&sensors.util, 1.0),
        2 => (&sensors.memory_util, 1.0),
        3 => (&sensors.encoder_util, 1.0),
        4 => (&sensors.decoder_util, 1.0),
        5 => (&sensors.clock_sm_mhz, 1.0),
        6 => (&sensors.clock_memory_mhz, 1.0),
        7..=9 => return Err(Code::NOT_SUPPORTED),
        _ => return Err(Code::INVALID_ARGUMENT),
    };
    Ok((reading.line()?, factor))
}

/// Returns one record for each process that was active in the buffered time after the time stamp: its mean over that
/// time, including idle periods, and the end of the last period in which it was active. An idle process has no record.
///
/// The header says "one sample per process". The authors of nvtop (#91, #110) and nvitop (#83) observed on real drivers
/// that it is a mean over the time since the stamp.
fn process_samples(
    seen: &Seen,
    last_seen: u64,
) -> Result<Vec<nvmlProcessUtilizationInfo_v1_t>, Code> {
    let gpu = seen.sensor()?;
    gpu.check_no_mig()?;
    gpu.sensors.util.line()?;
    let mut found = Vec::new();
    let mut buffered: Option<Vec<Tick>> = None;
    for process in &gpu.processes {
        let value = |tick: &Tick, line: &Line| match process.runs_at(tick.time) {
            true => line.mean(tick.time, tick.period),
            false => 0.0,
        };
        let lines = &process.utils;
        if lines.iter().all(|line| line.is_always_zero()) {
            continue;
        }
        let ticks = buffered
            .get_or_insert_with(|| ticks(seen, gpu.buffers.process_samples, last_seen).collect());
        let works = |tick: &&Tick| lines.iter().any(|line| value(tick, line) > 0.0);
        let Some(last) = ticks.iter().rfind(works) else {
            continue;
        };
        let mean = |line: &Line| {
            let sum: f64 = ticks.iter().map(|tick| value(tick, line)).sum();
            whole32(sum / ticks.len() as f64)
        };
        let [smUtil, memUtil, encUtil, decUtil] = lines.each_ref().map(mean);
        found.push(nvmlProcessUtilizationInfo_v1_t {
            timeStamp: last.stamp,
            pid: process.scripted.pid,
            smUtil,
            memUtil,
            encUtil,
            decUtil,
            jpgUtil: 0,
            ofaUtil: 0,
        });
    }
    Ok(found)
}
