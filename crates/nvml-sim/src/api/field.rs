//! Field values: the driver's generic interface for readings. A few fields are simulated; the rest are not supported.

use std::ffi::{c_int, c_longlong, c_uint};

use nvml_wrapper_sys::bindings::{
    nvmlFieldValue_t, nvmlValue_t, nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT as UNSIGNED_INT,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG as UNSIGNED_LONG_LONG,
};

use crate::api::reading::ecc_errors;
use crate::call::{Seen, exports};
use crate::code::Code;
use crate::foreign::{Argument as _, Array, Device, Length};
use crate::world::whole;

exports! {
    R390 gpu fn nvmlDeviceGetFieldValues(device: Device, count: Length<c_int>, values: Array<nvmlFieldValue_t>) |seen| {
        let count = count.capacity().filter(|count| *count > 0).ok_or(Code::INVALID_ARGUMENT)?;
        let timestamp = c_longlong::try_from(seen.world.stamp(seen.time)).unwrap_or(c_longlong::MAX);
        let answer = |asked: nvmlFieldValue_t| {
            let asked = nvmlFieldValue_t { timestamp, latencyUsec: 0, ..asked };
            match field(seen, asked.fieldId) {
                Ok((valueType, ullVal)) => nvmlFieldValue_t { valueType, nvmlReturn: Code::SUCCESS.0, value: nvmlValue_t { ullVal }, ..asked },
                Err(code) => nvmlFieldValue_t { nvmlReturn: code.0, ..asked },
            }
        };
        let answers: Vec<_> = values.read(count)?.into_iter().map(answer).collect();
        values.write(&answers)
    };
}

/// Returns the type and value of a field, by its number in the header. Every member of `nvmlValue_t` starts at byte 0, so
/// on the little-endian machines that the driver supports a number of any width can be stored in its widest form.
fn field(seen: &Seen, number: c_uint) -> Result<(c_uint, u64), Code> {
    let (int, long) = (UNSIGNED_INT, UNSIGNED_LONG_LONG);
    let milliwatts = |watts: f64| whole(watts * 1000.0);
    let gpu = seen.sensor()?;
    match number {
        3 | 5 => Ok((long, ecc_errors(seen, 0)?)),
        4 | 6 => Ok((long, ecc_errors(seen, 1)?)),
        82 => Ok((
            int,
            whole(seen.read(|sensors| &sensors.memory_temperature_c)?),
        )),
        83 | 191 => Ok((long, gpu.energy_mj(seen.time)?)),
        185 | 186 => Ok((int, milliwatts(seen.read(|sensors| &sensors.power_w)?))),
        188..=190 | 192 => Ok((
            int,
            milliwatts(seen.read(|sensors| &sensors.power_limit_w)?),
        )),
        _ => Err(Code::NOT_SUPPORTED),
    }
}
