//! The readings of a GPU as columns, from the table in [`gua_model::readings`].

use gua_model::{Gpu, READINGS, ReadingKind};

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

/// Returns the one reading that imported rows have.
pub(crate) fn of_imported(memory_used: Option<i64>) -> impl Iterator<Item = Value<'static>> {
    exported().map(move |reading| match reading.field {
        "memory_used" => memory_used.into(),
        _ => Value::Missing,
    })
}
