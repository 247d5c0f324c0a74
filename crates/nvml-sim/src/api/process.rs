//! The process lists, in the four record layouts that drivers have used.

use crate::call::{Seen, exports};
use crate::code::Code;
use crate::driver::Generation;
use crate::foreign::{Array, Count, Device, Out};
use crate::layout::{
    ProcessDetail, ProcessDetailList, ProcessV1, ProcessV2, ProcessV3, version_of,
};
use crate::scenario::{Kind, NullSizeQuery};
use crate::state;
use crate::world::Process;

exports! {
    R390 card fn nvmlDeviceGetComputeRunningProcesses(device: Device, count: Count, list: Array<ProcessV1>) |seen| {
        answer(seen, List::Compute, count, list, first)
    };
    R390 card fn nvmlDeviceGetGraphicsRunningProcesses(device: Device, count: Count, list: Array<ProcessV1>) |seen| {
        answer(seen, List::Graphics, count, list, first)
    };
    R450 card fn nvmlDeviceGetMPSComputeRunningProcesses(device: Device, count: Count, list: Array<ProcessV1>) |seen| {
        answer(seen, List::Mps, count, list, first)
    };
    R450 card fn nvmlDeviceGetComputeRunningProcesses_v2(device: Device, count: Count, list: Array<ProcessV2>) |seen| {
        answer(seen, List::Compute, count, list, second)
    };
    R450 card fn nvmlDeviceGetGraphicsRunningProcesses_v2(device: Device, count: Count, list: Array<ProcessV2>) |seen| {
        answer(seen, List::Graphics, count, list, second)
    };
    R450 card fn nvmlDeviceGetMPSComputeRunningProcesses_v2(device: Device, count: Count, list: Array<ProcessV2>) |seen| {
        answer(seen, List::Mps, count, list, second)
    };
    R525 card fn nvmlDeviceGetComputeRunningProcesses_v3(device: Device, count: Count, list: Array<ProcessV3>) |seen| {
        third(seen, List::Compute, count, list)
    };
    R525 card fn nvmlDeviceGetGraphicsRunningProcesses_v3(device: Device, count: Count, list: Array<ProcessV3>) |seen| {
        third(seen, List::Graphics, count, list)
    };
    R525 card fn nvmlDeviceGetMPSComputeRunningProcesses_v3(device: Device, count: Count, list: Array<ProcessV3>) |seen| {
        third(seen, List::Mps, count, list)
    };
    // Added by the release that returned the v3 lists to 24-byte records.
    R535_104 card fn nvmlDeviceGetRunningProcessDetailList(device: Device, list: Out<ProcessDetailList>) |seen| {
        let asked = list.get()?;
        if asked.version != version_of::<ProcessDetailList>(1) {
            return Err(Code::ARGUMENT_VERSION_MISMATCH);
        }
        let which = match asked.mode {
            0 => List::Compute,
            1 => List::Graphics,
            2 => List::Mps,
            _ => return Err(Code::INVALID_ARGUMENT),
        };
        let found: Vec<_> = listed(seen, which).map(|process| detail(process, seen.time)).collect();
        let fits = usize::try_from(asked.count).is_ok_and(|room| found.len() <= room);
        let count = u32::try_from(found.len()).unwrap_or(u32::MAX);
        list.set(ProcessDetailList { count, ..asked })?;
        if !fits {
            return Err(Code::INSUFFICIENT_SIZE);
        }
        Array::new(asked.list).write(&found)
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
            List::Mps => kind == Kind::Mps,
        }
    }
}

/// Returns the processes in a list. An instance lists its own processes; a GPU lists its own and those of all its
/// instances.
fn listed(seen: &Seen, list: List) -> impl Iterator<Item = &Process> {
    let (whole, part) = match seen.instance() {
        None => (Some(seen.card().all_processes()), None),
        Some(instance) => (None, Some(instance.processes.iter())),
    };
    whole
        .into_iter()
        .flatten()
        .chain(part.into_iter().flatten())
        .filter(move |process| list.names(process.kind) && process.runs_at(seen.time))
}

fn answer<T: Copy>(
    seen: &Seen,
    which: List,
    count: Count,
    list: Array<T>,
    record: impl Fn(&Process, f64) -> T,
) -> Result<(), Code> {
    let room = count.get()?;
    let found: Vec<T> = listed(seen, which)
        .map(|process| record(process, seen.time))
        .collect();
    if list.is_null() {
        return size_query(seen, count, room, found.len());
    }
    count.set(found.len())?;
    if found.len() > room {
        return Err(Code::INSUFFICIENT_SIZE);
    }
    list.write(&found)
}

fn size_query(seen: &Seen, count: Count, room: usize, found: usize) -> Result<(), Code> {
    match seen.world.scenario.null_size_query {
        NullSizeQuery::Crash => {
            state::abort("a process list was asked for its size with a NULL buffer")
        }
        NullSizeQuery::Wrong => count.set(if found == 0 { 7 } else { 0 }),
        NullSizeQuery::Right if room > 0 => Err(Code::INVALID_ARGUMENT),
        NullSizeQuery::Right => {
            count.set(found)?;
            if found == 0 {
                Ok(())
            } else {
                Err(Code::INSUFFICIENT_SIZE)
            }
        }
    }
}

/// Writes the v3 lists, whose record was longer in one short generation.
fn third(seen: &Seen, which: List, count: Count, list: Array<ProcessV3>) -> Result<(), Code> {
    if Generation::installed() != Generation::R535_54 {
        return answer(seen, which, count, list, |process, time| {
            let ProcessV2 {
                pid,
                used_memory,
                gpu_instance,
                compute_instance,
            } = second(process, time);
            ProcessV3 {
                pid,
                used_memory,
                gpu_instance,
                compute_instance,
            }
        });
    }
    let room = count.get()?;
    let found: Vec<_> = listed(seen, which)
        .map(|process| detail(process, seen.time))
        .collect();
    if list.is_null() {
        return size_query(seen, count, room, found.len());
    }
    count.set(found.len())?;
    if found.len() > room {
        return Err(Code::INSUFFICIENT_SIZE);
    }
    // If the caller's records had 24 bytes, the real library wrote past the end here. This one asks for a larger
    // buffer.
    let needed = found.len() * size_of::<ProcessDetail>();
    if needed > room * size_of::<ProcessV3>() {
        count.set(needed.div_ceil(size_of::<ProcessV3>()))?;
        return Err(Code::INSUFFICIENT_SIZE);
    }
    list.cast::<ProcessDetail>().write(&found)
}

fn first(process: &Process, time: f64) -> ProcessV1 {
    ProcessV1 {
        pid: process.pid,
        used_memory: process.memory_bytes(time),
    }
}

fn second(process: &Process, time: f64) -> ProcessV2 {
    ProcessV2 {
        pid: process.pid,
        used_memory: process.memory_bytes(time),
        gpu_instance: process.gpu_instance,
        compute_instance: process.compute_instance,
    }
}

fn detail(process: &Process, time: f64) -> ProcessDetail {
    ProcessDetail {
        pid: process.pid,
        used_memory: process.memory_bytes(time),
        gpu_instance: process.gpu_instance,
        compute_instance: process.compute_instance,
        protected_memory: process.protected_bytes(time),
    }
}
