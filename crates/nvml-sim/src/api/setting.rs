//! Settings of a GPU: modes, links and limits, which a scenario rarely changes.

use std::ffi::c_uint;

use crate::call::exports;
use crate::code::Code;
use crate::foreign::{Device, Out};
use crate::layout::ProtectedMemory;

exports! {
    R390 card fn nvmlDeviceGetDisplayMode(device: Device, mode: Out<c_uint>) |seen| {
        mode.set(seen.sensor()?.told.display.into())
    };
    R390 card fn nvmlDeviceGetDisplayActive(device: Device, active: Out<c_uint>) |seen| {
        active.set(seen.sensor()?.told.display.into())
    };
    R390 card fn nvmlDeviceGetPersistenceMode(device: Device, mode: Out<c_uint>) |seen| {
        mode.set(seen.sensor()?.told.persistence.unwrap_or(true).into())
    };
    R390 card fn nvmlDeviceGetComputeMode(device: Device, mode: Out<c_uint>) |seen| {
        mode.set(seen.sensor()?.told.compute_mode)
    };
    // Driver models exist only on Windows.
    R390 card fn nvmlDeviceGetDriverModel(device: Device, _current: Out<c_uint>, _pending: Out<c_uint>) |_seen| {
        Err(Code::NOT_SUPPORTED)
    };
    R550 card fn nvmlDeviceGetDriverModel_v2(device: Device, _current: Out<c_uint>, _pending: Out<c_uint>) |_seen| {
        Err(Code::NOT_SUPPORTED)
    };
    // If a library has this function but not `nvmlDeviceGetRunningProcessDetailList`, nvitop assumes that its v3 lists
    // have 32-byte records.
    R535_54 card fn nvmlDeviceGetConfComputeMemSizeInfo(device: Device, _sizes: Out<ProtectedMemory>) |_seen| {
        Err(Code::NOT_SUPPORTED)
    };
    R390 card fn nvmlDeviceGetPowerManagementMode(device: Device, mode: Out<c_uint>) |seen| {
        seen.sensor()?.power_limit_w.line()?;
        mode.set(1)
    };
    R390 card fn nvmlDeviceGetEccMode(device: Device, current: Out<c_uint>, pending: Out<c_uint>) |seen| {
        let on = seen.sensor()?.told.ecc.ok_or(Code::NOT_SUPPORTED)?;
        current.set(on.into())?;
        pending.set(on.into())
    };
    R390 card fn nvmlDeviceGetCurrPcieLinkGeneration(device: Device, generation: Out<c_uint>) |seen| {
        seen.sensor()?;
        generation.set(4)
    };
    R390 card fn nvmlDeviceGetMaxPcieLinkGeneration(device: Device, generation: Out<c_uint>) |seen| {
        seen.sensor()?;
        generation.set(4)
    };
    R525 card fn nvmlDeviceGetGpuMaxPcieLinkGeneration(device: Device, generation: Out<c_uint>) |seen| {
        seen.sensor()?;
        generation.set(4)
    };
    R390 card fn nvmlDeviceGetCurrPcieLinkWidth(device: Device, lanes: Out<c_uint>) |seen| {
        seen.sensor()?;
        lanes.set(16)
    };
    R390 card fn nvmlDeviceGetMaxPcieLinkWidth(device: Device, lanes: Out<c_uint>) |seen| {
        seen.sensor()?;
        lanes.set(16)
    };
    R525 card fn nvmlDeviceGetNumGpuCores(device: Device, cores: Out<c_uint>) |seen| {
        seen.sensor()?;
        cores.set(6912)
    };
    R525 card fn nvmlDeviceGetMemoryBusWidth(device: Device, bits: Out<c_uint>) |seen| {
        seen.sensor()?;
        bits.set(5120)
    };
}
