//! The processes on a GPU: the driver's lists merged, each pid once.

use gua_model::{Bytes, Gpu, Missing, Pid, Process, ProcessKind, Reading};

use super::calls::Calls;
use super::code::Code;
use super::library::Device;
use super::lists::{List, ListEntry, Lists};
use super::sensors::plausible_memory;
use super::tracked::Buffered;

/// The process lists of one GPU or instance.
pub(super) struct Listed {
    compute: Reading<Vec<ListEntry>>,
    graphics: Reading<Vec<ListEntry>>,
    /// Clients of the Multi-Process Service. The list is empty if it cannot be read: where there is no such service, its
    /// failure says nothing about the GPU.
    mps: Vec<ListEntry>,
}

impl Listed {
    pub(super) fn read(calls: &mut Calls<'_>, lists: &mut Lists, device: Device) -> Self {
        Self {
            compute: read_list(calls, lists, device, List::Compute),
            graphics: read_list(calls, lists, device, List::Graphics),
            mps: calls
                .optional(|library| lists.processes(library, device, List::Mps))
                .map_or_else(Vec::new, |(entries, _)| entries),
        }
    }

    /// Returns all PIDs; `None` if the compute list could not be read.
    pub(super) fn pids(&self) -> Option<Vec<Pid>> {
        let compute = self.compute.as_ref().ok()?;
        let entries = compute.iter().chain(self.graphics.iter().flatten());
        let entries = entries.chain(&self.mps);
        Some(entries.map(|entry| entry.pid).collect())
    }

    pub(super) fn contains(&self, pid: Pid) -> bool {
        let listed = self.compute.iter().chain(&self.graphics).flatten();
        listed.chain(&self.mps).any(|entry| entry.pid == pid)
    }

    /// Removes the entries of an instance from its parent's lists and returns them.
    pub(super) fn split_off(&mut self, ids: (u32, u32)) -> Self {
        let take = |list: &mut Vec<ListEntry>| {
            list.extract_if(.., |entry| entry.instance == Some(ids))
                .collect()
        };
        Self {
            compute: self.compute.as_mut().map(take).map_err(|why| *why),
            graphics: self.graphics.as_mut().map(take).map_err(|why| *why),
            mps: take(&mut self.mps),
        }
    }

    /// Takes the lists that are unsupported here from `other`.
    pub(super) fn fill_from(&mut self, other: Self) {
        if self.compute == Err(Missing::Unsupported) {
            self.compute = other.compute;
        }
        if self.graphics == Err(Missing::Unsupported) {
            self.graphics = other.graphics;
        }
        if self.mps.is_empty() {
            self.mps = other.mps;
        }
    }

    pub(super) fn remove(&mut self, is_unwanted: impl Fn(Pid) -> bool) {
        let lists = [&mut self.compute, &mut self.graphics];
        for list in lists.into_iter().flatten().chain([&mut self.mps]) {
            list.retain(|entry| !is_unwanted(entry.pid));
        }
    }

    /// Puts the processes on the GPU. They have no identity yet.
    pub(super) fn put_on(self, gpu: &mut Gpu, buffered: &Buffered) {
        gpu.processes = self.merge(buffered);
        gpu.compute_list = self.compute.map(drop);
        gpu.graphics_list = self.graphics.map(drop);
    }

    /// Merges the lists: the same pid in two lists is one process. Processes that the driver does not name are one
    /// entry with pid 0.
    fn merge(&self, buffered: &Buffered) -> Vec<Process> {
        let mut merged: Vec<Process> = Vec::new();
        let lists = [
            (
                self.compute.as_deref().unwrap_or_default(),
                ProcessKind::Compute,
            ),
            (&self.mps, ProcessKind::Compute),
            (
                self.graphics.as_deref().unwrap_or_default(),
                ProcessKind::Graphics,
            ),
        ];
        for (list, kind) in lists {
            let known = merged.len();
            for entry in list {
                let memory = plausible_memory(entry.memory);
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

fn read_list(
    calls: &mut Calls<'_>,
    lists: &mut Lists,
    device: Device,
    list: List,
) -> Reading<Vec<ListEntry>> {
    let name = match list {
        List::Compute => "nvmlDeviceGetComputeRunningProcesses",
        List::Graphics => "nvmlDeviceGetGraphicsRunningProcesses",
        List::Mps => "nvmlDeviceGetMPSComputeRunningProcesses",
    };
    let (entries, dropped) = calls.call(name, |library| lists.processes(library, device, list))?;
    if dropped > 0 {
        let why = calls.failed(name, Code::IMPLAUSIBLE);
        // A list that contains only impossible PIDs is invalid.
        if entries.is_empty() {
            return Err(why);
        }
    }
    Ok(entries)
}
