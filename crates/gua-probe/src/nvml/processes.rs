//! The processes on a GPU: both of the driver's lists merged, each pid once.

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
}

impl Listed {
    pub(super) fn read(calls: &mut Calls<'_>, lists: &mut Lists, device: Device) -> Self {
        Self {
            compute: read_list(calls, lists, device, List::Compute),
            graphics: read_list(calls, lists, device, List::Graphics),
        }
    }

    /// Returns all PIDs; `None` if the compute list could not be read.
    pub(super) fn pids(&self) -> Option<Vec<Pid>> {
        let compute = self.compute.as_ref().ok()?;
        let entries = compute.iter().chain(self.graphics.iter().flatten());
        Some(entries.map(|entry| entry.pid).collect())
    }

    pub(super) fn contains(&self, pid: Pid) -> bool {
        let mut entries = self.compute.iter().chain(&self.graphics).flatten();
        entries.any(|entry| entry.pid == pid)
    }

    /// Removes the entries of an instance from its parent's lists and returns them.
    pub(super) fn split_off(&mut self, ids: (u32, u32)) -> Self {
        let take = |list: &mut Reading<Vec<ListEntry>>| match list {
            Ok(entries) => Ok(entries
                .extract_if(.., |entry| entry.instance == Some(ids))
                .collect()),
            Err(why) => Err(*why),
        };
        Self {
            compute: take(&mut self.compute),
            graphics: take(&mut self.graphics),
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
    }

    pub(super) fn remove(&mut self, is_unwanted: impl Fn(Pid) -> bool) {
        for list in [&mut self.compute, &mut self.graphics]
            .into_iter()
            .flatten()
        {
            list.retain(|entry| !is_unwanted(entry.pid));
        }
    }

    /// Puts the processes on the GPU. They have no identity yet.
    pub(super) fn put_on(self, gpu: &mut Gpu, buffered: &Buffered) {
        gpu.processes = self.merge(buffered);
        gpu.compute_list = self.compute.map(drop);
        gpu.graphics_list = self.graphics.map(drop);
    }

    /// Merges the lists: the same pid in both is one process.
    fn merge(&self, buffered: &Buffered) -> Vec<Process> {
        let mut merged: Vec<Process> = Vec::new();
        let kinds = [
            (&self.compute, ProcessKind::Compute),
            (&self.graphics, ProcessKind::Graphics),
        ];
        for (list, kind) in kinds {
            for entry in list.iter().flatten() {
                let memory = plausible_memory(entry.memory);
                match merged.iter_mut().find(|process| process.pid == entry.pid) {
                    Some(process) => {
                        if process.kind != kind {
                            process.kind = ProcessKind::Both;
                        }
                        process.memory = larger(process.memory, memory);
                    }
                    None => merged.push(Process {
                        pid: entry.pid,
                        kind,
                        memory,
                        sm_util: buffered.sm_util(entry.pid),
                        identity: Err(Missing::Denied),
                    }),
                }
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
