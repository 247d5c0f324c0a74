//! Which processes are on a card: both lists merged, each pid once, resolved against `/proc` at once.

use gua_model::{Bytes, Gpu, GpuUuid, Missing, Pid, Place, Process, ProcessKind, Reading};

use super::card::{Asker, believable_memory, read_memory, slice_of};
use super::follow::Since;
use crate::nvml::{Code, Device, List, Listed, Lists};
use crate::process::ProcessTable;

/// The lists of one card or instance, before anyone is named.
pub(super) struct Found {
    compute: Reading<Vec<Listed>>,
    graphics: Reading<Vec<Listed>>,
}

impl Found {
    pub(super) fn read(asker: &mut Asker<'_>, lists: &mut Lists, device: Device) -> Self {
        Self {
            compute: read_list(asker, lists, device, List::Compute),
            graphics: read_list(asker, lists, device, List::Graphics),
        }
    }

    pub(super) fn lists_pid(&self, pid: Pid) -> bool {
        let on =
            |list: &Reading<Vec<Listed>>| list.iter().flatten().any(|listed| listed.pid == pid);
        on(&self.compute) || on(&self.graphics)
    }

    /// Takes the entries that carry this instance's ids out of its parent's list.
    fn split_off(&mut self, ids: (u32, u32)) -> Self {
        let take = |list: &mut Reading<Vec<Listed>>| match list {
            Ok(entries) => Ok(entries
                .extract_if(.., |listed| listed.instance == Some(ids))
                .collect()),
            Err(why) => Err(*why),
        };
        Self {
            compute: take(&mut self.compute),
            graphics: take(&mut self.graphics),
        }
    }

    pub(super) fn forget(&mut self, unwanted: impl Fn(Pid) -> bool) {
        for list in [&mut self.compute, &mut self.graphics]
            .into_iter()
            .flatten()
        {
            list.retain(|listed| !unwanted(listed.pid));
        }
    }

    /// Names every process and puts it on the card.
    pub(super) fn into_gpu(
        self,
        gpu: &mut Gpu,
        asker: &mut Asker<'_>,
        lists: &mut Lists,
        table: &mut ProcessTable,
        since: &Since,
        device: Device,
    ) {
        let mut merged = self.merge();
        for process in &mut merged {
            process.sm_util = since.sm_util(process.pid);
            process.identity = table.resolve_for_now(process.pid, since.now);
        }
        leave_out_ended(&mut merged, asker, lists, device);
        gpu.compute_list = self.compute.map(|_| ());
        gpu.graphics_list = self.graphics.map(|_| ());
        gpu.processes = merged;
    }

    /// The same pid in both lists is one process.
    fn merge(&self) -> Vec<Process> {
        let mut merged: Vec<Process> = Vec::new();
        let kinds = [
            (&self.compute, ProcessKind::Compute),
            (&self.graphics, ProcessKind::Graphics),
        ];
        for (list, kind) in kinds {
            for listed in list.iter().flatten() {
                let memory = believable_memory(listed.memory);
                match merged.iter_mut().find(|process| process.pid == listed.pid) {
                    Some(process) => {
                        if process.kind != kind {
                            process.kind = ProcessKind::Both;
                        }
                        process.memory = larger(process.memory, memory);
                    }
                    None => merged.push(Process {
                        pid: listed.pid,
                        kind,
                        memory,
                        sm_util: Err(Missing::Unsupported),
                        identity: Err(Missing::Denied),
                    }),
                }
            }
        }
        merged
    }
}

/// A process may have ended between the driver's list and the look into /proc. Only a pid that the driver still lists
/// after that is an orphan.
fn leave_out_ended(
    processes: &mut Vec<Process>,
    asker: &mut Asker<'_>,
    lists: &mut Lists,
    device: Device,
) {
    let gone = |process: &Process| matches!(process.identity, Err(Missing::Gone));
    if processes.iter().any(gone) {
        let again = Found::read(asker, lists, device);
        if again.compute.is_ok() {
            processes.retain(|process| !gone(process) || again.lists_pid(process.pid));
        }
    }
}

/// Names the processes that have ended while the cards were read anew, and leaves out those that the driver does not list
/// any more either.
pub(super) fn resolve_again(
    gpu: &mut Gpu,
    ended: &[Pid],
    asker: &mut Asker<'_>,
    lists: &mut Lists,
    table: &mut ProcessTable,
    device: Device,
) {
    let mut is_changed = false;
    for process in &mut gpu.processes {
        if ended.contains(&process.pid) {
            process.identity = table.resolve(process.pid);
            is_changed = true;
        }
    }
    if is_changed {
        leave_out_ended(&mut gpu.processes, asker, lists, device);
    }
}

/// Both lists tell the same process's memory; a known amount says more than a hidden one.
fn larger(one: Reading<Bytes>, other: Reading<Bytes>) -> Reading<Bytes> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(one.max(other)),
        (Ok(known), Err(_)) | (Err(_), Ok(known)) => Ok(known),
        (Err(why), Err(_)) => Err(why),
    }
}

fn read_list(
    asker: &mut Asker<'_>,
    lists: &mut Lists,
    device: Device,
    list: List,
) -> Reading<Vec<Listed>> {
    let call = match list {
        List::Compute => "nvmlDeviceGetComputeRunningProcesses",
        List::Graphics => "nvmlDeviceGetGraphicsRunningProcesses",
    };
    let (listed, dropped) = asker.ask(call, |library| lists.processes(library, device, list))?;
    if dropped > 0 {
        let why = asker.note(call, Code::GARBAGE);
        // A list of nothing but impossible pids is no list.
        if listed.is_empty() {
            return Err(why);
        }
    }
    Ok(listed)
}

/// A MIG instance that the driver names.
pub(super) struct Instance {
    device: Device,
    uuid: GpuUuid,
    of: u32,
}

impl Instance {
    /// Instances stand at any of the places, with holes between them. Says too whether every place could be looked at.
    pub(super) fn all(asker: &mut Asker<'_>, parent: Device) -> (Vec<Self>, Reading<()>) {
        /// Today's largest card has seven.
        const MOST: u32 = 64;
        let most = asker.ask("nvmlDeviceGetMaxMigDeviceCount", |library| {
            library.max_mig_devices(parent).and_then(|most| {
                if most <= MOST {
                    Ok(most)
                } else {
                    Err(Code::GARBAGE)
                }
            })
        });
        let most = match most {
            Ok(most) => most,
            Err(why) => return (Vec::new(), Err(why)),
        };
        let (mut instances, mut complete) = (Vec::new(), Ok(()));
        for place in 0..most {
            match Self::at(asker, parent, place, most) {
                Ok(instance) => instances.extend(instance),
                Err(why) => complete = Err(why),
            }
        }
        (instances, complete)
    }

    fn at(asker: &mut Asker<'_>, parent: Device, place: u32, of: u32) -> Reading<Option<Self>> {
        let device = asker.ask(
            "nvmlDeviceGetMigDeviceHandleByIndex",
            |library| match library.mig_device(parent, place) {
                Ok(device) => Ok(Some(device)),
                Err(Code::NOT_FOUND | Code::INVALID_ARGUMENT) => Ok(None),
                Err(code) => Err(code),
            },
        )?;
        let Some(device) = device else {
            return Ok(None);
        };
        let uuid = asker.ask("nvmlDeviceGetUUID", |library| {
            library
                .uuid(device)
                .and_then(|text| text.parse::<GpuUuid>().map_err(|_| Code::GARBAGE))
        })?;
        Ok(Some(Self { device, uuid, of }))
    }

    /// An instance has its own memory and processes; its sensors are the parent's, and utilisation is nobody's.
    pub(super) fn read(
        self,
        asker: &mut Asker<'_>,
        lists: &mut Lists,
        of_parent: &mut Found,
        index: u32,
    ) -> (Gpu, Device, Found) {
        let Self { device, uuid, of } = self;
        let mut gpu = Gpu::without_readings(uuid, index, Missing::Unsupported);
        let gpu_instance = asker.ask("nvmlDeviceGetGpuInstanceId", |library| {
            library.gpu_instance(device)
        });
        let compute_instance = asker.ask("nvmlDeviceGetComputeInstanceId", |library| {
            library.compute_instance(device)
        });
        gpu.name = asker.ask("nvmlDeviceGetName", |library| library.name(device));
        let slice = slice_of(asker, device, of);
        read_memory(&mut gpu, asker, device);
        let mut found = Found::read(asker, lists, device);
        if let (Ok(gpu_instance), Ok(compute_instance)) = (gpu_instance, compute_instance) {
            let listed_by_parent = of_parent.split_off((gpu_instance, compute_instance));
            // Early MIG drivers list the processes of an instance on its parent alone.
            if found.compute == Err(Missing::Unsupported) {
                found.compute = listed_by_parent.compute;
            }
            if found.graphics == Err(Missing::Unsupported) {
                found.graphics = listed_by_parent.graphics;
            }
        }
        let place = Place::Instance {
            parent: asker.uuid.clone(),
            gpu_instance,
            compute_instance,
            slice,
        };
        gpu.place = place;
        (gpu, device, found)
    }
}
