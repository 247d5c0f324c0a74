//! Packed rows of a block: a byte with a bit for each optional cell that is present, then every cell as a
//! variable-length number.
//!
//! Part of the file format: a released form is never changed.

use super::rows::{Cell, CellKind, GpuRow, ImportedRow, ProcessRow, TextId};
use crate::codec::wire::{Input, Wire as _};

/// Size at which a block is closed: the payload of a clustered row must fit on its page.
pub(super) const FULL: usize = 800;

/// Consecutive rows of one table that have the same time and run.
#[derive(Clone, Debug, PartialEq)]
pub struct Block<R> {
    /// Number of the first row in the old file; the others follow it without a gap.
    pub first_row: i64,
    pub stamp: super::stamp::Stamp,
    pub run: Option<i64>,
    pub rows: Vec<R>,
}

/// Returns the rows of a packed block; `None` if the bytes are not exactly `count` rows.
pub(super) fn unpack<R: ImportedRow>(bytes: &[u8], count: usize) -> Option<Vec<R>> {
    let mut input = Input(bytes);
    // A row takes at least three bytes, so a wrong count cannot allocate much memory.
    let mut rows = Vec::with_capacity(count.min(bytes.len()));
    for _ in 0..count {
        rows.push(decode(&mut input)?);
    }
    input.end().ok().map(|()| rows)
}

/// Appends a row to a packed block.
pub(super) fn encode<R: ImportedRow>(row: &R, out: &mut Vec<u8>) {
    let cells = || R::COLUMNS.iter().zip(row.cells());
    let there = cells().filter(|(_, cell)| *cell != Cell::Missing);
    out.push(there.fold(0, |bits, (column, _)| bits | column.bit));
    for (_, cell) in cells() {
        let written = match cell {
            Cell::Number(number) => out.signed(&mut number.into()),
            Cell::Text(mut id) => out.number(&mut id.0),
            Cell::Missing => Ok(()),
        };
        written.expect("a writer accepts every cell");
    }
}

fn decode<R: ImportedRow>(input: &mut Input<'_>) -> Option<R> {
    let mut there = 0;
    input.byte(&mut there).ok()?;
    let known = R::COLUMNS.iter().fold(0, |bits, column| bits | column.bit);
    if there & !known != 0 {
        return None;
    }
    R::from_cells(|column| {
        if !column.is_required() && there & column.bit == 0 {
            return Some(Cell::Missing);
        }
        match column.kind {
            CellKind::Number => {
                let mut number = 0;
                input.signed(&mut number).ok()?;
                i64::try_from(number).ok().map(Cell::Number)
            }
            CellKind::Text => {
                let mut id = 0;
                input.number(&mut id).ok()?;
                Some(Cell::Text(TextId(id)))
            }
        }
    })
}

/// Decodes random bytes as a block of either kind of row, for fuzzing.
pub fn decode_any_block(bytes: &[u8], rows: usize) {
    let _ = unpack::<GpuRow>(bytes, rows);
    let _ = unpack::<ProcessRow>(bytes, rows);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::option;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = TextId> {
        any::<u32>().prop_map(TextId)
    }

    prop_compose! {
        fn card()(
            gpu in text(), util_pct in any::<i64>(), usage_state in option::of(text()),
            numbers in prop::array::uniform4(option::of(any::<i64>())),
        ) -> GpuRow {
            let [gpu_index, memory_used_mb, temperature_c, power_w] = numbers;
            GpuRow { gpu, util_pct, usage_state, gpu_index, memory_used_mb, temperature_c, power_w }
        }
    }

    prop_compose! {
        fn process()(
            gpu in text(), pid in any::<i64>(),
            numbers in prop::array::uniform2(option::of(any::<i64>())),
            texts in prop::array::uniform4(option::of(text())),
        ) -> ProcessRow {
            let [mem_used_mb, gpu_index] = numbers;
            let [loginuid_user, owner_user, process_name, process_type] = texts;
            ProcessRow { gpu, pid, mem_used_mb, loginuid_user, owner_user, gpu_index, process_name, process_type }
        }
    }

    fn check<R: ImportedRow>(rows: &[R]) {
        let mut bytes = Vec::new();
        for row in rows {
            encode(row, &mut bytes);
        }
        assert_eq!(unpack::<R>(&bytes, rows.len()).as_deref(), Some(rows));
        assert_eq!(unpack::<R>(&bytes, rows.len() + 1), None);
        if let Some((_, short)) = bytes.split_last() {
            assert_eq!(unpack::<R>(short, rows.len()), None);
        }
    }

    proptest! {
        #[test]
        fn rows_come_back_as_they_were(cards in prop::collection::vec(card(), 0..20), processes in prop::collection::vec(process(), 0..20)) {
            check(&cards);
            check(&processes);
        }

        #[test]
        fn any_bytes_are_rows_or_damage_and_never_a_crash(bytes in prop::collection::vec(any::<u8>(), 0..200), count in 0..40_usize) {
            let _ = unpack::<GpuRow>(&bytes, count);
            let _ = unpack::<ProcessRow>(&bytes, count);
        }
    }

    #[test]
    fn a_usual_row_is_small() {
        let mut bytes = Vec::new();
        let row = GpuRow {
            gpu: TextId(3),
            util_pct: 80,
            usage_state: Some(TextId(5)),
            gpu_index: Some(0),
            memory_used_mb: Some(70_000),
            temperature_c: Some(61),
            power_w: Some(271),
        };
        encode(&row, &mut bytes);
        assert_eq!(bytes.len(), 12);
    }
}
