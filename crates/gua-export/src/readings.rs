//! The readings of a GPU as columns, from the table in [`gua_model::readings`].

use gua_model::{Bytes, Gpu, LegacyGpuTick, READINGS, ReadingKind};

use crate::batch::Value;
use crate::column::{Column, Kind};

/// Readings that are exported, in the order of the table.
fn exported() -> impl Iterator<Item = &'static ReadingKind> {
    READINGS.iter().filter(|kind| kind.column.is_some())
}

pub(crate) fn columns() -> impl Iterator<Item = Column> {
    exported().filter_map(|reading| {
        let column = reading.column?;
        Some(Column {
            name: column.name,
            kind: Kind::Int,
            about: column.about,
        })
    })
}

/// Returns the readings of a GPU, with the energy of its span in the place of the driver's counter.
pub(crate) fn of_gpu<'a>(gpu: &Gpu, energy: Value<'a>) -> impl Iterator<Item = Value<'a>> {
    exported().map(move |reading| match reading.field {
        "energy" => energy.clone(),
        _ => (reading.number)(gpu).ok().into(),
    })
}

/// Returns the readings that imported rows have, in the units of the columns. A value beyond them is missing.
pub(crate) fn of_imported(tick: &LegacyGpuTick<'_>) -> impl Iterator<Item = Value<'static>> {
    let scaled = |value: Option<i64>, unit: u64| value?.checked_mul(i64::try_from(unit).ok()?);
    let memory = scaled(tick.memory_used_mb, Bytes::PER_MB);
    let power = scaled(tick.power_w, 1_000);
    let temperature = tick.temperature_c;
    exported().map(move |reading| match reading.field {
        "memory_used" => memory.into(),
        "temperature" => temperature.into(),
        "power" => power.into(),
        _ => Value::Missing,
    })
}
