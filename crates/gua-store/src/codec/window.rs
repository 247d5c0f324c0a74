//! Encoding of the driver's buffered samples of one GPU, as the changes since the previous window.

use std::time::Duration;

use gua_model::window::EDGES;
use gua_model::{Histogram, Percent, UtilWindow};

use super::Damage;
use super::varint::{Input, fold, put, unfold};

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
/// Masks begin after the codes of the four reasons.
const REASONS: u32 = 4;

/// All numbers of a [`UtilWindow`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WindowFrame {
    bins: [u32; BINS],
    max: Option<u8>,
    junk: u32,
    covered: Duration,
    sum: u64,
}

impl WindowFrame {
    pub(crate) fn from_window(window: &UtilWindow) -> Self {
        let UtilWindow {
            histogram: Histogram { bins },
            max,
            junk,
            covered,
            ..
        } = *window;
        Self {
            bins,
            max: max.map(Into::into),
            junk,
            covered,
            sum: window.sum(),
        }
    }

    pub(crate) fn to_window(self) -> Result<UtilWindow, Damage> {
        let max = match self.max.map(|max| Percent::new(max.into())) {
            Some(None) => return Err(Damage::Value("window")),
            max => max.flatten(),
        };
        let histogram = Histogram { bins: self.bins };
        let rest = (self.junk, self.covered);
        Ok(UtilWindow::restore(histogram, self.sum, max, rest))
    }

    /// Writes a mask of the changes, and the changes.
    pub(crate) fn put(&self, before: &Self, out: &mut Vec<u8>) {
        let sum_error = i128::from(self.sum) - expected_sum(&self.bins, before);
        let bit = |changed: bool, flag: u32| if changed { flag } else { 0 };
        let mut mask = bit(self.covered != before.covered, COVERED)
            | bit(sum_error != 0, SUM)
            | bit(self.max != before.max, MAX)
            | bit(self.junk != before.junk, JUNK);
        for (place, bin) in ORDER.into_iter().enumerate() {
            mask |= bit(self.bins[bin] != before.bins[bin], 1 << (FIRST_BIN + place));
        }
        put(out, (mask + REASONS).into());
        if mask & COVERED != 0 {
            put(out, covered_change(self.covered, before.covered));
        }
        for bin in ORDER {
            if self.bins[bin] != before.bins[bin] {
                put(
                    out,
                    fold(i128::from(self.bins[bin]) - i128::from(before.bins[bin])),
                );
            }
        }
        if mask & JUNK != 0 {
            put(out, self.junk.into());
        }
        if mask & MAX != 0 {
            out.push(self.max.map_or(0, |max| max.saturating_add(1)));
        }
        if mask & SUM != 0 {
            put(out, fold(sum_error));
        }
    }

    /// Reads the window, or the code of the reason it is missing.
    pub(crate) fn get(before: &Self, input: &mut Input<'_>) -> Result<Result<Self, u8>, Damage> {
        let code = input.small()?;
        if let Ok(why @ 0..4) = u8::try_from(code) {
            return Ok(Err(why));
        }
        let mask = code - REASONS;
        if mask > ALL {
            return Err(Damage::Value("window"));
        }
        let mut frame = *before;
        if mask & COVERED != 0 {
            frame.covered = covered(before.covered, input.wide()?)?;
        }
        for (place, bin) in ORDER.into_iter().enumerate() {
            if mask & (1 << (FIRST_BIN + place)) != 0 {
                let count = input.signed()?.checked_add(before.bins[bin].into());
                frame.bins[bin] = count
                    .and_then(|count| u32::try_from(count).ok())
                    .ok_or(Damage::Value("window"))?;
            }
        }
        if mask & JUNK != 0 {
            frame.junk = input.small()?;
        }
        if mask & MAX != 0 {
            frame.max = input.byte()?.checked_sub(1);
        }
        let error = if mask & SUM != 0 { input.signed()? } else { 0 };
        frame.sum = error
            .checked_add(expected_sum(&frame.bins, before))
            .and_then(|sum| u64::try_from(sum).ok())
            .ok_or(Damage::Value("window"))?;
        Ok(Ok(frame))
    }
}

/// Returns the previous sum, adjusted by the changes of the bins.
fn expected_sum(bins: &[u32; BINS], before: &WindowFrame) -> i128 {
    i128::from(before.sum) + guess(bins) - guess(&before.bins)
}

/// Returns the difference in whole microseconds if possible, which the lowest bit marks; otherwise in nanoseconds.
fn covered_change(now: Duration, before: Duration) -> u128 {
    // Both are below 2^94, so no bit is lost at either end.
    let change = now.as_nanos().cast_signed() - before.as_nanos().cast_signed();
    if change % 1000 == 0 {
        fold(change / 1000) << 1
    } else {
        (fold(change) << 1) | 1
    }
}

fn covered(before: Duration, code: u128) -> Result<Duration, Damage> {
    let unit = if code & 1 == 0 { 1000 } else { 1 };
    unfold(code >> 1)
        .checked_mul(unit)
        .and_then(|change| change.checked_add(before.as_nanos().cast_signed()))
        .and_then(|nanos| u128::try_from(nanos).ok())
        .ok_or(Damage::Value("duration"))
        .and_then(duration)
}

/// Returns the sum of the samples if each were in the middle of its bin.
fn guess(bins: &[u32; BINS]) -> i128 {
    let upper = EDGES[1..].iter().map(|edge| edge - 1).chain([100]);
    let middles = EDGES
        .iter()
        .zip(upper)
        .map(|(low, high)| u64::midpoint((*low).into(), high.into()));
    bins.iter()
        .zip(middles)
        .map(|(count, middle)| i128::from(*count) * i128::from(middle))
        .sum()
}

pub(crate) fn duration(nanos: u128) -> Result<Duration, Damage> {
    const SECOND: u128 = 1_000_000_000;
    let seconds = u64::try_from(nanos / SECOND).map_err(|_| Damage::Value("duration"))?;
    let rest = u32::try_from(nanos % SECOND).map_err(|_| Damage::Value("duration"))?;
    Ok(Duration::new(seconds, rest))
}
