//! The driver's sample buffers: finite, with one sample per period; old samples are dropped.

use std::ffi::{c_uint, c_ulonglong};

use crate::call::{Seen, exports};
use crate::code::Code;
use crate::foreign::{Array, Count, Device, Out};
use crate::layout::{
    ProcessSample, ProcessUtilization, ProcessesUtilization, Sample, SampleValue, value_type,
    version_of,
};
use crate::line::Line;
use crate::world::{whole, whole32};

exports! {
    R390 card fn nvmlDeviceGetSamples(device: Device, kind: c_uint, last_seen: c_ulonglong, value_kind: Out<c_uint>, count: Count, samples: Array<Sample>) |seen| {
        let (line, unit) = series(seen, kind)?;
        let buffers = &seen.card().buffers;
        let junk_every = u64::from(if is_utilization(kind) { buffers.junk_every } else { 0 });
        let room = count.get()?;
        value_kind.set(value_type::UNSIGNED_INT)?;
        if samples.is_null() {
            return count.set(usize::try_from(buffers.samples).unwrap_or(0));
        }
        if room == 0 {
            return Err(Code::INVALID_ARGUMENT);
        }
        let found: Vec<Sample> = ticks(seen, buffers.samples, last_seen)
            .take(room)
            .map(|tick| {
                let junk = tick.number.checked_rem(junk_every) == Some(0);
                let value = if junk { buffers.junk } else { whole32(line.mean(tick.time, tick.period) * unit) };
                Sample { time_stamp: tick.stamp, value: SampleValue(value.into()) }
            })
            .collect();
        count.set(found.len())?;
        if found.is_empty() {
            return Err(Code::NOT_FOUND);
        }
        samples.write(&found)
    };
    R390 card fn nvmlDeviceGetProcessUtilization(device: Device, samples: Array<ProcessSample>, count: Count, last_seen: c_ulonglong) |seen| {
        let room = count.get()?;
        let found: Vec<ProcessSample> = process_samples(seen, last_seen)?
            .into_iter()
            .map(|one| ProcessSample {
                pid: one.pid,
                time_stamp: one.time_stamp,
                sm: one.sm,
                memory: one.memory,
                encoder: one.encoder,
                decoder: one.decoder,
            })
            .collect();
        count.set(found.len())?;
        if found.is_empty() {
            return Err(Code::NOT_FOUND);
        }
        if samples.is_null() || found.len() > room {
            return Err(Code::INSUFFICIENT_SIZE);
        }
        samples.write(&found)
    };
    R550 card fn nvmlDeviceGetProcessesUtilizationInfo(device: Device, list: Out<ProcessesUtilization>) |seen| {
        let asked = list.get()?;
        if asked.version != version_of::<ProcessesUtilization>(1) {
            return Err(Code::ARGUMENT_VERSION_MISMATCH);
        }
        let found = process_samples(seen, asked.last_seen)?;
        let count = c_uint::try_from(found.len()).unwrap_or(c_uint::MAX);
        list.set(ProcessesUtilization { count, ..asked })?;
        if found.is_empty() {
            return Err(Code::NOT_FOUND);
        }
        if asked.list.is_null() || count > asked.count {
            return Err(Code::INSUFFICIENT_SIZE);
        }
        Array::new(asked.list).write(&found)
    };
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
    let period = seen.card().buffers.period_ms / 1000.0;
    let newest = whole((seen.time / period).floor());
    // Tick 0 would cover time before the start of the scenario.
    let oldest = newest
        .saturating_sub(u64::from(depth))
        .saturating_add(1)
        .max(1);
    #[expect(
        clippy::cast_precision_loss,
        reason = "a tick's number stays below 2^53 for millennia"
    )]
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
    let card = seen.sensor()?;
    if is_utilization(kind) {
        card.without_mig(&card.util)?;
    }
    match kind {
        0 => Ok((card.power_w.line()?, 1000.0)),
        1 => Ok((card.util.line()?, 1.0)),
        2 => Ok((card.memory_util.line()?, 1.0)),
        3 => Ok((card.encoder_util.line()?, 1.0)),
        4 => Ok((card.decoder_util.line()?, 1.0)),
        5 => Ok((card.clock_sm_mhz.line()?, 1.0)),
        6 => Ok((card.clock_memory_mhz.line()?, 1.0)),
        7..=9 => Err(Code::NOT_SUPPORTED),
        _ => Err(Code::INVALID_ARGUMENT),
    }
}

/// Returns one record for each process that was active in the buffered time after the time stamp: its mean over that
/// time, including idle periods, and the end of the last period in which it was active. An idle process has no record.
///
/// The header says "one sample per process". The authors of nvtop (#91, #110) and nvitop (#83) observed on real drivers
/// that it is a mean over the time since the stamp.
fn process_samples(seen: &Seen, last_seen: u64) -> Result<Vec<ProcessUtilization>, Code> {
    let card = seen.sensor()?;
    card.without_mig(&card.util)?.line()?;
    let mut found = Vec::new();
    let mut buffered: Option<Vec<Tick>> = None;
    for process in &card.processes {
        let value = |tick: &Tick, line: &Line| match process.runs_at(tick.time) {
            true => line.mean(tick.time, tick.period),
            false => 0.0,
        };
        let lines = [
            &process.sm_util,
            &process.memory_util,
            &process.encoder_util,
            &process.decoder_util,
        ];
        if lines.iter().all(|line| line.is_always_zero()) {
            continue;
        }
        let ticks = buffered
            .get_or_insert_with(|| ticks(seen, card.buffers.process_samples, last_seen).collect());
        let works = |tick: &&Tick| lines.iter().any(|line| value(tick, line) > 0.0);
        let Some(last) = ticks.iter().rfind(works) else {
            continue;
        };
        #[expect(clippy::cast_precision_loss, reason = "a buffer is short")]
        let mean = |line: &Line| {
            let sum: f64 = ticks.iter().map(|tick| value(tick, line)).sum();
            whole32(sum / ticks.len() as f64)
        };
        found.push(ProcessUtilization {
            time_stamp: last.stamp,
            pid: process.pid,
            sm: mean(lines[0]),
            memory: mean(lines[1]),
            encoder: mean(lines[2]),
            decoder: mean(lines[3]),
            jpeg: 0,
            optical_flow: 0,
        });
    }
    Ok(found)
}
