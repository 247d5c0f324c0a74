//! Field values: the driver's generic interface for readings. A few fields are simulated; the rest are not supported.

use std::ffi::{c_int, c_longlong, c_uint};

use crate::api::reading::ecc_errors;
use crate::call::{Seen, exports};
use crate::code::Code;
use crate::foreign::{Array, Device};
use crate::layout::{FieldValue, SampleValue, value_type};
use crate::world::whole;

exports! {
    R390 card fn nvmlDeviceGetFieldValues(device: Device, count: c_int, values: Array<FieldValue>) |seen| {
        let count = usize::try_from(count).ok().filter(|count| *count > 0).ok_or(Code::INVALID_ARGUMENT)?;
        let time_stamp = c_longlong::try_from(seen.world.stamp(seen.time)).unwrap_or(c_longlong::MAX);
        let answers: Vec<FieldValue> = values
            .read(count)?
            .into_iter()
            .map(|asked| match field(seen, asked.field) {
                Ok((value_type, number)) => FieldValue {
                    time_stamp,
                    latency_us: 0,
                    value_type,
                    code: Code::SUCCESS.0,
                    value: SampleValue(number),
                    ..asked
                },
                Err(code) => FieldValue { time_stamp, latency_us: 0, code: code.0, ..asked },
            })
            .collect();
        values.write(&answers)
    };
}

/// Returns a field by its number in the header.
fn field(seen: &Seen, number: c_uint) -> Result<(c_uint, u64), Code> {
    let (int, long) = (value_type::UNSIGNED_INT, value_type::UNSIGNED_LONG_LONG);
    let milliwatts = |watts: f64| whole(watts * 1000.0);
    let card = seen.sensor()?;
    match number {
        3 | 5 => Ok((long, ecc_errors(seen, 0)?)),
        4 | 6 => Ok((long, ecc_errors(seen, 1)?)),
        82 => Ok((int, whole(card.memory_temperature_c.at(seen.time)?))),
        83 | 191 => Ok((long, card.energy_mj(seen.time)?)),
        185 | 186 => Ok((int, milliwatts(card.power_w.at(seen.time)?))),
        188..=190 | 192 => Ok((int, milliwatts(card.power_limit_w.at(seen.time)?))),
        _ => Err(Code::NOT_SUPPORTED),
    }
}
