//! The records that cross the C boundary, byte for byte as in `nvml.h`.
//!
//! The names are chosen here; the order and the types are the header's. A test compares sizes and offsets with the
//! header.

use std::ffi::{c_char, c_int, c_longlong, c_uint, c_ulonglong};

/// Declares records together with their C names, so that each field can be compared with the header.
macro_rules! records {
    ($($(#[$meta:meta])* $name:ident = $c_name:literal { $($field:ident = $c_field:literal : $type:ty,)* })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub(crate) struct $name { $(pub(crate) $field: $type,)* }

            impl Record for $name { const C_NAME: &'static str = $c_name; }
        )*

        /// Returns the name, size and field offsets of every record, for the comparison with the header.
        pub fn records() -> Vec<RecordShape> {
            vec![$(RecordShape {
                c_name: $c_name,
                size: size_of::<$name>(),
                fields: vec![$(($c_field, std::mem::offset_of!($name, $field)),)*],
            },)*]
        }
    };
}

/// A record with a name in the header.
pub(crate) trait Record {
    const C_NAME: &'static str;
}

/// Expected results of `sizeof` and `offsetof` for a record.
#[derive(Clone, Debug)]
pub struct RecordShape {
    pub c_name: &'static str,
    pub size: usize,
    pub fields: Vec<(&'static str, usize)>,
}

records! {
    PciInfo = "nvmlPciInfo_t" {
        bus_id_legacy = "busIdLegacy": [c_char; 16],
        domain = "domain": c_uint,
        bus = "bus": c_uint,
        device = "device": c_uint,
        pci_device_id = "pciDeviceId": c_uint,
        pci_sub_system_id = "pciSubSystemId": c_uint,
        bus_id = "busId": [c_char; 32],
    }
    PciInfoExt = "nvmlPciInfoExt_v1_t" {
        version = "version": c_uint,
        domain = "domain": c_uint,
        bus = "bus": c_uint,
        device = "device": c_uint,
        pci_device_id = "pciDeviceId": c_uint,
        pci_sub_system_id = "pciSubSystemId": c_uint,
        base_class = "baseClass": c_uint,
        sub_class = "subClass": c_uint,
        bus_id = "busId": [c_char; 32],
    }
    Memory = "nvmlMemory_t" {
        total = "total": c_ulonglong,
        free = "free": c_ulonglong,
        used = "used": c_ulonglong,
    }
    MemoryV2 = "nvmlMemory_v2_t" {
        version = "version": c_uint,
        total = "total": c_ulonglong,
        reserved = "reserved": c_ulonglong,
        free = "free": c_ulonglong,
        used = "used": c_ulonglong,
    }
    Bar1Memory = "nvmlBAR1Memory_t" {
        total = "bar1Total": c_ulonglong,
        free = "bar1Free": c_ulonglong,
        used = "bar1Used": c_ulonglong,
    }
    Utilization = "nvmlUtilization_t" {
        gpu = "gpu": c_uint,
        memory = "memory": c_uint,
    }
    /// The 16-byte record of the oldest lists.
    ProcessV1 = "nvmlProcessInfo_v1_t" {
        pid = "pid": c_uint,
        used_memory = "usedGpuMemory": c_ulonglong,
    }
    /// The 24-byte record of the v2 lists.
    ProcessV2 = "nvmlProcessInfo_v2_t" {
        pid = "pid": c_uint,
        used_memory = "usedGpuMemory": c_ulonglong,
        gpu_instance = "gpuInstanceId": c_uint,
        compute_instance = "computeInstanceId": c_uint,
    }
    /// The same 24 bytes under the name that the v3 lists use.
    ProcessV3 = "nvmlProcessInfo_t" {
        pid = "pid": c_uint,
        used_memory = "usedGpuMemory": c_ulonglong,
        gpu_instance = "gpuInstanceId": c_uint,
        compute_instance = "computeInstanceId": c_uint,
    }
    /// 32-byte record. Drivers 535.43 to 535.86 returned the v3 lists with exactly this record, which later headers
    /// keep for `nvmlDeviceGetRunningProcessDetailList`.
    ProcessDetail = "nvmlProcessDetail_v1_t" {
        pid = "pid": c_uint,
        used_memory = "usedGpuMemory": c_ulonglong,
        gpu_instance = "gpuInstanceId": c_uint,
        compute_instance = "computeInstanceId": c_uint,
        protected_memory = "usedGpuCcProtectedMemory": c_ulonglong,
    }
    ProcessDetailList = "nvmlProcessDetailList_v1_t" {
        version = "version": c_uint,
        mode = "mode": c_uint,
        count = "numProcArrayEntries": c_uint,
        list = "procArray": *mut ProcessDetail,
    }
    Sample = "nvmlSample_t" {
        time_stamp = "timeStamp": c_ulonglong,
        value = "sampleValue": SampleValue,
    }
    ProcessSample = "nvmlProcessUtilizationSample_t" {
        pid = "pid": c_uint,
        time_stamp = "timeStamp": c_ulonglong,
        sm = "smUtil": c_uint,
        memory = "memUtil": c_uint,
        encoder = "encUtil": c_uint,
        decoder = "decUtil": c_uint,
    }
    ProcessUtilization = "nvmlProcessUtilizationInfo_v1_t" {
        time_stamp = "timeStamp": c_ulonglong,
        pid = "pid": c_uint,
        sm = "smUtil": c_uint,
        memory = "memUtil": c_uint,
        encoder = "encUtil": c_uint,
        decoder = "decUtil": c_uint,
        jpeg = "jpgUtil": c_uint,
        optical_flow = "ofaUtil": c_uint,
    }
    ProcessesUtilization = "nvmlProcessesUtilizationInfo_v1_t" {
        version = "version": c_uint,
        count = "processSamplesCount": c_uint,
        last_seen = "lastSeenTimeStamp": c_ulonglong,
        list = "procUtilArray": *mut ProcessUtilization,
    }
    FieldValue = "nvmlFieldValue_t" {
        field = "fieldId": c_uint,
        scope = "scopeId": c_uint,
        time_stamp = "timestamp": c_longlong,
        latency_us = "latencyUsec": c_longlong,
        value_type = "valueType": c_uint,
        code = "nvmlReturn": c_uint,
        value = "value": SampleValue,
    }
    Attributes = "nvmlDeviceAttributes_t" {
        multiprocessors = "multiprocessorCount": c_uint,
        copy_engines = "sharedCopyEngineCount": c_uint,
        decoders = "sharedDecoderCount": c_uint,
        encoders = "sharedEncoderCount": c_uint,
        jpeg_engines = "sharedJpegCount": c_uint,
        optical_flow_engines = "sharedOfaCount": c_uint,
        gpu_slices = "gpuInstanceSliceCount": c_uint,
        compute_slices = "computeInstanceSliceCount": c_uint,
        memory_mib = "memorySizeMB": c_ulonglong,
    }
    EccCounts = "nvmlEccErrorCounts_t" {
        l1_cache = "l1Cache": c_ulonglong,
        l2_cache = "l2Cache": c_ulonglong,
        device_memory = "deviceMemory": c_ulonglong,
        register_file = "registerFile": c_ulonglong,
    }
    Temperature = "nvmlTemperature_v1_t" {
        version = "version": c_uint,
        sensor = "sensorType": c_uint,
        celsius = "temperature": c_int,
    }
    ProtectedMemory = "nvmlConfComputeMemSizeInfo_t" {
        protected_kib = "protectedMemSizeKib": c_ulonglong,
        unprotected_kib = "unprotectedMemSizeKib": c_ulonglong,
    }
    FanSpeed = "nvmlFanSpeedInfo_t" {
        version = "version": c_uint,
        fan = "fan": c_uint,
        rpm = "speed": c_uint,
    }
}

/// `nvmlValue_t`, a union of eight bytes. Every member starts at byte 0, so on the little-endian machines that the
/// driver supports a number of any width can be stored in its widest form.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleValue(pub(crate) c_ulonglong);

/// The header's `nvmlValueType_t`.
pub(crate) mod value_type {
    use std::ffi::c_uint;

    pub(crate) const UNSIGNED_INT: c_uint = 1;
    pub(crate) const UNSIGNED_LONG_LONG: c_uint = 3;
}

/// Returns the version word that a caller writes into a versioned record.
#[expect(
    clippy::cast_possible_truncation,
    reason = "records are far below 2^24 bytes"
)]
pub(crate) const fn version_of<T>(number: c_uint) -> c_uint {
    size_of::<T>() as c_uint | number << 24
}

/// Copies `text` into a fixed field, truncated so that it is always NUL-terminated.
pub(crate) fn fixed<const N: usize>(text: &str) -> [c_char; N] {
    let mut field = [0; N];
    for (slot, byte) in field.iter_mut().zip(text.bytes().take(N.saturating_sub(1))) {
        *slot = c_char::from_ne_bytes([byte]);
    }
    field
}
