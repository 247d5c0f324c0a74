//! Formats numbers and names for a narrow table. A missing value is a dash, never a zero.

pub(crate) use gua_model::text::{clip, columns as width};
use gua_model::unit::float;
use gua_model::{Bytes, Reading};

/// Text for a missing reading.
pub(crate) const MISSING: &str = "-";

/// Pads or clips the text to exactly `room` columns, aligned left.
pub(crate) fn left(text: &str, room: usize) -> String {
    let text = clip(text, room);
    let pad = room.saturating_sub(width(&text));
    format!("{text}{}", " ".repeat(pad))
}

/// Pads or clips the text to exactly `room` columns, aligned right.
pub(crate) fn right(text: &str, room: usize) -> String {
    let text = clip(text, room);
    let pad = room.saturating_sub(width(&text));
    format!("{}{text}", " ".repeat(pad))
}

/// Formats memory as `512M`, `11.0G`, `1.5T`, in units of 1024.
pub(crate) fn bytes(bytes: Bytes) -> String {
    let mb = bytes.whole_mb();
    if mb < 1024 {
        return format!("{mb}M");
    }
    let (unit, letter) = match mb {
        ..1_048_576 => (1024, 'G'),
        _ => (1_048_576, 'T'),
    };
    // Tenths, rounded down: a GPU that is not quite full does not look full.
    let tenths = mb.saturating_mul(10) / unit;
    match tenths {
        ..1000 => format!("{}.{}{letter}", tenths / 10, tenths % 10),
        _ => format!("{}{letter}", tenths / 10),
    }
}

/// Returns the share of a part; there is no share of zero.
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| float(part) / float(whole))
}

pub(crate) fn reading<T>(value: &Reading<T>, show: impl FnOnce(&T) -> String) -> String {
    value.as_ref().map_or_else(|_| MISSING.to_owned(), show)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_rounded_down_to_a_tenth() {
        let check = |mb: u64, expected: &str| assert_eq!(bytes(Bytes::from_mb(mb)), expected);
        check(0, "0M");
        check(1023, "1023M");
        check(1024, "1.0G");
        check(49140, "47.9G");
        check(102_400, "100G");
        check(2 << 20, "2.0T");
    }

    #[test]
    fn a_text_fills_its_room_and_no_more() {
        let check = |text: &str, room: usize, at_left: &str, at_right: &str| {
            assert_eq!(left(text, room), at_left);
            assert_eq!(right(text, room), at_right);
        };
        check("ada", 5, "ada  ", "  ada");
        check("adalovelace", 5, "adal…", "adal…");
        check("김철수", 4, "김… ", " 김…");
        check("김", 0, "", "");
    }
}
