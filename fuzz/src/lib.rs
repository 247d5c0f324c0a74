//! Helpers of several fuzz targets: numbers as the history packs them, cells of SQLite tables, and a place for files.

use arbitrary::Arbitrary;
use rusqlite::types::Value;

/// A piece of a packed body. Random bytes rarely make a long list of numbers; these do.
#[derive(Arbitrary, Debug)]
pub enum Piece {
    Byte(u8),
    Small(u8),
    Number(u64),
    Signed(i64),
    Wide(u128),
    Bytes(Vec<u8>),
}

/// Packs pieces as the history does: seven bits per byte, lowest first; signed numbers are zigzag-encoded.
#[must_use]
pub fn packed(pieces: &[Piece]) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Byte(byte) => out.push(*byte),
            Piece::Bytes(bytes) => out.extend(bytes),
            Piece::Small(number) => put(&mut out, u128::from(*number)),
            Piece::Number(number) => put(&mut out, u128::from(*number)),
            Piece::Wide(number) => put(&mut out, *number),
            Piece::Signed(number) => {
                let number = i128::from(*number);
                put(&mut out, ((number << 1) ^ (number >> 127)).cast_unsigned());
            }
        }
    }
    out
}

fn put(out: &mut Vec<u8>, mut number: u128) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// A cell of any type.
#[derive(Arbitrary, Clone, Debug)]
pub enum Cell {
    Null,
    Integer(i64),
    Small(u8),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
    Time(Time),
}

impl Cell {
    #[must_use]
    pub fn value(&self) -> Value {
        match self {
            Cell::Null => Value::Null,
            Cell::Integer(number) => Value::Integer(*number),
            Cell::Small(number) => Value::Integer((*number).into()),
            Cell::Real(number) => Value::Real(*number),
            Cell::Text(text) => Value::Text(text.clone()),
            Cell::Blob(bytes) => Value::Blob(bytes.clone()),
            Cell::Time(time) => Value::Integer(time.micros()),
        }
    }
}

/// A time: usual, or far away.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Time {
    Usual(u32),
    Any(i64),
}

impl Time {
    #[must_use]
    pub fn micros(self) -> i64 {
        match self {
            Time::Usual(millis) => START + i64::from(millis) * 1000,
            Time::Any(micros) => micros,
        }
    }

    /// The time as gpu-usage-audit writes it, where the calendar has it.
    #[must_use]
    pub fn text(self) -> Option<String> {
        let at = jiff::Timestamp::from_microsecond(self.micros()).ok()?;
        Some(gua_compat::gpu_usage_audit::old_text(at))
    }
}

/// A day of 2026, in microseconds since 1970.
pub const START: i64 = 1_790_000_000_000_000;

/// A directory in memory, where files are quick.
#[must_use]
pub fn directory() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    }
    .expect("a directory for files")
}
