//! The readings of a GPU as columns, from the table in [`gua_model::readings`].

use gua_model::{Gpu, READINGS, ReadingKind};

use crate::batch::Places;
use crate::column::{Column, Kind};

/// Columns of the readings that are exported, in the order of the table.
pub(crate) const COLUMNS: &[Column] = {
    const ALL: [Column; COUNT] = columns();
    &ALL
};

const COUNT: usize = position(READINGS.len());

/// Returns the number of columns that the readings before this row have.
const fn position(row: usize) -> usize {
    let (mut before, mut columns) = (0, 0);
    while before < row {
        if READINGS[before].column.is_some() {
            columns += 1;
        }
        before += 1;
    }
    columns
}

const fn columns() -> [Column; COUNT] {
    let mut all = [Column {
        name: "",
        kind: Kind::Int,
        about: "",
    }; COUNT];
    let mut row = 0;
    while row < READINGS.len() {
        if let Some(column) = READINGS[row].column {
            all[position(row)] = Column {
                name: column.name,
                kind: Kind::Int,
                about: column.about,
            };
        }
        row += 1;
    }
    all
}

/// Returns the place of a field's column.
const fn place(field: &str) -> usize {
    let mut row = 0;
    while !READINGS[row].is_for(field) {
        row += 1;
    }
    position(row)
}

/// Values of the columns; `None` if not measured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Values([Option<i64>; COUNT]);

impl Values {
    const ENERGY: usize = place("energy");
    const MEMORY_USED: usize = place("memory_used");

    /// Returns the readings of a GPU, with the energy of its span in the place of the driver's counter.
    pub(crate) fn of(gpu: &Gpu, energy: Option<i64>) -> Self {
        let exported = |kind: &&ReadingKind| kind.column.is_some();
        let mut values = Self::default();
        for (value, kind) in values.0.iter_mut().zip(READINGS.iter().filter(exported)) {
            *value = (kind.number)(gpu).ok();
        }
        values.0[Self::ENERGY] = energy;
        values
    }

    /// Returns the one reading that imported rows have.
    pub(crate) fn of_imported(memory_used: Option<i64>) -> Self {
        let mut values = Self::default();
        values.0[Self::MEMORY_USED] = memory_used;
        values
    }

    pub(crate) fn put(&self, places: &mut Places<'_>) {
        for value in self.0 {
            places.int(value);
        }
    }
}
