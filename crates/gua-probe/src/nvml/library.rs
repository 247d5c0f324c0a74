//! Loads the NVML library by its soname or a path, and calls it. One owner, never shared between threads.
//!
//! Prototypes and layouts come from nvml-wrapper-sys. A missing symbol returns the same code as a function that the
//! driver does not implement, so that callers have one case to handle.
#![expect(unsafe_code, reason = "the driver library is C")]

use std::cell::RefCell;
use std::ffi::{CStr, OsStr, c_char};
use std::marker::PhantomData;
use std::path::Path;
use std::{mem, ptr};

use gua_model::sample::Switch;
use gua_model::text::sanitize;
use gua_model::{Bytes, GpuUuid, PciId};
use nvml_wrapper_sys::bindings as sys;

use super::code::Code;
use super::lists::Lists;
use crate::fault::DriverFault;

/// Soname of the library in every NVIDIA driver since 2012.
pub(crate) const SONAME: &str = "libnvidia-ml.so.1";

/// An open library. Shut down, if it was initialised, and unloaded when dropped.
pub(crate) struct Library {
    pub(super) raw: sys::NvmlLib,
    pub(super) lists: RefCell<Lists>,
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

/// Calls a function that writes its answer through its last parameter, and returns the answer.
macro_rules! answer {
    ($library:expr, $symbol:ident $(or $older:ident)? ($($argument:expr),*)) => {{
        // SAFETY: answers are numbers, characters and pointers of C, for which all zeros is a valid value.
        let mut answer = unsafe { mem::zeroed() };
        call!($library, $symbol $(or $older)? ($($argument,)* &mut answer)).map(|()| answer)
    }};
}

/// A function of the library that returns one value about a device.
pub(super) struct Query<T> {
    /// Name of the function in problems.
    pub(super) name: &'static str,
    pub(super) ask: fn(&Library, Device) -> Result<T, Code>,
}

/// Declares queries. A query names its function, and optionally an older function for drivers that lack it, a pending value
/// that the function writes after the current one, and arguments between the device and the answer.
macro_rules! queries {
    ($($name:ident: $type:ty = $symbol:ident $(or $older:ident)? $([$pending:ident])? ($($argument:expr),*);)*) => { $(
        pub(super) const $name: Query<$type> = Query {
            name: stringify!($symbol),
            ask: |library, device| {
                queries!(@ library, device, $symbol $(or $older)? $([$pending])? ($($argument),*))
            },
        };
    )* };
    (@ $library:ident, $device:ident, $symbol:ident [$pending:ident] ()) => {{
        let (mut current, mut $pending) = (0, 0);
        call!($library, $symbol($device.0, &mut current, &mut $pending)).map(|()| current)
    }};
    (@ $library:ident, $device:ident, $symbol:ident $(or $older:ident)? ($($argument:expr),*)) => {
        answer!($library, $symbol $(or $older)? ($device.0 $(, $argument)*))
    };
}

const SENSOR: sys::nvmlTemperatureSensors_t = sys::nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU;
const SM: sys::nvmlClockType_t = sys::nvmlClockType_enum_NVML_CLOCK_SM;
const MEMORY: sys::nvmlClockType_t = sys::nvmlClockType_enum_NVML_CLOCK_MEM;
const CORRECTED: sys::nvmlMemoryErrorType_t =
    sys::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_CORRECTED;
const UNCORRECTED: sys::nvmlMemoryErrorType_t =
    sys::nvmlMemoryErrorType_enum_NVML_MEMORY_ERROR_TYPE_UNCORRECTED;
const SINCE_LOAD: sys::nvmlEccCounterType_t = sys::nvmlEccCounterType_enum_NVML_VOLATILE_ECC;

queries! {
    PCI: sys::nvmlPciInfo_t = nvmlDeviceGetPciInfo_v3 or nvmlDeviceGetPciInfo_v2();
    UTILISATION: sys::nvmlUtilization_t = nvmlDeviceGetUtilizationRates();
    TEMPERATURE: u32 = nvmlDeviceGetTemperature(SENSOR);
    POWER: u32 = nvmlDeviceGetPowerUsage();
    POWER_LIMIT: u32 = nvmlDeviceGetEnforcedPowerLimit or nvmlDeviceGetPowerManagementLimit();
    ENERGY: u64 = nvmlDeviceGetTotalEnergyConsumption();
    SM_CLOCK: u32 = nvmlDeviceGetClockInfo(SM);
    MEMORY_CLOCK: u32 = nvmlDeviceGetClockInfo(MEMORY);
    FAN_SPEED: u32 = nvmlDeviceGetFanSpeed();
    PERFORMANCE_STATE: u32 = nvmlDeviceGetPerformanceState();
    // The older name is the only one before driver 535.
    THROTTLE: u64 = nvmlDeviceGetCurrentClocksEventReasons or nvmlDeviceGetCurrentClocksThrottleReasons();
    ECC_MODE: u32 = nvmlDeviceGetEccMode[pending]();
    ECC_CORRECTED: u64 = nvmlDeviceGetTotalEccErrors(CORRECTED, SINCE_LOAD);
    ECC_UNCORRECTED: u64 = nvmlDeviceGetTotalEccErrors(UNCORRECTED, SINCE_LOAD);
    RETIREMENT_PENDING: u32 = nvmlDeviceGetRetiredPagesPendingStatus();
    PERSISTENCE: u32 = nvmlDeviceGetPersistenceMode();
    COMPUTE_MODE: u32 = nvmlDeviceGetComputeMode();
    MIG_MODE: u32 = nvmlDeviceGetMigMode[pending]();
    MAX_INSTANCES: u32 = nvmlDeviceGetMaxMigDeviceCount();
    GPU_INSTANCE: u32 = nvmlDeviceGetGpuInstanceId();
    COMPUTE_INSTANCE: u32 = nvmlDeviceGetComputeInstanceId();
    ATTRIBUTES: sys::nvmlDeviceAttributes_t = nvmlDeviceGetAttributes_v2 or nvmlDeviceGetAttributes();
}

pub(super) fn check(code: sys::nvmlReturn_t) -> Result<(), Code> {
    if code == sys::nvmlReturn_enum_NVML_SUCCESS {
        Ok(())
    } else {
        Err(Code(code))
    }
}

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
            lists: RefCell::default(),
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
            return "an impossible value".to_owned();
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
        let version =
            answer!(self, nvmlSystemGetCudaDriverVersion_v2 or nvmlSystemGetCudaDriverVersion())?;
        let version = u32::try_from(version).map_err(|_| Code::IMPLAUSIBLE)?;
        let version = at_most(999_999)(version)?;
        Ok((version / 1000, version % 1000 / 10))
    }

    pub(crate) fn count(&self) -> Result<u32, Code> {
        answer!(self, nvmlDeviceGetCount_v2 or nvmlDeviceGetCount()).and_then(at_most(1024))
    }

    pub(crate) fn device(&self, index: u32) -> Result<Device, Code> {
        answer!(self, nvmlDeviceGetHandleByIndex_v2 or nvmlDeviceGetHandleByIndex(index))
            .map(Device)
    }

    pub(crate) fn mig_device(&self, parent: Device, index: u32) -> Result<Device, Code> {
        answer!(self, nvmlDeviceGetMigDeviceHandleByIndex(parent.0, index)).map(Device)
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
                    let info = answer!(self, nvmlDeviceGetMemoryInfo(device.0))?;
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
            (1..=MAX_MEMORY).contains(&memory.total.0)
                && memory.used <= memory.total
                && memory
                    .reserved
                    .is_none_or(|reserved| reserved <= memory.total)
        })
    }

    /// Returns whether rows of the memory wait for a remapping, and whether one failed.
    pub(crate) fn remapped_rows(&self, device: Device) -> Result<(Switch, Switch), Code> {
        let mut rows = [0; 4];
        let [corrected, uncorrected, pending, failed] = &mut rows;
        call!(
            self,
            nvmlDeviceGetRemappedRows(device.0, corrected, uncorrected, pending, failed)
        )?;
        Ok((switch(*pending)?, switch(*failed)?))
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

/// Most memory that any GPU has.
pub(super) const MAX_MEMORY: u64 = 1 << 50;

/// Rejects an impossible value.
pub(super) fn plausible<T>(value: T, is_plausible: impl FnOnce(&T) -> bool) -> Result<T, Code> {
    match is_plausible(&value) {
        true => Ok(value),
        false => Err(Code::IMPLAUSIBLE),
    }
}

/// Returns a check that rejects larger values, which exceed any hardware.
pub(super) fn at_most<T: PartialOrd>(most: T) -> impl FnOnce(T) -> Result<T, Code> {
    move |value| plausible(value, |value| *value <= most)
}

pub(super) fn pci_id(info: sys::nvmlPciInfo_t) -> Result<PciId, Code> {
    let byte = |number| u8::try_from(number).map_err(|_| Code::IMPLAUSIBLE);
    Ok(PciId {
        domain: info.domain,
        bus: byte(info.bus)?,
        device: byte(info.device)?,
    })
}

pub(super) fn switch(value: u32) -> Result<Switch, Code> {
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
