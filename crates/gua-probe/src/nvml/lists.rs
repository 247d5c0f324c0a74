//! The driver's lists of unknown length: processes on a card, and the samples that it buffered.
//!
//! A list is never asked for its size with a NULL buffer. The size of a process record is found from what the driver
//! wrote and not from the function's name: drivers 535.43 to 535.86 write 32 bytes where the header says 24.
#![expect(unsafe_code, reason = "the driver library is C")]

use gua_model::{Bytes, Missing, Pid, Reading};
use nvml_wrapper_sys::bindings as sys;

use super::code::Code;
use super::library::{Device, Library, call};

/// Which processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Compute,
    Graphics,
}

/// One entry of a process list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) pid: Pid,
    pub(crate) memory: Reading<Bytes>,
    /// GPU instance and compute instance, where the driver tells them.
    pub(crate) instance: Option<(u32, u32)>,
}

/// Room that is kept between calls, so that a tick in the steady state allocates nothing here.
pub(crate) struct Lists {
    /// In units of the widest process record, so that no layout can overrun it.
    records: Room<[u64; 4]>,
    samples: Room<sys::nvmlSample_t>,
    process_samples: Room<sys::nvmlProcessUtilizationSample_t>,
}

/// A buffer that is clean before each question.
struct Room<Record> {
    records: Vec<Record>,
    empty: Record,
    /// How many records from the start may not be clean.
    used: usize,
}

impl<Record: Copy> Room<Record> {
    fn new(empty: Record, length: usize) -> Self {
        Self {
            records: vec![empty; length],
            empty,
            used: 0,
        }
    }

    /// Asks until the list fits. The list may grow between two questions, so the answer is never trusted to be the last.
    fn fill(
        &mut self,
        mut ask: impl FnMut(&mut [Record], &mut u32) -> Result<(), Code>,
    ) -> Result<&[Record], Code> {
        loop {
            let length = self.records.len();
            self.records[..self.used].fill(self.empty);
            // Whatever it answers, it may have written anywhere, unless it says how much.
            self.used = length;
            let mut count = u32::try_from(length).expect("the room is bounded");
            let answer = ask(&mut self.records, &mut count);
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            match answer {
                Ok(()) if count <= length => {
                    self.used = count;
                    return Ok(&self.records[..count]);
                }
                Ok(()) => return Err(Code::GARBAGE),
                Err(Code::INSUFFICIENT_SIZE) if length < MOST_ROOM => {
                    let wanted = count
                        .saturating_add(FIRST_ROOM)
                        .max(length * 2)
                        .min(MOST_ROOM);
                    self.records.resize(wanted, self.empty);
                }
                // Nothing found is nothing written.
                Err(Code::NOT_FOUND) => {
                    self.used = 0;
                    return Err(Code::NOT_FOUND);
                }
                Err(code) => return Err(code),
            }
        }
    }
}

/// Room for this many entries at first. Asking with enough room once is cheaper and safer than asking twice.
const FIRST_ROOM: usize = 128;
/// More than any driver keeps. A larger answer is garbage, not a list.
const MOST_ROOM: usize = 1 << 16;
/// A byte that no field of an untouched record has by chance: what still shows it was not written.
const POISON: u64 = 0xA5A5_A5A5_A5A5_A5A5;
/// Linux numbers no process higher (`PID_MAX_LIMIT` in include/linux/threads.h).
const HIGHEST_PID: u32 = 1 << 22;
/// The driver's word for "no such instance".
const NO_INSTANCE: u32 = u32::MAX;

impl Default for Lists {
    fn default() -> Self {
        // SAFETY: plain numbers and a union of numbers; all zeros is a valid value of both.
        let (sample, process_sample) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        Self {
            records: Room::new([POISON; 4], FIRST_ROOM),
            samples: Room::new(sample, 4 * FIRST_ROOM),
            process_samples: Room::new(process_sample, 4 * FIRST_ROOM),
        }
    }
}

impl Lists {
    /// The processes of a card. Entries whose pid no Linux system can have are left out and counted.
    pub(crate) fn processes(
        &mut self,
        library: &Library,
        device: Device,
        list: List,
    ) -> Result<(Vec<Listed>, usize), Code> {
        let mut answer = Err(Code::FUNCTION_NOT_FOUND);
        for version in [Version::V3, Version::V2, Version::V1] {
            answer = self.processes_by(library, device, list, version);
            match answer {
                Err(code) if code.calls_for_an_older_version() => {}
                _ => break,
            }
        }
        answer
    }

    fn processes_by(
        &mut self,
        library: &Library,
        device: Device,
        list: List,
        version: Version,
    ) -> Result<(Vec<Listed>, usize), Code> {
        let filled = self.records.fill(|room, count| {
            let room = room.as_mut_ptr();
            match (list, version) {
                (List::Compute, Version::V3) => {
                    call!(
                        library,
                        nvmlDeviceGetComputeRunningProcesses_v3(device.0, count, room.cast())
                    )
                }
                (List::Compute, Version::V2) => {
                    call!(
                        library,
                        nvmlDeviceGetComputeRunningProcesses_v2(device.0, count, room.cast())
                    )
                }
                (List::Compute, Version::V1) => {
                    call!(
                        library,
                        nvmlDeviceGetComputeRunningProcesses(device.0, count, room.cast())
                    )
                }
                (List::Graphics, Version::V3) => {
                    call!(
                        library,
                        nvmlDeviceGetGraphicsRunningProcesses_v3(device.0, count, room.cast())
                    )
                }
                (List::Graphics, Version::V2) => {
                    call!(
                        library,
                        nvmlDeviceGetGraphicsRunningProcesses_v2(device.0, count, room.cast())
                    )
                }
                (List::Graphics, Version::V1) => {
                    call!(
                        library,
                        nvmlDeviceGetGraphicsRunningProcesses(device.0, count, room.cast())
                    )
                }
            }
        })?;
        let count = filled.len();
        Ok(decode(self.records.records.as_flattened(), count, version))
    }

    /// `(driver time in microseconds, percent)` of the buffered utilisation after `since`, in order of time. Empty when
    /// the driver has none. Values are as the driver gave them, junk included.
    pub(crate) fn utilisation(
        &mut self,
        library: &Library,
        device: Device,
        since: u64,
    ) -> Result<Vec<(u64, u32)>, Code> {
        let mut value_type = 0;
        let kind = sys::nvmlSamplingType_enum_NVML_GPU_UTILIZATION_SAMPLES;
        let filled = self.samples.fill(|room, count| {
            let room = room.as_mut_ptr();
            call!(
                library,
                nvmlDeviceGetSamples(device.0, kind, since, &mut value_type, count, room)
            )
        });
        let samples = match filled {
            Err(Code::NOT_FOUND) => return Ok(Vec::new()),
            answer => answer?.iter(),
        };
        let mut values: Vec<(u64, u32)> = samples
            .filter(|sample| sample.timeStamp > since)
            .map(|sample| {
                (
                    sample.timeStamp,
                    sample_value(sample.sampleValue, value_type),
                )
            })
            .collect();
        values.sort_by_key(|(at, _)| *at);
        Ok(values)
    }

    /// `(pid, driver time, SM percent)` of the buffered samples per process after `since`.
    pub(crate) fn process_utilisation(
        &mut self,
        library: &Library,
        device: Device,
        since: u64,
    ) -> Result<Vec<(Pid, u64, u32)>, Code> {
        let filled = self.process_samples.fill(|room, count| {
            let room = room.as_mut_ptr();
            call!(
                library,
                nvmlDeviceGetProcessUtilization(device.0, room, count, since)
            )
        });
        let samples = match filled {
            // The driver's word for "no process did anything since".
            Err(Code::NOT_FOUND) => return Ok(Vec::new()),
            answer => answer?.iter(),
        };
        Ok(samples
            .filter(|sample| sample.timeStamp > since)
            .map(|sample| (Pid(sample.pid), sample.timeStamp, sample.smUtil))
            .collect())
    }
}

/// Which function wrote a process list. The version bounds what a record can look like and does not settle it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
    V3,
}

/// Reads `count` records. For the third version the stride is 32 bytes where the driver wrote that far and wrote pids
/// there; a library that only clears the rest of the buffer has written no records in it.
fn decode(words: &[u64], count: usize, version: Version) -> (Vec<Listed>, usize) {
    let stride = match version {
        Version::V1 => 2,
        Version::V2 => 3,
        Version::V3 => {
            let beyond = words.get(count * 3..count * 4).unwrap_or_default();
            let written = beyond.iter().any(|word| *word != POISON);
            let mut pids = words
                .chunks_exact(4)
                .take(count)
                .map(|record| low(record[0]));
            if written && pids.all(is_possible) {
                4
            } else {
                3
            }
        }
    };
    let mut listed = Vec::with_capacity(count);
    for record in words.chunks_exact(stride).take(count) {
        let pid = low(record[0]);
        if !is_possible(pid) {
            continue;
        }
        // All ones is the driver's word for "not available".
        let memory = if record[1] == u64::MAX {
            Err(Missing::Unsupported)
        } else {
            Ok(Bytes(record[1]))
        };
        let instance = record.get(2).map(|ids| (low(*ids), low(*ids >> 32)));
        let instance = instance.filter(|(gpu, _)| *gpu != NO_INSTANCE && *gpu != low(POISON));
        listed.push(Listed {
            pid: Pid(pid),
            memory,
            instance,
        });
    }
    let dropped = count - listed.len();
    (listed, dropped)
}

fn is_possible(pid: u32) -> bool {
    (1..=HIGHEST_PID).contains(&pid)
}

/// The half of a word that lies first in memory, where C put a 32-bit field.
fn low(word: u64) -> u32 {
    let bytes = word.to_ne_bytes();
    u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// A sample as a whole number; what cannot be one is junk, and junk is over a hundred percent.
fn sample_value(value: sys::nvmlValue_t, kind: sys::nvmlValueType_t) -> u32 {
    const JUNK: u32 = u32::MAX;
    // SAFETY: every field of the union is a plain number, and any bits are a valid value of each.
    let (double, unsigned, long, long_long) =
        unsafe { (value.dVal, value.uiVal, value.ulVal, value.ullVal) };
    match kind {
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => unsigned,
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG => {
            u32::try_from(long).unwrap_or(JUNK)
        }
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG => {
            u32::try_from(long_long).unwrap_or(JUNK)
        }
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_DOUBLE if (0.0..=100.0).contains(&double) => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 0 and 100"
            )]
            let whole = double.round() as u32;
            whole
        }
        _ => JUNK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn word(first: u32, second: u32) -> u64 {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&first.to_ne_bytes());
        bytes[4..].copy_from_slice(&second.to_ne_bytes());
        u64::from_ne_bytes(bytes)
    }

    /// A buffer as a driver with this stride leaves it.
    fn written(stride: usize, pids: &[u32]) -> Vec<u64> {
        let mut words = vec![POISON; FIRST_ROOM * 4];
        for (place, pid) in pids.iter().enumerate() {
            let record = &mut words[place * stride..(place + 1) * stride];
            record.fill(0);
            record[0] = word(*pid, 0);
            record[1] = u64::from(*pid) << 20;
            if stride > 2 {
                record[2] = word(NO_INSTANCE, NO_INSTANCE);
            }
        }
        words
    }

    #[test]
    fn the_stride_is_found_from_what_the_driver_wrote() {
        for count in 1..20u32 {
            let pids: Vec<u32> = (100..100 + count).collect();
            for (version, stride) in [
                (Version::V1, 2),
                (Version::V2, 3),
                (Version::V3, 3),
                (Version::V3, 4),
            ] {
                let (listed, dropped) = decode(&written(stride, &pids), pids.len(), version);
                let found: Vec<u32> = listed.iter().map(|listed| listed.pid.0).collect();
                assert_eq!(
                    (found, dropped),
                    (pids.clone(), 0),
                    "{version:?} with {stride} words, {count} records"
                );
                assert!(
                    listed
                        .iter()
                        .all(|listed| listed.memory == Ok(Bytes(u64::from(listed.pid.0) << 20)))
                );
                assert!(listed.iter().all(|listed| listed.instance.is_none()));
            }
        }
    }

    #[test]
    fn a_library_that_clears_the_rest_of_the_buffer_is_still_read_right() {
        for count in 1..20u32 {
            let pids: Vec<u32> = (100..100 + count).collect();
            let mut words = written(3, &pids);
            words[pids.len() * 3..].fill(0);
            let (listed, dropped) = decode(&words, pids.len(), Version::V3);
            let found: Vec<u32> = listed.iter().map(|listed| listed.pid.0).collect();
            assert_eq!((found, dropped), (pids, 0));
        }
    }

    #[test]
    fn a_pid_that_linux_cannot_have_is_left_out_and_counted() {
        let (listed, dropped) = decode(&written(3, &[0, 7, HIGHEST_PID + 1]), 3, Version::V3);
        assert_eq!((listed.len(), dropped), (1, 2));
    }

    proptest! {
        #[test]
        fn any_bytes_and_any_count_never_panic(words in prop::collection::vec(any::<u64>(), 0..256), count in 0usize..300) {
            for version in [Version::V1, Version::V2, Version::V3] {
                let (listed, dropped) = decode(&words, count, version);
                prop_assert_eq!(listed.len() + dropped, count);
            }
        }
    }
}
