//! NVML's lists of unknown length: the processes on a GPU, and the samples that the driver has buffered.
//!
//! The size of a list is never queried with a NULL buffer, which some libraries answer wrongly. The size of a process
//! record is found from what the driver wrote and not from the function's name: drivers 535.43 to 535.86 write 32 bytes
//! where the header says 24.
#![expect(unsafe_code, reason = "the driver library is C")]

use gua_model::{Bytes, Missing, Pid, Reading};
use nvml_wrapper_sys::bindings as sys;

use super::code::Code;
use super::library::{Device, Library, MAX_MEMORY, call};

/// Process lists of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Compute,
    Graphics,
    /// Clients of the Multi-Process Service. Some drivers list them here alone.
    Mps,
}

/// One entry of a process list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListEntry {
    /// 0 if the driver does not say which process it is.
    pub(crate) pid: Pid,
    pub(crate) memory: Reading<Bytes>,
    /// GPU instance and compute instance, where the driver reports them.
    pub(crate) instance: Option<(u32, u32)>,
}

/// Buffers that are kept between calls, so that a tick in the steady state allocates nothing here.
pub(crate) struct Lists {
    /// In units of the widest process record, so that no layout overruns it.
    records: Buffer<[u64; 4]>,
    samples: Buffer<sys::nvmlSample_t>,
    process_samples: Buffer<sys::nvmlProcessUtilizationSample_t>,
}

/// A buffer that is cleared before each call.
struct Buffer<Record> {
    records: Vec<Record>,
    empty: Record,
    /// Number of records from the start that may have been written.
    used: usize,
}

impl<Record: Copy> Buffer<Record> {
    fn new(empty: Record, length: usize) -> Self {
        Self {
            records: vec![empty; length],
            empty,
            used: 0,
        }
    }

    /// Calls until the list fits. The list may grow between two calls, so this repeats.
    fn fill(
        &mut self,
        mut ask: impl FnMut(&mut [Record], &mut u32) -> Result<(), Code>,
    ) -> Result<&[Record], Code> {
        loop {
            let length = self.records.len();
            self.records[..self.used].fill(self.empty);
            // After a failed call anything may have been written.
            self.used = length;
            let mut count = u32::try_from(length).expect("the buffer is bounded");
            let answer = ask(&mut self.records, &mut count);
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            match answer {
                Ok(()) if count <= length => {
                    self.used = count;
                    return Ok(&self.records[..count]);
                }
                Ok(()) => return Err(Code::IMPLAUSIBLE),
                Err(Code::INSUFFICIENT_SIZE) if length < MAX_LENGTH => {
                    let wanted = count
                        .saturating_add(INITIAL_LENGTH)
                        .max(length * 2)
                        .min(MAX_LENGTH);
                    self.records.resize(wanted, self.empty);
                }
                // Nothing was found, so nothing was written.
                Err(Code::NOT_FOUND) => {
                    self.used = 0;
                    return Err(Code::NOT_FOUND);
                }
                Err(code) => return Err(code),
            }
        }
    }
}

/// Initial number of entries. One call with enough space is cheaper and safer than two.
const INITIAL_LENGTH: usize = 128;
/// Maximum number of entries; more than any driver keeps.
const MAX_LENGTH: usize = 1 << 16;
/// Pattern of a record that was not written. No field has it by chance.
const POISON: u64 = 0xA5A5_A5A5_A5A5_A5A5;
/// Highest pid on Linux (`PID_MAX_LIMIT` in include/linux/threads.h).
const HIGHEST_PID: u32 = 1 << 22;
/// Instance id of a process that is not in an instance.
const NO_INSTANCE: u32 = u32::MAX;
/// Instance ids are smaller than this on any hardware.
const MAX_INSTANCES: u32 = 64;

impl Default for Lists {
    fn default() -> Self {
        // SAFETY: plain numbers and a union of numbers; all zeros is a valid value of both.
        let (sample, process_sample) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        Self {
            records: Buffer::new([POISON; 4], INITIAL_LENGTH),
            samples: Buffer::new(sample, 4 * INITIAL_LENGTH),
            process_samples: Buffer::new(process_sample, 4 * INITIAL_LENGTH),
        }
    }
}

impl Library {
    /// Lists the processes of a GPU. Entries with a pid that Linux cannot have are left out and counted. An entry with
    /// pid 0 stays: a process that the driver does not name.
    pub(super) fn processes(
        &self,
        device: Device,
        list: List,
    ) -> Result<(Vec<ListEntry>, usize), Code> {
        let mut answer = Err(Code::FUNCTION_NOT_FOUND);
        for version in [Version::V3, Version::V2, Version::V1] {
            answer = self.processes_by(device, list, version);
            match answer {
                Err(code) if code.is_unsupported_version() => {}
                _ => break,
            }
        }
        answer
    }

    fn processes_by(
        &self,
        device: Device,
        list: List,
        version: Version,
    ) -> Result<(Vec<ListEntry>, usize), Code> {
        let mut lists = self.lists.borrow_mut();
        let filled = lists.records.fill(|buffer, count| {
            let buffer = buffer.as_mut_ptr();
            macro_rules! ask {
                ($symbol:ident) => {
                    call!(self, $symbol(device.0, count, buffer.cast()))
                };
            }
            match (list, version) {
                (List::Compute, Version::V3) => ask!(nvmlDeviceGetComputeRunningProcesses_v3),
                (List::Compute, Version::V2) => ask!(nvmlDeviceGetComputeRunningProcesses_v2),
                (List::Compute, Version::V1) => ask!(nvmlDeviceGetComputeRunningProcesses),
                (List::Graphics, Version::V3) => ask!(nvmlDeviceGetGraphicsRunningProcesses_v3),
                (List::Graphics, Version::V2) => ask!(nvmlDeviceGetGraphicsRunningProcesses_v2),
                (List::Graphics, Version::V1) => ask!(nvmlDeviceGetGraphicsRunningProcesses),
                (List::Mps, Version::V3) => ask!(nvmlDeviceGetMPSComputeRunningProcesses_v3),
                (List::Mps, Version::V2) => ask!(nvmlDeviceGetMPSComputeRunningProcesses_v2),
                (List::Mps, Version::V1) => ask!(nvmlDeviceGetMPSComputeRunningProcesses),
            }
        })?;
        let count = filled.len();
        Ok(decode(lists.records.records.as_flattened(), count, version))
    }

    /// Returns `(driver time in microseconds, percent)` of the buffered utilisation after `since`, in order of time.
    /// Empty if the driver has none. Values are unchecked.
    pub(super) fn utilisation(&self, device: Device, since: u64) -> Result<Vec<(u64, u32)>, Code> {
        let mut value_type = 0;
        let kind = sys::nvmlSamplingType_enum_NVML_GPU_UTILIZATION_SAMPLES;
        let mut lists = self.lists.borrow_mut();
        let filled = lists.samples.fill(|buffer, count| {
            let buffer = buffer.as_mut_ptr();
            call!(
                self,
                nvmlDeviceGetSamples(device.0, kind, since, &mut value_type, count, buffer)
            )
        });
        let samples = match filled {
            Err(Code::NOT_FOUND) => return Ok(Vec::new()),
            answer => answer?.iter(),
        };
        let mut values: Vec<(u64, u32)> = samples
            .filter(|sample| sample.timeStamp > since)
            .map(|sample| (sample.timeStamp, sample_value(sample, value_type)))
            .collect();
        values.sort_by_key(|(at, _)| *at);
        Ok(values)
    }

    /// Returns `(pid, driver time, SM percent)` of the buffered samples per process after `since`.
    pub(super) fn process_utilisation(
        &self,
        device: Device,
        since: u64,
    ) -> Result<Vec<(Pid, u64, u32)>, Code> {
        let mut lists = self.lists.borrow_mut();
        let filled = lists.process_samples.fill(|buffer, count| {
            let buffer = buffer.as_mut_ptr();
            call!(
                self,
                nvmlDeviceGetProcessUtilization(device.0, buffer, count, since)
            )
        });
        let samples = match filled {
            // No process did anything since.
            Err(Code::NOT_FOUND) => return Ok(Vec::new()),
            answer => answer?.iter(),
        };
        Ok(samples
            .filter(|sample| sample.timeStamp > since)
            .map(|sample| (Pid(sample.pid), sample.timeStamp, sample.smUtil))
            .collect())
    }
}

/// Version of the function that wrote a process list. It limits the possible record sizes and does not determine them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
    V3,
}

/// Reads `count` records. For version 3 the stride is 32 bytes if the driver wrote that far and the records make more
/// sense that way; some libraries clear the rest of the buffer, which is no record.
fn decode(words: &[u64], count: usize, version: Version) -> (Vec<ListEntry>, usize) {
    let stride = match version {
        Version::V1 => 2,
        Version::V2 => 3,
        Version::V3 => {
            let beyond = words.get(count * 3..count * 4).unwrap_or_default();
            let written = beyond.iter().any(|word| *word != POISON);
            if written && sense(words, count, 4) > sense(words, count, 3) {
                4
            } else {
                3
            }
        }
    };
    let records = words.chunks_exact(stride).take(count);
    let listed: Vec<ListEntry> = records.filter_map(entry).collect();
    let dropped = count - listed.len();
    (listed, dropped)
}

/// Measures how much sense the records make with a stride: how many are possible, how many of these are in no MIG
/// instance, and how many name their process. One bad record among good ones does not decide.
fn sense(words: &[u64], count: usize, stride: usize) -> (usize, usize, usize) {
    let records = words.chunks_exact(stride).take(count);
    let mut sums = (0, 0, 0);
    for record in records {
        let instance = (low(record[2]), low(record[2] >> 32));
        let is_whole = instance == (NO_INSTANCE, NO_INSTANCE);
        let is_instance = instance.0 < MAX_INSTANCES && instance.1 < MAX_INSTANCES;
        let is_amount = record[1] == u64::MAX || record[1] <= MAX_MEMORY;
        let is_possible = (is_whole || is_instance) && is_amount && entry(record).is_some();
        sums.0 += usize::from(is_possible);
        sums.1 += usize::from(is_possible && is_whole);
        sums.2 += usize::from(is_possible && low(record[0]) != 0);
    }
    sums
}

/// Reads a record; `None` if its pid is one that Linux cannot have.
fn entry(record: &[u64]) -> Option<ListEntry> {
    let pid = low(record[0]);
    // All ones means "not available".
    let memory = match record[1] {
        u64::MAX => Err(Missing::Unsupported),
        bytes if bytes > MAX_MEMORY => Err(Missing::Failed),
        bytes => Ok(Bytes(bytes)),
    };
    let instance = record.get(2).map(|ids| (low(*ids), low(*ids >> 32)));
    let instance = instance.filter(|(gpu, _)| *gpu != NO_INSTANCE && *gpu != low(POISON));
    (pid <= HIGHEST_PID).then_some(ListEntry {
        pid: Pid(pid),
        memory,
        instance,
    })
}

/// Returns the half of a word that is first in memory, where C places the first 32-bit field.
fn low(word: u64) -> u32 {
    let bytes = word.to_ne_bytes();
    u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Returns a sample as an integer. Values that are not a percentage become one over a hundred, which callers drop.
fn sample_value(sample: &sys::nvmlSample_t, kind: sys::nvmlValueType_t) -> u32 {
    let value = sample.sampleValue;
    // SAFETY: every field of the union is a plain number, and any bits are a valid value of each.
    let (double, unsigned, long, long_long) =
        unsafe { (value.dVal, value.uiVal, value.ulVal, value.ullVal) };
    let number = match kind {
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => unsigned.into(),
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG => long,
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG => long_long,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and 100"
        )]
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_DOUBLE if (0.0..=100.0).contains(&double) => {
            double.round() as u64
        }
        _ => u64::MAX,
    };
    u32::try_from(number).unwrap_or(u32::MAX)
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
        let mut words = vec![POISON; INITIAL_LENGTH * 4];
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
        let found: Vec<u32> = listed.iter().map(|listed| listed.pid.0).collect();
        assert_eq!((found, dropped), (vec![0, 7], 1));
    }

    #[test]
    fn one_bad_pid_does_not_change_the_record_size() {
        for stride in [3, 4] {
            for bad in [0, HIGHEST_PID + 1, u32::MAX] {
                for place in 0..4 {
                    let mut pids = [101, 102, 103, 104];
                    pids[place] = bad;
                    let (listed, _) = decode(&written(stride, &pids), 4, Version::V3);
                    let found: Vec<u32> = listed.iter().map(|listed| listed.pid.0).collect();
                    let expected: Vec<u32> =
                        pids.into_iter().filter(|pid| *pid <= HIGHEST_PID).collect();
                    assert_eq!(found, expected, "{bad} at {place}, {stride} words");
                }
            }
        }
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
