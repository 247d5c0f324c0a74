//! MIG: modes, instances, and the relation between an instance and its GPU.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::nvmlDeviceAttributes_t;

use crate::call::{Seen, exports};
use crate::code::Code;
use crate::foreign::{Device, Out};
use crate::state;
use crate::world::{Instance, Unit, whole};

exports! {
    R450 same fn nvmlDeviceGetMigMode(device: Device, current: Out<c_uint>, pending: Out<c_uint>) |seen| seen.hardware()?.mig_mode().ok_or(Code::NOT_SUPPORTED)?.into();
    R450 value fn nvmlDeviceIsMigDeviceHandle(device: Device, is_instance: Out<c_uint>) |seen| seen.instance().is_some().into();
    R450 value fn nvmlDeviceGetMaxMigDeviceCount(device: Device, count: Out<c_uint>) |seen| {
        let gpu = seen.hardware()?;
        let highest = gpu.instances.iter().map(|instance| instance.index + 1).max();
        // The first GPUs with MIG support seven instances, and return this number even if none exists.
        gpu.mig_mode().map_or(0, |_| highest.unwrap_or(0).max(7))
    };
    R450 gpu fn nvmlDeviceGetMigDeviceHandleByIndex(device: Device, index: c_uint, instance: Out<Device>) |seen| {
        let gpu = seen.hardware()?;
        if gpu.mig_mode() != Some(true) {
            return Err(if gpu.mig_mode().is_some() { Code::NOT_FOUND } else { Code::NOT_SUPPORTED });
        }
        let is_it = |instance: &Instance| instance.index == index && instance.exists_at(seen.time);
        let place = gpu.instances.iter().position(is_it);
        let unit = Unit { gpu: seen.unit.gpu, instance: Some(place.ok_or(Code::NOT_FOUND)?) };
        instance.set(state::lock().handle(&seen.world, unit))
    };
    R450 value fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance: Device, device: Out<Device>) |seen| {
        part(seen)?;
        state::lock().handle(&seen.world, Unit::gpu(seen.unit.gpu))
    };
    R450 value fn nvmlDeviceGetGpuInstanceId(device: Device, id: Out<c_uint>) |seen| part(seen)?.gpu_instance;
    R450 value fn nvmlDeviceGetComputeInstanceId(device: Device, id: Out<c_uint>) |seen| part(seen)?.scripted.compute_instance;
    R450 value fn nvmlDeviceGetAttributes(device: Device, attributes: Out<nvmlDeviceAttributes_t>) |seen| attributes_of(part(seen)?);
    R450 value fn nvmlDeviceGetAttributes_v2(device: Device, attributes: Out<nvmlDeviceAttributes_t>) |seen| attributes_of(part(seen)?);
}

/// Returns the instance. The call is invalid for a whole GPU.
fn part(seen: &Seen) -> Result<&Instance, Code> {
    seen.instance().ok_or(Code::INVALID_ARGUMENT)
}

fn attributes_of(instance: &Instance) -> nvmlDeviceAttributes_t {
    let scripted = &instance.scripted;
    nvmlDeviceAttributes_t {
        multiprocessorCount: scripted.multiprocessors,
        sharedCopyEngineCount: scripted.slices,
        sharedDecoderCount: scripted.slices / 2,
        sharedEncoderCount: 0,
        sharedJpegCount: 0,
        sharedOfaCount: 0,
        gpuInstanceSliceCount: scripted.slices,
        computeInstanceSliceCount: scripted.compute_slices.unwrap_or(scripted.slices),
        memorySizeMB: whole(scripted.memory_total_mib),
    }
}
