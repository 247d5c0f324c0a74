//! Packed rows of a block: a byte with a bit for each optional cell that is present, then every cell as a
//! variable-length number.
//!
//! Part of the file format: a released form is never changed.

use super::rows::{CardRow, ImportedRow, ProcessRow, TextId};

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
pub(super) fn unpack<R: ImportedRow>(mut bytes: &[u8], count: usize) -> Option<Vec<R>> {
    // A row takes at least three bytes, so a wrong count cannot allocate much memory.
    let mut rows = Vec::with_capacity(count.min(bytes.len()));
    for _ in 0..count {
        rows.push(R::decode(&mut bytes)?);
    }
    bytes.is_empty().then_some(rows)
}

const CARD_STATE: u8 = 1;
const CARD_INDEX: u8 = 1 << 1;
const CARD_MEMORY: u8 = 1 << 2;
const CARD_TEMPERATURE: u8 = 1 << 3;
const CARD_POWER: u8 = 1 << 4;

pub(super) fn encode_card(row: &CardRow, out: &mut Vec<u8>) {
    out.push(
        flag(row.usage_state.is_some(), CARD_STATE)
            | flag(row.gpu_index.is_some(), CARD_INDEX)
            | flag(row.memory_used_mb.is_some(), CARD_MEMORY)
            | flag(row.temperature_c.is_some(), CARD_TEMPERATURE)
            | flag(row.power_w.is_some(), CARD_POWER),
    );
    put_text(out, row.gpu);
    put(out, row.util_pct);
    if let Some(state) = row.usage_state {
        put_text(out, state);
    }
    for number in [
        row.gpu_index,
        row.memory_used_mb,
        row.temperature_c,
        row.power_w,
    ]
    .into_iter()
    .flatten()
    {
        put(out, number);
    }
}

pub(super) fn decode_card(bytes: &mut &[u8]) -> Option<CardRow> {
    let there = take_byte(bytes)?;
    if there >> 5 != 0 {
        return None;
    }
    Some(CardRow {
        gpu: take_text(bytes)?,
        util_pct: take(bytes)?,
        usage_state: if_there(there, CARD_STATE, bytes, take_text)?,
        gpu_index: if_there(there, CARD_INDEX, bytes, take)?,
        memory_used_mb: if_there(there, CARD_MEMORY, bytes, take)?,
        temperature_c: if_there(there, CARD_TEMPERATURE, bytes, take)?,
        power_w: if_there(there, CARD_POWER, bytes, take)?,
    })
}

const PROCESS_MEMORY: u8 = 1;
const PROCESS_LOGIN: u8 = 1 << 1;
const PROCESS_OWNER: u8 = 1 << 2;
const PROCESS_INDEX: u8 = 1 << 3;
const PROCESS_NAME: u8 = 1 << 4;
const PROCESS_TYPE: u8 = 1 << 5;

pub(super) fn encode_process(row: &ProcessRow, out: &mut Vec<u8>) {
    out.push(
        flag(row.mem_used_mb.is_some(), PROCESS_MEMORY)
            | flag(row.loginuid_user.is_some(), PROCESS_LOGIN)
            | flag(row.owner_user.is_some(), PROCESS_OWNER)
            | flag(row.gpu_index.is_some(), PROCESS_INDEX)
            | flag(row.process_name.is_some(), PROCESS_NAME)
            | flag(row.process_type.is_some(), PROCESS_TYPE),
    );
    put_text(out, row.gpu);
    put(out, row.pid);
    for number in [row.mem_used_mb, row.gpu_index].into_iter().flatten() {
        put(out, number);
    }
    let texts = [
        row.loginuid_user,
        row.owner_user,
        row.process_name,
        row.process_type,
    ];
    for text in texts.into_iter().flatten() {
        put_text(out, text);
    }
}

pub(super) fn decode_process(bytes: &mut &[u8]) -> Option<ProcessRow> {
    let there = take_byte(bytes)?;
    if there >> 6 != 0 {
        return None;
    }
    let gpu = take_text(bytes)?;
    let pid = take(bytes)?;
    let mem_used_mb = if_there(there, PROCESS_MEMORY, bytes, take)?;
    let gpu_index = if_there(there, PROCESS_INDEX, bytes, take)?;
    Some(ProcessRow {
        gpu,
        pid,
        mem_used_mb,
        gpu_index,
        loginuid_user: if_there(there, PROCESS_LOGIN, bytes, take_text)?,
        owner_user: if_there(there, PROCESS_OWNER, bytes, take_text)?,
        process_name: if_there(there, PROCESS_NAME, bytes, take_text)?,
        process_type: if_there(there, PROCESS_TYPE, bytes, take_text)?,
    })
}

fn flag(there: bool, bit: u8) -> u8 {
    if there { bit } else { 0 }
}

/// Reads an optional cell. The outer `None` means damage, the inner one a missing cell.
fn if_there<T>(
    there: u8,
    bit: u8,
    bytes: &mut &[u8],
    take: fn(&mut &[u8]) -> Option<T>,
) -> Option<Option<T>> {
    if there & bit == 0 {
        return Some(None);
    }
    take(bytes).map(Some)
}

/// Writes a number with zigzag encoding: 0, -1, 1, -2, ...
fn put(out: &mut Vec<u8>, number: i64) {
    put_unsigned(
        out,
        (number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned(),
    );
}

fn put_text(out: &mut Vec<u8>, text: TextId) {
    put_unsigned(out, text.0.into());
}

/// Writes seven bits per byte, lowest first; the top bit marks that more bytes follow.
fn put_unsigned(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

fn take_unsigned(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take_byte(bytes)?;
        let part = u64::from(byte & 0x7f);
        if (part << shift) >> shift != part {
            return None;
        }
        number |= part << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take(bytes: &mut &[u8]) -> Option<i64> {
    let number = take_unsigned(bytes)?;
    Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
}

fn take_text(bytes: &mut &[u8]) -> Option<TextId> {
    u32::try_from(take_unsigned(bytes)?).ok().map(TextId)
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
        ) -> CardRow {
            let [gpu_index, memory_used_mb, temperature_c, power_w] = numbers;
            CardRow { gpu, util_pct, usage_state, gpu_index, memory_used_mb, temperature_c, power_w }
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
            row.encode(&mut bytes);
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
            let _ = unpack::<CardRow>(&bytes, count);
            let _ = unpack::<ProcessRow>(&bytes, count);
        }
    }

    #[test]
    fn a_usual_row_is_small() {
        let mut bytes = Vec::new();
        CardRow {
            gpu: TextId(3),
            util_pct: 80,
            usage_state: Some(TextId(5)),
            gpu_index: Some(0),
            memory_used_mb: Some(70_000),
            temperature_c: Some(61),
            power_w: Some(271),
        }
        .encode(&mut bytes);
        assert_eq!(bytes.len(), 12);
    }
}
