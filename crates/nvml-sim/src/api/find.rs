//! Counting GPUs, finding them by key, and their constant properties.

use std::ffi::{c_int, c_uint};

use nvml_wrapper_sys::bindings::{nvmlPciInfo_t, nvmlPciInfoExt_v1_t};

use super::reading::check_version;
use crate::call::{Now, exports};
use crate::code::Code;
use crate::foreign::{Device, Length, Out, Text, Words};
use crate::layout::{fixed, version_of};
use crate::pci::Address;
use crate::world::{Gpu, Unit};

exports! {
    R390 system fn nvmlDeviceGetCount(count: Out<c_uint>) |now| count.set(number(now.world.present(now.time).count()));
    R390 system fn nvmlDeviceGetCount_v2(count: Out<c_uint>) |now| count.set(number(now.world.present(now.time).count()));
    R390 finder fn nvmlDeviceGetHandleByIndex(index: c_uint, device: Out<Device>) |now| by_index(now, index);
    R390 finder fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: Out<Device>) |now| by_index(now, index);
    R390 finder fn nvmlDeviceGetHandleByUUID(uuid: Words, device: Out<Device>) |now| {
        let found = now.world.find_uuid(&uuid.get()?);
        found.filter(|unit| !now.world.gpus[unit.gpu].is_absent(now.time)).ok_or(Code::NOT_FOUND)
    };
    R390 finder fn nvmlDeviceGetHandleBySerial(serial: Words, device: Out<Device>) |now| {
        let serial = serial.get()?;
        now.world.find_gpu(now.time, |gpu| gpu.scripted.serial.as_deref() == Some(&serial))
    };
    R390 finder fn nvmlDeviceGetHandleByPciBusId(address: Words, device: Out<Device>) |now| by_address(now, address);
    R390 finder fn nvmlDeviceGetHandleByPciBusId_v2(address: Words, device: Out<Device>) |now| by_address(now, address);

    R390 gpu fn nvmlDeviceGetName(device: Device, name: Text, length: Length<c_uint>) |seen| {
        match seen.instance() {
            None => name.set(&seen.gpu().scripted.name, length),
            Some(part) => name.set(&format!("{} MIG {}", seen.gpu().scripted.name, part.scripted.profile), length),
        }
    };
    R390 gpu fn nvmlDeviceGetUUID(device: Device, uuid: Text, length: Length<c_uint>) |seen| {
        uuid.set(seen.world.uuid(seen.unit), length)
    };
    R390 value fn nvmlDeviceGetIndex(device: Device, index: Out<c_uint>) |seen| {
        seen.hardware()?;
        let place = seen.world.present(seen.time).position(|(gpu, _)| gpu == seen.unit.gpu);
        place.map(number).ok_or(Code::GPU_IS_LOST)?
    };
    R390 value fn nvmlDeviceGetMinorNumber(device: Device, minor: Out<c_uint>) |seen| seen.hardware()?.scripted.minor.unwrap_or_default();
    R390 gpu fn nvmlDeviceGetSerial(device: Device, serial: Text, length: Length<c_uint>) |seen| {
        let scripted = seen.sensor()?.scripted.serial.as_deref();
        serial.set(scripted.ok_or(Code::NOT_SUPPORTED)?, length)
    };
    R390 value fn nvmlDeviceGetBoardId(device: Device, board: Out<c_uint>) |seen| {
        let pci = seen.hardware()?.pci;
        pci.domain << 16 | pci.bus << 8 | pci.device
    };
    R390 value fn nvmlDeviceGetBrand(device: Device, brand: Out<c_uint>) |seen| seen.gpu().scripted.brand.unwrap_or(2);
    R450 value fn nvmlDeviceGetArchitecture(device: Device, architecture: Out<c_uint>) |seen| seen.gpu().scripted.architecture.unwrap_or(7);
    R390 gpu fn nvmlDeviceGetCudaComputeCapability(device: Device, major: Out<c_int>, minor: Out<c_int>) |seen| {
        let [first, second] = seen.gpu().scripted.compute_capability.unwrap_or([8, 0]);
        major.set(first)?;
        minor.set(second)
    };
    R390 gpu fn nvmlDeviceGetVbiosVersion(device: Device, version: Text, length: Length<c_uint>) |seen| {
        seen.sensor()?;
        version.set("92.00.45.00.05", length)
    };

    R390 value fn nvmlDeviceGetPciInfo(device: Device, pci: Out<nvmlPciInfo_t>) |seen| pci_info(seen.hardware()?);
    R390 value fn nvmlDeviceGetPciInfo_v2(device: Device, pci: Out<nvmlPciInfo_t>) |seen| pci_info(seen.hardware()?);
    R390 value fn nvmlDeviceGetPciInfo_v3(device: Device, pci: Out<nvmlPciInfo_t>) |seen| pci_info(seen.hardware()?);
    R550 gpu fn nvmlDeviceGetPciInfoExt(device: Device, pci: Out<nvmlPciInfoExt_v1_t>) |seen| {
        let version = check_version(pci.get()?.version, version_of::<nvmlPciInfoExt_v1_t>(1))?;
        let nvmlPciInfo_t { domain, bus, device, pciDeviceId, pciSubSystemId, busId, .. } = pci_info(seen.hardware()?);
        pci.set(nvmlPciInfoExt_v1_t { version, domain, bus, device, pciDeviceId, pciSubSystemId, baseClass: 3, subClass: 2, busId })
    };
}

fn pci_info(gpu: &Gpu) -> nvmlPciInfo_t {
    nvmlPciInfo_t {
        busIdLegacy: fixed(&gpu.pci.short()),
        domain: gpu.pci.domain,
        bus: gpu.pci.bus,
        device: gpu.pci.device,
        pciDeviceId: 0x20b2_10de,
        pciSubSystemId: 0x1463_10de,
        busId: fixed(&gpu.pci.long()),
    }
}

fn by_index(now: &Now, index: c_uint) -> Result<Unit, Code> {
    let place = usize::try_from(index).map_err(|_| Code::INVALID_ARGUMENT)?;
    let gpu = now.world.present(now.time).nth(place);
    gpu.map(|(gpu, _)| Unit::gpu(gpu))
        .ok_or(Code::INVALID_ARGUMENT)
}

fn by_address(now: &Now, address: Words) -> Result<Unit, Code> {
    let address = Address::parse(&address.get()?).ok_or(Code::INVALID_ARGUMENT)?;
    now.world.find_gpu(now.time, |gpu| gpu.pci == address)
}

fn number(count: usize) -> c_uint {
    c_uint::try_from(count).unwrap_or(c_uint::MAX)
}
