//! Loads the NVML library by its soname or a path, and calls it. One owner, never shared between threads.
//!
//! Prototypes and layouts come from nvml-wrapper-sys. A missing symbol returns the same code as a function that the
//! driver does not implement, so that callers have one case to handle.
#![expect(unsafe_code, reason = "the driver library is C")]

use std::ffi::{CStr, OsStr, c_char};
use std::marker::PhantomData;
use std::path::Path;
use std::{mem, ptr};

use gua_model::sample::{ComputeMode, Switch};
use gua_model::text::sanitize;
use gua_model::{Bytes, GpuUuid, PciId};
use nvml_wrapper_sys::bindings as sys;

use super::code::Code;
use crate::fault::DriverFault;

/// Soname of the library in every NVIDIA driver since 2012.
pub(crate) const SONAME: &str = "libnvidia-ml.so.1";

/// An open library. Shut down, if it was initialised, and unloaded when dropped.
pub(crate) struct Library {
    pub(super) raw: sys::NvmlLib,
    is_initialised: bool,
    /// Makes the type `!Send`: concurrent callers of NVML have crashed hosts.
    _one_owner: PhantomData<*mut ()>,
}

/// Handle of a GPU or a MIG instance, valid while its [`Library`] is open.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Device(pub(super) sys::nvmlDevice_t);

/// Memory of a GPU. `reserved` is `None` where the driver counts it as used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) total: Bytes,
    pub(crate) used: Bytes,
    pub(crate) reserved: Option<Bytes>,
}

/// Calls a function of the library and converts its return code. `call!(library, newer or older (arguments))` calls the
/// older function where the driver does not support the newer one.
macro_rules! call {
    ($library:expr, $newer:ident or $older:ident $arguments:tt) => {
        match call!($library, $newer $arguments) {
            Err(code) if code.is_unsupported_version() => call!($library, $older $arguments),
            answer => answer,
        }
    };
    ($library:expr, $symbol:ident($($argument:expr),*)) => {
        match &$library.raw.$symbol {
            // SAFETY: the symbol was resolved from the open library with the prototype of its header; every pointer
            // passed is valid for the call and large enough for what the prototype lets the driver write.
            Ok(function) => super::library::check(unsafe { function($($argument),*) }),
            Err(_) => Err(Code::FUNCTION_NOT_FOUND),
        }
    };
}
pub(super) use call;

pub(super) fn check(code: sys::nvmlReturn_t) -> Result<(), Code> {
    if code == sys::nvmlReturn_enum_NVML_SUCCESS {
        Ok(())
    } else {
        Err(Code(code))
    }
}

/// A function of the library that writes one value about a device; an error if the library lacks it.
type Getter<T, E> = Result<unsafe extern "C" fn(sys::nvmlDevice_t, *mut T) -> sys::nvmlReturn_t, E>;

impl Library {
    /// Loads and initialises the library at `path`, or by its soname.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, DriverFault> {
        let name = path.map_or(OsStr::new(SONAME), Path::as_os_str);
        let library = name.to_string_lossy().into_owned();
        // A bare name is found by the system's loader, in directories of root.
        let named = path.filter(|path| path.as_os_str().as_encoded_bytes().contains(&b'/'));
        if let Err(untrusted) = named.map_or(Ok(()), gua_files::safe_for_root) {
            let detail = format!("root does not load it: {}", untrusted.reason);
            return Err(DriverFault::NotADriver { library, detail });
        }
        // SAFETY: loading runs the library's initialisers. It is the driver's own library, or the one that the user
        // named in its place.
        let raw = unsafe { sys::NvmlLib::new(name) }.map_err(|error| {
            let detail = detail_of(&error);
            // A path that is there but does not load is not missing; a bare soname that does not load is.
            let absent = path.is_none_or(|path| !path.exists()) && detail.contains("No such file");
            let library = library.clone();
            match absent {
                true => DriverFault::LibraryNotFound { library, detail },
                false => DriverFault::NotADriver { library, detail },
            }
        })?;
        if raw.nvmlInit_v2.is_err() && raw.nvmlInit.is_err() {
            let detail = "it has no function nvmlInit".to_owned();
            return Err(DriverFault::NotADriver { library, detail });
        }
        let mut library = Self {
            raw,
            is_initialised: false,
            _one_owner: PhantomData,
        };
        call!(library, nvmlInit_v2 or nvmlInit()).map_err(|code| DriverFault::Init {
            code: code.0,
            text: library.text(code),
        })?;
        library.is_initialised = true;
        Ok(library)
    }

    /// Returns the driver's description of a code.
    pub(crate) fn text(&self, code: Code) -> String {
        if code == Code::IMPLAUSIBLE {
            return "an answer that cannot be true".to_owned();
        }
        let text = match &self.raw.nvmlErrorString {
            // SAFETY: the function takes any number and returns a pointer to a static text, or NULL.
            Ok(function) => unsafe { function(code.0) },
            Err(_) => ptr::null(),
        };
        if text.is_null() {
            return format!("NVML code {}", code.0);
        }
        // SAFETY: not NULL, and the driver promises a terminated static text.
        let text = unsafe { CStr::from_ptr(text) };
        sanitize(&text.to_string_lossy())
    }

    pub(crate) fn driver_version(&self) -> Result<String, Code> {
        self.string::<80>(|buffer, length| call!(self, nvmlSystemGetDriverVersion(buffer, length)))
    }

    pub(crate) fn cuda_version(&self) -> Result<(u32, u32), Code> {
        let mut version = 0;
        call!(self, nvmlSystemGetCudaDriverVersion_v2 or nvmlSystemGetCudaDriverVersion(&mut version))?;
        let version = u32::try_from(version).map_err(|_| Code::IMPLAUSIBLE)?;
        let version = plausible(version, |version| *version < 1_000_000)?;
        Ok((version / 1000, version % 1000 / 10))
    }

    pub(crate) fn count(&self) -> Result<u32, Code> {
        let mut count = 0;
        call!(self, nvmlDeviceGetCount_v2 or nvmlDeviceGetCount(&mut count))?;
        plausible(count, |count| *count <= 1024)
    }

    pub(crate) fn device(&self, index: u32) -> Result<Device, Code> {
        let mut device = ptr::null_mut();
        call!(self, nvmlDeviceGetHandleByIndex_v2 or nvmlDeviceGetHandleByIndex(index, &mut device))?;
        Ok(Device(device))
    }

    pub(crate) fn mig_device(&self, parent: Device, index: u32) -> Result<Device, Code> {
        let mut device = ptr::null_mut();
        call!(
            self,
            nvmlDeviceGetMigDeviceHandleByIndex(parent.0, index, &mut device)
        )?;
        Ok(Device(device))
    }

    pub(crate) fn uuid(&self, device: Device) -> Result<GpuUuid, Code> {
        let uuid = self.string::<96>(|buffer, length| {
            call!(self, nvmlDeviceGetUUID(device.0, buffer, length))
        })?;
        uuid.parse().map_err(|_| Code::IMPLAUSIBLE)
    }

    pub(crate) fn name(&self, device: Device) -> Result<String, Code> {
        self.string::<96>(|buffer, length| call!(self, nvmlDeviceGetName(device.0, buffer, length)))
    }

    pub(crate) fn pci(&self, device: Device) -> Result<PciId, Code> {
        // SAFETY: plain numbers and characters; all zeros is a valid value.
        let mut info: sys::nvmlPciInfo_t = unsafe { mem::zeroed() };
        call!(self, nvmlDeviceGetPciInfo_v3 or nvmlDeviceGetPciInfo_v2(device.0, &mut info))?;
        let bus = u8::try_from(info.bus).map_err(|_| Code::IMPLAUSIBLE)?;
        let device = u8::try_from(info.device).map_err(|_| Code::IMPLAUSIBLE)?;
        Ok(PciId {
            domain: info.domain,
            bus,
            device,
        })
    }

    /// Reads the memory, with reserved memory separate if the driver reports it.
    pub(crate) fn memory(&self, device: Device) -> Result<Memory, Code> {
        // SAFETY: plain numbers; all zeros is a valid value.
        let mut info: sys::nvmlMemory_v2_t = unsafe { mem::zeroed() };
        // The header's rule for versioned structures: the size, and the version in the top byte.
        info.version = u32::try_from(size_of_val(&info)).expect("40 bytes fit") | (2 << 24);
        let (total, used, reserved) =
            match call!(self, nvmlDeviceGetMemoryInfo_v2(device.0, &mut info)) {
                Ok(()) => (info.total, info.used, Some(info.reserved)),
                Err(code) if code.is_unsupported_version() || code == Code::INVALID_ARGUMENT => {
                    // SAFETY: plain numbers; all zeros is a valid value.
                    let mut info: sys::nvmlMemory_t = unsafe { mem::zeroed() };
                    call!(self, nvmlDeviceGetMemoryInfo(device.0, &mut info))?;
                    (info.total, info.used, None)
                }
                Err(code) => return Err(code),
            };
        let memory = Memory {
            total: Bytes(total),
            used: Bytes(used),
            reserved: reserved.map(Bytes),
        };
        plausible(memory, |memory| {
            // Some drivers report success and no memory at all while they start.
            (1..=MOST_MEMORY).contains(&memory.total.0)
                && memory.used <= memory.total
                && memory
                    .reserved
                    .is_none_or(|reserved| reserved <= memory.total)
        })
    }

    /// Returns the utilisation of the GPU and of its memory controller, unchecked.
    pub(crate) fn utilisation(&self, device: Device) -> Result<(u32, u32), Code> {
        // SAFETY: plain numbers; all zeros is a valid value.
        let mut rates: sys::nvmlUtilization_t = unsafe { mem::zeroed() };
        call!(self, nvmlDeviceGetUtilizationRates(device.0, &mut rates))?;
        Ok((rates.gpu, rates.memory))
    }

    pub(crate) fn temperature(&self, device: Device) -> Result<u32, Code> {
        let mut value = 0;
        let sensor = sys::nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU;
        call!(self, nvmlDeviceGetTemperature(device.0, sensor, &mut value))?;
        Ok(value)
    }

    /// Calls a function that writes one value.
    pub(super) fn get<T: Default, E>(
        &self,
        function: &Getter<T, E>,
        device: Device,
    ) -> Result<T, Code> {
        let Ok(function) = function else {
            return Err(Code::FUNCTION_NOT_FOUND);
        };
        let mut value = T::default();
        // SAFETY: every function of this type in the library's header takes a device and writes one value through the
        // pointer; `value` is valid for that.
        check(unsafe { function(device.0, &mut value) })?;
        Ok(value)
    }

    /// Calls `newer`, or `older` where the driver does not support it.
    pub(super) fn get_or<T: Default, E>(
        &self,
        newer: &Getter<T, E>,
        older: &Getter<T, E>,
        device: Device,
    ) -> Result<T, Code> {
        match self.get(newer, device) {
            Err(code) if code.is_unsupported_version() => self.get(older, device),
            answer => answer,
        }
    }

    /// Returns a clock by its number in the header.
    pub(super) fn clock(&self, device: Device, clock: sys::nvmlClockType_t) -> Result<u32, Code> {
        let mut value = 0;
        call!(self, nvmlDeviceGetClockInfo(device.0, clock, &mut value))?;
        Ok(value)
    }

    pub(crate) fn performance_state(&self, device: Device) -> Result<u8, Code> {
        let state = self.get(&self.raw.nvmlDeviceGetPerformanceState, device)?;
        match u8::try_from(state) {
            Ok(state @ 0..=15) => Ok(state),
            // NVML_PSTATE_UNKNOWN.
            Ok(32) => Err(Code::NOT_SUPPORTED),
            _ => Err(Code::IMPLAUSIBLE),
        }
    }

    pub(crate) fn ecc_mode(&self, device: Device) -> Result<Switch, Code> {
        let (mut current, mut pending) = (0, 0);
        call!(
            self,
            nvmlDeviceGetEccMode(device.0, &mut current, &mut pending)
        )?;
        switch(current)
    }

    pub(crate) fn mig_mode(&self, device: Device) -> Result<Switch, Code> {
        let (mut current, mut pending) = (0, 0);
        call!(
            self,
            nvmlDeviceGetMigMode(device.0, &mut current, &mut pending)
        )?;
        switch(current)
    }

    /// Returns the errors of a kind of the header since the driver was loaded.
    pub(crate) fn ecc_errors(
        &self,
        device: Device,
        kind: sys::nvmlMemoryErrorType_t,
    ) -> Result<u64, Code> {
        let since_load = sys::nvmlEccCounterType_enum_NVML_VOLATILE_ECC;
        let mut count = 0;
        call!(
            self,
            nvmlDeviceGetTotalEccErrors(device.0, kind, since_load, &mut count)
        )?;
        Ok(count)
    }

    /// Returns whether rows of the memory wait for a remapping, and whether one failed.
    pub(crate) fn remapped_rows(&self, device: Device) -> Result<RemappedRows, Code> {
        let (mut corrected, mut uncorrected, mut pending, mut failed) = (0, 0, 0, 0);
        call!(
            self,
            nvmlDeviceGetRemappedRows(
                device.0,
                &mut corrected,
                &mut uncorrected,
                &mut pending,
                &mut failed
            )
        )?;
        Ok(RemappedRows {
            pending: switch(pending)? == Switch::On,
            failed: switch(failed)? == Switch::On,
        })
    }

    /// Returns whether pages of the memory wait for a reboot to be retired.
    pub(crate) fn retirement_pending(&self, device: Device) -> Result<Switch, Code> {
        switch(self.get(&self.raw.nvmlDeviceGetRetiredPagesPendingStatus, device)?)
    }

    pub(crate) fn persistence(&self, device: Device) -> Result<Switch, Code> {
        switch(self.get(&self.raw.nvmlDeviceGetPersistenceMode, device)?)
    }

    pub(crate) fn compute_mode(&self, device: Device) -> Result<ComputeMode, Code> {
        let mode = self.get(&self.raw.nvmlDeviceGetComputeMode, device)?;
        Ok(match mode {
            0 => ComputeMode::Default,
            1 => ComputeMode::ExclusiveThread,
            2 => ComputeMode::Prohibited,
            3 => ComputeMode::ExclusiveProcess,
            other => ComputeMode::Other(other),
        })
    }

    /// Returns the compute slices of a MIG instance: two compute instances in one GPU instance are not counted twice.
    pub(crate) fn slices(&self, instance: Device) -> Result<u32, Code> {
        // SAFETY: plain numbers; all zeros is a valid value.
        let mut attributes: sys::nvmlDeviceAttributes_t = unsafe { mem::zeroed() };
        call!(self, nvmlDeviceGetAttributes_v2 or nvmlDeviceGetAttributes(instance.0, &mut attributes))?;
        Ok(match attributes.computeInstanceSliceCount {
            0 => attributes.gpuInstanceSliceCount,
            slices => slices,
        })
    }

    fn string<const LENGTH: usize>(
        &self,
        fill: impl FnOnce(*mut c_char, u32) -> Result<(), Code>,
    ) -> Result<String, Code> {
        let mut buffer = [0u8; LENGTH];
        fill(
            buffer.as_mut_ptr().cast(),
            u32::try_from(LENGTH).expect("buffers are short"),
        )?;
        let text = CStr::from_bytes_until_nul(&buffer).map_err(|_| Code::IMPLAUSIBLE)?;
        let text = text.to_str().map_err(|_| Code::IMPLAUSIBLE)?;
        Ok(sanitize(text))
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if self.is_initialised {
            // The library is unloaded next, whatever this returns.
            let _ = call!(self, nvmlShutdown());
        }
    }
}

/// State of the remapping of memory rows.
pub(crate) struct RemappedRows {
    pub(crate) pending: bool,
    pub(crate) failed: bool,
}

/// Most memory that any GPU has.
pub(super) const MOST_MEMORY: u64 = 1 << 50;

/// Rejects a value that cannot be true.
pub(super) fn plausible<T>(value: T, is_plausible: impl FnOnce(&T) -> bool) -> Result<T, Code> {
    match is_plausible(&value) {
        true => Ok(value),
        false => Err(Code::IMPLAUSIBLE),
    }
}

fn switch(value: u32) -> Result<Switch, Code> {
    match value {
        0 => Ok(Switch::Off),
        1 => Ok(Switch::On),
        _ => Err(Code::IMPLAUSIBLE),
    }
}

/// Returns the loader's message without libloading's prefix.
fn detail_of(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    sanitize(text.trim_start_matches("dlopen failed: "))
}
