//! Reads one GPU and the MIG instances on it.

use std::time::Duration;

use gua_model::sample::{Slice, Switch};
use gua_model::{Gpu, GpuUuid, Missing, Place, Reading};

use super::calls::Calls;
use super::code::Code;
use super::library::{self, Device, Library, at_most, plausible, switch};
use super::processes::Listed;
use super::sensors;
use super::tracked::{TrackedGpu, TrackedInstance};
use crate::backend::Scan;

/// Maximum number of MIG instances; today's largest GPU has seven.
const MAX_INSTANCES: u32 = 64;

/// Reads a GPU and its MIG instances, and appends them to the scan.
pub(super) fn read(
    library: &Library,
    tracked: &mut TrackedGpu,
    device: Device,
    now: Duration,
    scan: &mut Scan,
) {
    tracked.read_buffers(library, device, now);
    let buffered = tracked.take_buffered();
    let uuid = tracked.known.uuid.clone();
    let mut calls = Calls::new(library, &mut scan.problems, &uuid, tracked.known.index);

    sensors::read_identity(&mut tracked.known, &mut calls, device);
    let mut gpu = tracked.known.clone();
    sensors::read_memory(&mut gpu, &mut calls, device);
    sensors::read_utilisation(&mut gpu, &mut calls, device, buffered.window());
    sensors::read(&mut gpu, &mut calls, device);
    // After the sensors: known settings are not used if one of their calls failed.
    if tracked.refreshed_at == Some(now) || calls.has_failed {
        sensors::read_settings(&mut gpu, &mut calls, device);
        sensors::copy_settings(&gpu, &mut tracked.known);
    }
    sensors::read_ecc(&mut gpu, &mut calls, device);
    gpu.mig = calls.read(device, &library::MIG_MODE, switch);

    let mut listed = Listed::read(&mut calls, device);
    let (mut instances, unread) = match gpu.mig {
        Ok(Switch::On) => read_instances(&mut calls, tracked, device, &mut listed),
        Ok(Switch::Off) | Err(Missing::Unsupported) => {
            tracked.instances.clear();
            Default::default()
        }
        // How the GPU is partitioned cannot be read now: its last known instances stay.
        Err(why) => (Vec::new(), tracked.instances_without_readings(why)),
    };
    if gpu.mig == Ok(Switch::On) || !tracked.instances.is_empty() {
        // Older drivers list the processes of instances on the parent too, without saying whose they are.
        listed.remove(|pid| instances.iter().any(|(_, listed)| listed.contains(pid)));
        let instances = u32::try_from(tracked.instances.len()).unwrap_or(u32::MAX);
        gpu.place = Place::Parent { instances };
    }
    if let Some(code) = buffered.process_failure() {
        calls.failed("nvmlDeviceGetProcessUtilization", code);
    }
    if calls.has_failed {
        tracked.expire_cache();
    }
    for (instance, _) in &mut instances {
        sensors::copy_health(&gpu, instance);
    }
    for (mut gpu, listed) in std::iter::once((gpu, listed)).chain(instances) {
        listed.put_on(&mut gpu, &buffered);
        scan.gpus.push(gpu);
    }
    scan.gpus.extend(unread);
}

/// Reads the instances of a GPU in MIG mode. The second list has those that are known from earlier scans and could not
/// be listed now.
fn read_instances(
    calls: &mut Calls<'_>,
    tracked: &mut TrackedGpu,
    parent: Device,
    on_parent: &mut Listed,
) -> (Vec<(Gpu, Listed)>, Vec<Gpu>) {
    let (found, complete) = list_instances(calls, parent);
    let (mut instances, mut now_tracked) = (Vec::new(), Vec::new());
    for instance in found {
        let device = instance.device;
        let (gpu, listed) = instance.read(calls, tracked.known.index, on_parent);
        now_tracked.push(TrackedInstance::new(&gpu, Some(device)));
        instances.push((gpu, listed));
    }
    let mut unread = Vec::new();
    if let Err(why) = complete {
        unread = tracked.instances_without_readings(why);
        unread.retain(|gpu| !instances.iter().any(|(read, _)| read.uuid == gpu.uuid));
    }
    now_tracked.extend(unread.iter().map(|gpu| TrackedInstance::new(gpu, None)));
    tracked.instances = now_tracked;
    (instances, unread)
}

/// A MIG instance that the driver lists.
struct Instance {
    device: Device,
    uuid: GpuUuid,
    /// Compute slices of the whole GPU.
    of: u32,
}

/// Lists the instances of a GPU. Their numbers have gaps, so every number is tried. The second value reports whether
/// all numbers could be tried.
fn list_instances(calls: &mut Calls<'_>, parent: Device) -> (Vec<Instance>, Reading<()>) {
    let most = match calls.read(parent, &library::MAX_INSTANCES, at_most(MAX_INSTANCES)) {
        Ok(most) => most,
        Err(why) => return (Vec::new(), Err(why)),
    };
    let (mut instances, mut complete) = (Vec::new(), Ok(()));
    for number in 0..most {
        match Instance::find(calls, parent, number, most) {
            Ok(instance) => instances.extend(instance),
            Err(why) => complete = Err(why),
        }
    }
    (instances, complete)
}

impl Instance {
    fn find(calls: &mut Calls<'_>, parent: Device, number: u32, of: u32) -> Reading<Option<Self>> {
        let device = calls.call(
            "nvmlDeviceGetMigDeviceHandleByIndex",
            |library| match library.mig_device(parent, number) {
                Ok(device) => Ok(Some(device)),
                Err(Code::NOT_FOUND | Code::INVALID_ARGUMENT) => Ok(None),
                Err(code) => Err(code),
            },
        )?;
        let Some(device) = device else {
            return Ok(None);
        };
        let uuid = calls.call("nvmlDeviceGetUUID", |library| library.uuid(device))?;
        Ok(Some(Self { device, uuid, of }))
    }

    /// Reads an instance. It has its own memory and processes; the sensors are the parent's, and the driver reports no
    /// utilisation in MIG mode.
    fn read(self, calls: &mut Calls<'_>, index: u32, on_parent: &mut Listed) -> (Gpu, Listed) {
        let Self { device, uuid, of } = self;
        let mut gpu = Gpu::without_readings(uuid, index, Missing::Unsupported);
        let gpu_instance = calls.read(device, &library::GPU_INSTANCE, Ok);
        let compute_instance = calls.read(device, &library::COMPUTE_INSTANCE, Ok);
        gpu.name = calls.call("nvmlDeviceGetName", |library| library.name(device));
        let slice = read_slice(calls, device, of);
        sensors::read_memory(&mut gpu, calls, device);
        let mut listed = Listed::read(calls, device);
        if let (Ok(gpu_instance), Ok(compute_instance)) = (gpu_instance, compute_instance) {
            // Early MIG drivers list the processes of an instance on its parent alone.
            listed.fill_from(on_parent.split_off((gpu_instance, compute_instance)));
        }
        gpu.place = Place::Instance {
            parent: calls.uuid.clone(),
            gpu_instance,
            compute_instance,
            slice,
        };
        (gpu, listed)
    }
}

/// Reads the share that an instance has of its parent, in compute slices. Two compute instances in one GPU instance are not
/// counted twice.
fn read_slice(calls: &mut Calls<'_>, device: Device, of: u32) -> Reading<Slice> {
    calls.read(device, &library::ATTRIBUTES, |attributes| {
        let slices = match attributes.computeInstanceSliceCount {
            0 => attributes.gpuInstanceSliceCount,
            slices => slices,
        };
        plausible(Slice { slices, of }, |_| (1..=of).contains(&slices))
    })
}
