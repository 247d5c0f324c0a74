//! Durations as people write them (`30s`, `0.5m`, `200ms`) and as reports print them (`0:00:30`).
//!
//! The grammar is that of the replaced tool: digits, an optional fraction, exactly one unit. It is deliberately
//! narrower than any library's grammar, so that a value has the same meaning in both programs. This module does not
//! know the valid range of any setting.

use std::time::Duration;

use thiserror::Error;

pub use crate::text::Clockwise;
use crate::text::in_message;

/// Longest duration that can be written, in days. The replaced tool has the same limit.
pub const MAX_DAYS: u64 = 999_999_999;

const MICROS_PER_DAY: u128 = 86_400_000_000;
const UNITS: [(&str, u128); 5] = [
    // `ms` must precede `s` and `m`: it ends with one and begins with the other.
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", MICROS_PER_DAY),
];

/// Reason why a text is not a valid duration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DurationError {
    #[error("`{text}` is not a duration; write it like 30s, 1h, 200ms (units: ms, s, m, h, d)")]
    Malformed { text: String },
    #[error("`{text}` is longer than {MAX_DAYS} days; write it like 30s, 1h, 200ms")]
    TooLong { text: String },
}

/// Parses one number with one unit. Fractions of a microsecond round to the nearest, halves to even.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let malformed = || DurationError::Malformed {
        text: in_message(text),
    };
    let too_long = || DurationError::TooLong {
        text: in_message(text),
    };

    let (number, micros_per_unit) = UNITS
        .iter()
        .find_map(|(unit, micros)| Some((text.strip_suffix(unit)?, *micros)))
        .ok_or_else(malformed)?;
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (number, None),
    };
    let all_digits =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(whole) || !fraction.is_none_or(all_digits) {
        return Err(malformed());
    }

    let whole = match whole.trim_start_matches('0') {
        "" => 0,
        digits => digits.parse::<u128>().map_err(|_| too_long())?,
    };
    let longest = u128::from(MAX_DAYS) * MICROS_PER_DAY;
    let micros = whole
        .checked_mul(micros_per_unit)
        .and_then(|micros| micros.checked_add(fraction_of(fraction.unwrap_or(""), micros_per_unit)))
        .filter(|micros| *micros <= longest)
        .ok_or_else(too_long)?;
    // Neither part overflows: at most 8.64e13 seconds, and less than one second.
    let seconds = u64::try_from(micros / 1_000_000).map_err(|_| too_long())?;
    let rest = u64::try_from(micros % 1_000_000).map_err(|_| too_long())?;
    Ok(Duration::from_secs(seconds) + Duration::from_micros(rest))
}

/// Returns the fractional part in whole microseconds.
fn fraction_of(digits: &str, micros_per_unit: u128) -> u128 {
    // A day has 8.64e10 microseconds, so digits after the twentieth matter only for an exact half.
    const KEPT: usize = 20;
    let kept = digits.get(..KEPT).unwrap_or(digits);
    let rest_is_zero = digits.bytes().skip(KEPT).all(|byte| byte == b'0');
    let mut scale = 1u128;
    let mut value = 0u128;
    for byte in kept.bytes() {
        value = value * 10 + u128::from(byte - b'0');
        scale *= 10;
    }
    // At most 1e20 * 8.64e10, far below the u128 maximum of 3.4e38.
    let product = value * micros_per_unit;
    let (micros, remainder) = (product / scale, product % scale);
    let above_half =
        remainder * 2 > scale || (remainder * 2 == scale && (!rest_is_zero || micros % 2 == 1));
    micros + u128::from(above_half)
}

/// Returns the shortest text that [`parse`] reads back as the same duration: `10s`, `1.5s`, `2h`.
pub fn written(duration: Duration) -> String {
    let micros = duration.as_micros();
    if micros == 0 {
        return "0s".to_owned();
    }
    for (unit, per_unit) in UNITS.iter().rev() {
        if micros.is_multiple_of(*per_unit) {
            return format!("{}{unit}", micros / per_unit);
        }
    }
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    format!("{}s", text.trim_end_matches('0'))
}

#[cfg(test)]
mod tests;
