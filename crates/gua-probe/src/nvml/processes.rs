//! The processes on a GPU: the driver's lists merged, each pid once.

use gua_model::{Bytes, Gpu, Missing, Pid, Process, ProcessKind, Reading};

use super::calls::Calls;
use super::code::Code;
use super::library::Device;
use super::lists::{List, ListEntry};
use super::tracked::Buffered;

/// The process lists of one GPU or instance: compute, MPS, graphics. Processes of an earlier list come first.
///
/// The list of the Multi-Process Service (MPS) counts as unsupported if it is empty or cannot be read: on a host without this
/// service, the failure says nothing about the GPU.
pub(super) struct Listed([Reading<Vec<ListEntry>>; 3]);

const KINDS: [ProcessKind; 3] = [
    ProcessKind::Compute,
    ProcessKind::Compute,
    ProcessKind::Graphics,
];

impl Listed {
    pub(super) fn read(calls: &mut Calls<'_>, device: Device) -> Self {
        let compute = read_list(calls, device, List::Compute);
        let graphics = read_list(calls, device, List::Graphics);
        let mps = calls.optional(|library| library.processes(device, List::Mps));
        let mps = mps.map(|(entries, _)| entries);
        let mps = mps.filter(|entries| !entries.is_empty());
        Self([compute, mps.ok_or(Missing::Unsupported), graphics])
    }

    fn entries(&self) -> impl Iterator<Item = &ListEntry> {
        self.0.iter().flatten().flatten()
    }

    /// Returns all PIDs; `None` if the compute list could not be read.
    pub(super) fn pids(&self) -> Option<Vec<Pid>> {
        self.0[0].as_ref().ok()?;
        Some(self.entries().map(|entry| entry.pid).collect())
    }

    pub(super) fn contains(&self, pid: Pid) -> bool {
        self.entries().any(|entry| entry.pid == pid)
    }

    /// Removes the entries of an instance from its parent's lists and returns them.
    pub(super) fn split_off(&mut self, ids: (u32, u32)) -> Self {
        let is_of_instance = |entry: &mut ListEntry| entry.instance == Some(ids);
        Self(self.0.each_mut().map(|list| match list {
            Ok(list) => Ok(list.extract_if(.., is_of_instance).collect()),
            Err(why) => Err(*why),
        }))
    }

    /// Takes the lists that are unsupported here from `other`.
    pub(super) fn fill_from(&mut self, other: Self) {
        for (list, other) in self.0.iter_mut().zip(other.0) {
            if *list == Err(Missing::Unsupported) {
                *list = other;
            }
        }
    }

    pub(super) fn remove(&mut self, is_unwanted: impl Fn(Pid) -> bool) {
        for list in self.0.iter_mut().flatten() {
            list.retain(|entry| !is_unwanted(entry.pid));
        }
    }

    /// Puts the processes on the GPU. They have no identity yet.
    pub(super) fn put_on(self, gpu: &mut Gpu, buffered: &Buffered) {
        gpu.processes = self.merge(buffered);
        let [compute, _, graphics] = self.0;
        gpu.compute_list = compute.map(drop);
        gpu.graphics_list = graphics.map(drop);
    }

    /// Merges the lists: the same pid in two lists is one process. Processes that the driver does not name are one
    /// entry with pid 0.
    fn merge(&self, buffered: &Buffered) -> Vec<Process> {
        let mut merged: Vec<Process> = Vec::new();
        for (list, kind) in self.0.iter().zip(KINDS) {
            let known = merged.len();
            for entry in list.iter().flatten() {
                let memory = entry.memory;
                let place = merged.iter().position(|process| process.pid == entry.pid);
                let Some(place) = place else {
                    merged.push(Process {
                        pid: entry.pid,
                        kind,
                        memory,
                        sm_util: buffered.sm_util(entry.pid),
                        identity: Err(Missing::Denied),
                    });
                    continue;
                };
                let process = &mut merged[place];
                if process.kind != kind {
                    process.kind = ProcessKind::Both;
                }
                // Two records of one list that name no process are two processes.
                let is_another = entry.pid == Pid(0) && place >= known;
                process.memory = match (process.memory, memory) {
                    (Ok(one), Ok(other)) if is_another => Ok(Bytes(one.0.saturating_add(other.0))),
                    (_, Err(why)) | (Err(why), _) if is_another => Err(why),
                    (one, other) => larger(one, other),
                };
            }
        }
        merged
    }
}

/// Returns the larger known amount. Both lists report the memory of the same process, and a known amount is better than
/// a hidden one.
fn larger(one: Reading<Bytes>, other: Reading<Bytes>) -> Reading<Bytes> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(one.max(other)),
        (Ok(known), Err(_)) | (Err(_), Ok(known)) => Ok(known),
        (Err(why), Err(_)) => Err(why),
    }
}

fn read_list(calls: &mut Calls<'_>, device: Device, list: List) -> Reading<Vec<ListEntry>> {
    let name = match list {
        List::Compute => "nvmlDeviceGetComputeRunningProcesses",
        List::Graphics => "nvmlDeviceGetGraphicsRunningProcesses",
        List::Mps => "nvmlDeviceGetMPSComputeRunningProcesses",
    };
    let (entries, dropped) = calls.call(name, |library| library.processes(device, list))?;
    if dropped > 0 {
        let why = calls.failed(name, Code::IMPLAUSIBLE);
        // A list that contains only impossible PIDs is invalid.
        if entries.is_empty() {
            return Err(why);
        }
    }
    Ok(entries)
}
