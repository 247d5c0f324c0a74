//! Settings of a GPU: modes, links and limits, which a scenario rarely changes.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::nvmlConfComputeMemSizeInfo_t;

use crate::call::exports;
use crate::code::Code;
use crate::foreign::{Device, Out};

exports! {
    R390 value fn nvmlDeviceGetDisplayMode(device: Device, mode: Out<c_uint>) |seen| seen.sensor()?.scripted.display.into();
    R390 value fn nvmlDeviceGetDisplayActive(device: Device, active: Out<c_uint>) |seen| seen.sensor()?.scripted.display.into();
    R390 value fn nvmlDeviceGetPersistenceMode(device: Device, mode: Out<c_uint>) |seen| seen.sensor()?.scripted.persistence.unwrap_or(true).into();
    R390 value fn nvmlDeviceGetComputeMode(device: Device, mode: Out<c_uint>) |seen| seen.sensor()?.scripted.compute_mode;
    // Driver models exist only on Windows.
    R390 gpu fn nvmlDeviceGetDriverModel(device: Device, _current: Out<c_uint>, _pending: Out<c_uint>) |_seen| Err(Code::NOT_SUPPORTED);
    R550 gpu fn nvmlDeviceGetDriverModel_v2(device: Device, _current: Out<c_uint>, _pending: Out<c_uint>) |_seen| Err(Code::NOT_SUPPORTED);
    // If a library has this function but not `nvmlDeviceGetRunningProcessDetailList`, nvitop assumes that its v3 lists
    // have 32-byte records.
    R535_54 gpu fn nvmlDeviceGetConfComputeMemSizeInfo(device: Device, _sizes: Out<nvmlConfComputeMemSizeInfo_t>) |_seen| Err(Code::NOT_SUPPORTED);
    R390 value fn nvmlDeviceGetPowerManagementMode(device: Device, mode: Out<c_uint>) |seen| seen.read(|sensors| &sensors.power_limit_w).map(|_| 1)?;
    R390 same fn nvmlDeviceGetEccMode(device: Device, current: Out<c_uint>, pending: Out<c_uint>) |seen| seen.sensor()?.scripted.ecc.ok_or(Code::NOT_SUPPORTED)?.into();
    R390 value fn nvmlDeviceGetCurrPcieLinkGeneration(device: Device, generation: Out<c_uint>) |seen| seen.constant(4)?;
    R390 value fn nvmlDeviceGetMaxPcieLinkGeneration(device: Device, generation: Out<c_uint>) |seen| seen.constant(4)?;
    R525 value fn nvmlDeviceGetGpuMaxPcieLinkGeneration(device: Device, generation: Out<c_uint>) |seen| seen.constant(4)?;
    R390 value fn nvmlDeviceGetCurrPcieLinkWidth(device: Device, lanes: Out<c_uint>) |seen| seen.constant(16)?;
    R390 value fn nvmlDeviceGetMaxPcieLinkWidth(device: Device, lanes: Out<c_uint>) |seen| seen.constant(16)?;
    R525 value fn nvmlDeviceGetNumGpuCores(device: Device, cores: Out<c_uint>) |seen| seen.constant(6912)?;
    R525 value fn nvmlDeviceGetMemoryBusWidth(device: Device, bits: Out<c_uint>) |seen| seen.constant(5120)?;
}
