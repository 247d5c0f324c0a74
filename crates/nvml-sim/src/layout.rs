//! The records that cross the C boundary. Their layouts are those of nvml-wrapper-sys, which are generated from `nvml.h`;
//! a test compares the sizes and offsets with the header again.

use std::ffi::{c_char, c_uint};

use nvml_wrapper_sys::bindings as sys;

use crate::foreign::Named;

/// Declares records and their fields, so that each can be compared with the header.
macro_rules! records {
    ($($name:ident { $($field:ident),* })*) => {
        $(impl Named for sys::$name { const NAME: &'static str = stringify!($name); })*

        /// Returns the name, size and field offsets of every record, for the comparison with the header.
        pub fn records() -> Vec<RecordShape> {
            vec![$(RecordShape {
                c_name: stringify!($name),
                size: size_of::<sys::$name>(),
                fields: vec![$((stringify!($field), std::mem::offset_of!(sys::$name, $field)),)*],
            },)*]
        }
    };
}

/// Expected results of `sizeof` and `offsetof` for a record.
#[derive(Clone, Debug)]
pub struct RecordShape {
    pub c_name: &'static str,
    pub size: usize,
    pub fields: Vec<(&'static str, usize)>,
}

records! {
    nvmlPciInfo_t { busIdLegacy, domain, bus, device, pciDeviceId, pciSubSystemId, busId }
    nvmlPciInfoExt_v1_t { version, domain, bus, device, pciDeviceId, pciSubSystemId, baseClass, subClass, busId }
    nvmlMemory_t { total, free, used }
    nvmlMemory_v2_t { version, total, reserved, free, used }
    nvmlBAR1Memory_t { bar1Total, bar1Free, bar1Used }
    nvmlUtilization_t { gpu, memory }
    // The 16-byte record of the oldest lists, the 24-byte record of the v2 and v3 lists, and a 32-byte record. Drivers
    // 535.43 to 535.86 returned the v3 lists with the last one, which later headers keep for
    // `nvmlDeviceGetRunningProcessDetailList`.
    nvmlProcessInfo_v1_t { pid, usedGpuMemory }
    nvmlProcessInfo_v2_t { pid, usedGpuMemory, gpuInstanceId, computeInstanceId }
    nvmlProcessDetail_v1_t { pid, usedGpuMemory, gpuInstanceId, computeInstanceId, usedGpuCcProtectedMemory }
    nvmlProcessDetailList_v1_t { version, mode, numProcArrayEntries, procArray }
    nvmlSample_t { timeStamp, sampleValue }
    nvmlProcessUtilizationSample_t { pid, timeStamp, smUtil, memUtil, encUtil, decUtil }
    nvmlProcessUtilizationInfo_v1_t { timeStamp, pid, smUtil, memUtil, encUtil, decUtil, jpgUtil, ofaUtil }
    nvmlProcessesUtilizationInfo_v1_t { version, processSamplesCount, lastSeenTimeStamp, procUtilArray }
    nvmlFieldValue_t { fieldId, scopeId, timestamp, latencyUsec, valueType, nvmlReturn, value }
    nvmlDeviceAttributes_t {
        multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount,
        gpuInstanceSliceCount, computeInstanceSliceCount, memorySizeMB
    }
    nvmlEccErrorCounts_t { l1Cache, l2Cache, deviceMemory, registerFile }
    nvmlTemperature_v1_t { version, sensorType, temperature }
    nvmlConfComputeMemSizeInfo_t { protectedMemSizeKib, unprotectedMemSizeKib }
    nvmlFanSpeedInfo_t { version, fan, speed }
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
