//! Encoding of the driver's buffered samples of one GPU, as the changes since the previous window.

use std::time::Duration;

use gua_model::window::EDGES;
use gua_model::{Histogram, Percent, Reading, UtilWindow};

use super::Damage;
use super::bytes::REASONS;
use super::wire::{Wire, code_of, coded, unzigzag, zigzag};

const BINS: usize = EDGES.len();
/// Bits of the mask of changes. Idle GPUs change only the first ones, and busy ones the next.
const COVERED: u32 = 1;
const SUM: u32 = 1 << 1;
const MAX: u32 = 1 << 2;
const FIRST_BIN: usize = 3;
const JUNK: u32 = 1 << (FIRST_BIN + BINS);
const ALL: u32 = (JUNK << 1) - 1;
/// Bins in the order of their bits.
const ORDER: [usize; BINS] = [0, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1];
/// Masks begin after the codes of the reasons.
const FIRST_MASK: u32 = 4;

/// Bits of what changed since `before`.
fn changes(now: &UtilWindow, before: &UtilWindow) -> u32 {
    let bit = |changed: bool, flag: u32| if changed { flag } else { 0 };
    let mut mask = bit(now.covered != before.covered, COVERED)
        | bit(
            i128::from(now.sum) != expected_sum(&now.histogram, before),
            SUM,
        )
        | bit(now.max != before.max, MAX)
        | bit(now.junk != before.junk, JUNK);
    for (place, bin) in ORDER.into_iter().enumerate() {
        mask |= bit(
            now.histogram.bins[bin] != before.histogram.bins[bin],
            1 << (FIRST_BIN + place),
        );
    }
    mask
}

/// Passes a mask of the changes since `before` and the changes, or the reason the window is missing.
pub(crate) fn pass<W: Wire>(
    wire: &mut W,
    window: &mut Reading<UtilWindow>,
    before: UtilWindow,
) -> Result<(), Damage> {
    let mut code = match window {
        Err(why) => code_of(&REASONS, why).into(),
        Ok(now) => changes(now, &before) + FIRST_MASK,
    };
    wire.number(&mut code)?;
    let Some(mask) = code.checked_sub(FIRST_MASK) else {
        let code = u8::try_from(code).unwrap_or(u8::MAX);
        *window = Err(coded(&REASONS, code, "reason")?);
        return Ok(());
    };
    if mask > ALL {
        return Err(Damage::Value("window"));
    }
    let mut now = window.unwrap_or(before);
    if mask & COVERED != 0 {
        let mut change = covered_change(now.covered, before.covered);
        wire.wide(&mut change)?;
        now.covered = covered(before.covered, change)?;
    }
    for (place, bin) in ORDER.into_iter().enumerate() {
        if mask & (1 << (FIRST_BIN + place)) != 0 {
            let (bin, before) = (&mut now.histogram.bins[bin], before.histogram.bins[bin]);
            let mut change = i128::from(*bin) - i128::from(before);
            wire.signed(&mut change)?;
            *bin = change
                .checked_add(before.into())
                .and_then(|count| u32::try_from(count).ok())
                .ok_or(Damage::Value("window"))?;
        }
    }
    if mask & JUNK != 0 {
        wire.number(&mut now.junk)?;
    }
    if mask & MAX != 0 {
        let mut code = now.max.map_or(0, |max| max.get() + 1);
        wire.byte(&mut code)?;
        now.max = match code.checked_sub(1) {
            None => None,
            Some(max) => Some(Percent::new(max.into()).ok_or(Damage::Value("window"))?),
        };
    }
    let expected = expected_sum(&now.histogram, &before);
    let mut error = 0;
    if mask & SUM != 0 {
        error = i128::from(now.sum) - expected;
        wire.signed(&mut error)?;
    }
    now.sum = error
        .checked_add(expected)
        .and_then(|sum| u64::try_from(sum).ok())
        .ok_or(Damage::Value("window"))?;
    *window = Ok(now);
    Ok(())
}

/// Returns the previous sum, adjusted by the changes of the bins.
fn expected_sum(now: &Histogram, before: &UtilWindow) -> i128 {
    i128::from(before.sum) + guess(now) - guess(&before.histogram)
}

/// Returns the difference in whole microseconds if possible, which the lowest bit marks; otherwise in nanoseconds.
fn covered_change(now: Duration, before: Duration) -> u128 {
    // Both are below 2^94, so no bit is lost at either end.
    let change = now.as_nanos().cast_signed() - before.as_nanos().cast_signed();
    if change % 1000 == 0 {
        zigzag(change / 1000) << 1
    } else {
        (zigzag(change) << 1) | 1
    }
}

fn covered(before: Duration, code: u128) -> Result<Duration, Damage> {
    let unit = if code & 1 == 0 { 1000 } else { 1 };
    unzigzag(code >> 1)
        .checked_mul(unit)
        .and_then(|change| change.checked_add(before.as_nanos().cast_signed()))
        .and_then(|nanos| u128::try_from(nanos).ok())
        .ok_or(Damage::Value("duration"))
        .and_then(duration)
}

/// Returns the sum of the samples if each were in the middle of its bin.
fn guess(histogram: &Histogram) -> i128 {
    let upper = EDGES[1..].iter().map(|edge| edge - 1).chain([100]);
    let middles = EDGES
        .iter()
        .zip(upper)
        .map(|(low, high)| u64::midpoint((*low).into(), high.into()));
    histogram
        .bins
        .iter()
        .zip(middles)
        .map(|(count, middle)| i128::from(*count) * i128::from(middle))
        .sum()
}

pub(crate) fn duration(nanos: u128) -> Result<Duration, Damage> {
    match nanos <= Duration::MAX.as_nanos() {
        true => Ok(Duration::from_nanos_u128(nanos)),
        false => Err(Damage::Value("duration")),
    }
}
