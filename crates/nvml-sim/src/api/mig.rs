//! MIG: modes, instances, and the relation between an instance and its GPU.

use std::ffi::c_uint;

use crate::call::{Seen, exports};
use crate::code::Code;
use crate::foreign::{Device, Out};
use crate::layout::Attributes;
use crate::state;
use crate::world::{Instance, Unit, whole};

exports! {
    R450 card fn nvmlDeviceGetMigMode(device: Device, current: Out<c_uint>, pending: Out<c_uint>) |seen| {
        let on = seen.hardware()?.mig_mode().ok_or(Code::NOT_SUPPORTED)?;
        current.set(on.into())?;
        pending.set(on.into())
    };
    R450 card fn nvmlDeviceIsMigDeviceHandle(device: Device, is_instance: Out<c_uint>) |seen| {
        is_instance.set(seen.instance().is_some().into())
    };
    R450 card fn nvmlDeviceGetMaxMigDeviceCount(device: Device, count: Out<c_uint>) |seen| {
        let card = seen.hardware()?;
        let highest = card.instances.iter().map(|instance| instance.index + 1).max();
        // The first GPUs with MIG support seven instances, and return this number even if none exists.
        count.set(card.mig_mode().map_or(0, |_| highest.unwrap_or(0).max(7)))
    };
    R450 card fn nvmlDeviceGetMigDeviceHandleByIndex(device: Device, index: c_uint, instance: Out<Device>) |seen| {
        let card = seen.hardware()?;
        if card.mig_mode() != Some(true) {
            return Err(if card.mig_mode().is_some() { Code::NOT_FOUND } else { Code::NOT_SUPPORTED });
        }
        let place = card.instances.iter().position(|instance| instance.index == index);
        let unit = Unit { card: seen.unit.card, instance: Some(place.ok_or(Code::NOT_FOUND)?) };
        instance.set(state::lock().handle(&seen.world, unit))
    };
    R450 card fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance: Device, device: Out<Device>) |seen| {
        part(seen)?;
        let unit = Unit { card: seen.unit.card, instance: None };
        device.set(state::lock().handle(&seen.world, unit))
    };
    R450 card fn nvmlDeviceGetGpuInstanceId(device: Device, id: Out<c_uint>) |seen| {
        id.set(part(seen)?.gpu_instance)
    };
    R450 card fn nvmlDeviceGetComputeInstanceId(device: Device, id: Out<c_uint>) |seen| {
        id.set(part(seen)?.told.compute_instance)
    };
    R450 card fn nvmlDeviceGetAttributes(device: Device, attributes: Out<Attributes>) |seen| {
        attributes.set(attributes_of(part(seen)?))
    };
    R450 card fn nvmlDeviceGetAttributes_v2(device: Device, attributes: Out<Attributes>) |seen| {
        attributes.set(attributes_of(part(seen)?))
    };
}

/// Returns the instance. The call is invalid for a whole GPU.
fn part(seen: &Seen) -> Result<&Instance, Code> {
    seen.instance().ok_or(Code::INVALID_ARGUMENT)
}

fn attributes_of(instance: &Instance) -> Attributes {
    let told = &instance.told;
    Attributes {
        multiprocessors: told.multiprocessors,
        copy_engines: told.slices,
        decoders: told.slices / 2,
        encoders: 0,
        jpeg_engines: 0,
        optical_flow_engines: 0,
        gpu_slices: told.slices,
        compute_slices: told.compute_slices.unwrap_or(told.slices),
        memory_mib: whole(told.memory_total_mib),
    }
}
