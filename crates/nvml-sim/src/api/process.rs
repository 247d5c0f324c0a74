//! The process lists, in the four record layouts that drivers have used.

use nvml_wrapper_sys::bindings::{
    nvmlProcessDetail_v1_t, nvmlProcessDetailList_v1_t, nvmlProcessInfo_v1_t, nvmlProcessInfo_v2_t,
};

use super::reading::check_version;
use crate::call::{Seen, exports};
use crate::code::Code;
use crate::driver::Generation;
use crate::foreign::{Array, Count, Device, Out};
use crate::layout::version_of;
use crate::scenario::{Kind, NullSizeQuery};
use crate::state;
use crate::world::Process;

exports! {
    R390 gpu fn nvmlDeviceGetComputeRunningProcesses(device: Device, count: Count, list: Array<nvmlProcessInfo_v1_t>) |seen| answer(seen, List::Compute, count, list, first);
    R390 gpu fn nvmlDeviceGetGraphicsRunningProcesses(device: Device, count: Count, list: Array<nvmlProcessInfo_v1_t>) |seen| answer(seen, List::Graphics, count, list, first);
    R450 gpu fn nvmlDeviceGetMPSComputeRunningProcesses(device: Device, count: Count, list: Array<nvmlProcessInfo_v1_t>) |seen| answer(seen, List::Mps, count, list, first);
    R450 gpu fn nvmlDeviceGetComputeRunningProcesses_v2(device: Device, count: Count, list: Array<nvmlProcessInfo_v2_t>) |seen| answer(seen, List::Compute, count, list, second);
    R450 gpu fn nvmlDeviceGetGraphicsRunningProcesses_v2(device: Device, count: Count, list: Array<nvmlProcessInfo_v2_t>) |seen| answer(seen, List::Graphics, count, list, second);
    R450 gpu fn nvmlDeviceGetMPSComputeRunningProcesses_v2(device: Device, count: Count, list: Array<nvmlProcessInfo_v2_t>) |seen| answer(seen, List::Mps, count, list, second);
    R525 gpu fn nvmlDeviceGetComputeRunningProcesses_v3(device: Device, count: Count, list: Array<nvmlProcessInfo_v2_t>) |seen| third(seen, List::Compute, count, list);
    R525 gpu fn nvmlDeviceGetGraphicsRunningProcesses_v3(device: Device, count: Count, list: Array<nvmlProcessInfo_v2_t>) |seen| third(seen, List::Graphics, count, list);
    R525 gpu fn nvmlDeviceGetMPSComputeRunningProcesses_v3(device: Device, count: Count, list: Array<nvmlProcessInfo_v2_t>) |seen| third(seen, List::Mps, count, list);
    // Added by the release that returned the v3 lists to 24-byte records.
    R535_104 gpu fn nvmlDeviceGetRunningProcessDetailList(device: Device, list: Out<nvmlProcessDetailList_v1_t>) |seen| {
        let asked = list.get()?;
        check_version(asked.version, version_of::<nvmlProcessDetailList_v1_t>(1))?;
        let which = match asked.mode {
            0 => List::Compute,
            1 => List::Graphics,
            2 => List::Mps,
            _ => return Err(Code::INVALID_ARGUMENT),
        };
        let found: Vec<_> = listed(seen, which).map(|process| detail(process, seen.time)).collect();
        let fits = usize::try_from(asked.numProcArrayEntries).is_ok_and(|room| found.len() <= room);
        let numProcArrayEntries = u32::try_from(found.len()).unwrap_or(u32::MAX);
        list.set(nvmlProcessDetailList_v1_t { numProcArrayEntries, ..asked })?;
        if !fits {
            return Err(Code::INSUFFICIENT_SIZE);
        }
        Array::new(asked.procArray).write(&found)
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Compute,
    Graphics,
    Mps,
}

impl List {
    fn names(self, kind: Kind) -> bool {
        match self {
            List::Compute => matches!(kind, Kind::Compute | Kind::Both | Kind::Mps),
            List::Graphics => matches!(kind, Kind::Graphics | Kind::Both),
            List::Mps => matches!(kind, Kind::Mps | Kind::MpsOnly),
        }
    }
}

/// Returns the processes in a list. An instance lists its own processes; a GPU lists its own and those of all its
/// instances.
fn listed(seen: &Seen, list: List) -> impl Iterator<Item = &Process> {
    let (processes, instances) = match seen.instance() {
        None => (&seen.gpu().processes, seen.gpu().instances.as_slice()),
        Some(instance) => (&instance.processes, &[][..]),
    };
    let on_instances = instances.iter().flat_map(|instance| &instance.processes);
    let listed =
        move |process: &&Process| list.names(process.scripted.kind) && process.runs_at(seen.time);
    processes.iter().chain(on_instances).filter(listed)
}

fn answer<T: Copy>(
    seen: &Seen,
    which: List,
    count: Count,
    list: Array<T>,
    record: fn(&Process, f64) -> T,
) -> Result<(), Code> {
    let found: Vec<T> = listed(seen, which)
        .map(|process| record(process, seen.time))
        .collect();
    if has_room(seen, count, list.is_null(), found.len())? {
        list.write(&found)?;
    }
    Ok(())
}

/// Sets the count. Returns whether the list can be written; `false` if only its size was queried.
fn has_room(seen: &Seen, count: Count, is_query: bool, found: usize) -> Result<bool, Code> {
    let room = count.get()?;
    if is_query {
        match seen.world.scenario.null_size_query {
            NullSizeQuery::Crash => {
                state::abort("a process list was asked for its size with a NULL buffer")
            }
            NullSizeQuery::Wrong => {
                count.set(if found == 0 { 7 } else { 0 })?;
                return Ok(false);
            }
            NullSizeQuery::Right if room > 0 => return Err(Code::INVALID_ARGUMENT),
            NullSizeQuery::Right => {}
        }
    }
    count.set(found)?;
    match found > room {
        true => Err(Code::INSUFFICIENT_SIZE),
        false => Ok(!is_query),
    }
}

fn first(process: &Process, time: f64) -> nvmlProcessInfo_v1_t {
    nvmlProcessInfo_v1_t {
        pid: process.scripted.pid,
        usedGpuMemory: process.memory_bytes(time),
    }
}

fn second(process: &Process, time: f64) -> nvmlProcessInfo_v2_t {
    nvmlProcessInfo_v2_t {
        pid: process.scripted.pid,
        usedGpuMemory: process.memory_bytes(time),
        gpuInstanceId: process.gpu_instance,
        computeInstanceId: process.compute_instance,
    }
}

/// Writes the v3 lists: those of v2, except in one short generation, whose record was longer.
fn third(
    seen: &Seen,
    which: List,
    count: Count,
    list: Array<nvmlProcessInfo_v2_t>,
) -> Result<(), Code> {
    if Generation::installed() != Generation::R535_54 {
        return answer(seen, which, count, list, second);
    }
    let room = count.get()?;
    let records = listed(seen, which).map(|process| detail(process, seen.time));
    let found: Vec<_> = records.collect();
    if !has_room(seen, count, list.is_null(), found.len())? {
        return Ok(());
    }
    // If the caller's records had 24 bytes, the real library wrote past the end here. This one asks for a larger
    // buffer.
    let needed = found.len() * size_of::<nvmlProcessDetail_v1_t>();
    if needed > room * size_of::<nvmlProcessInfo_v2_t>() {
        count.set(needed.div_ceil(size_of::<nvmlProcessInfo_v2_t>()))?;
        return Err(Code::INSUFFICIENT_SIZE);
    }
    list.cast::<nvmlProcessDetail_v1_t>().write(&found)
}

fn detail(process: &Process, time: f64) -> nvmlProcessDetail_v1_t {
    nvmlProcessDetail_v1_t {
        pid: process.scripted.pid,
        usedGpuMemory: process.memory_bytes(time),
        gpuInstanceId: process.gpu_instance,
        computeInstanceId: process.compute_instance,
        usedGpuCcProtectedMemory: process.protected_bytes(time),
    }
}
