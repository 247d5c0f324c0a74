//! The driver's buffered samples of one card, sparse: only the bins that have any.

use gua_model::window::EDGES;
use gua_model::{Histogram, UtilWindow};
use serde::{Deserialize, Serialize};

use super::Damage;
use super::varint::{Input, fold, put, unfold};

const BINS: usize = EDGES.len();
const JUNK: u32 = 1 << BINS;
const COVERED: u32 = 1 << (BINS + 1);
const MAX: u32 = 1 << (BINS + 2);

/// All numbers of a [`UtilWindow`], in its serialised order: the model keeps its sum to itself, and serde is the way
/// that it offers to store it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WindowFrame {
    bins: [u32; BINS],
    max: Option<u8>,
    junk: u32,
    covered: std::time::Duration,
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
        let mut room = [0u8; 128];
        let sum = postcard::to_slice(window, &mut room)
            .ok()
            .and_then(|bytes| postcard::from_bytes::<Self>(bytes).ok())
            .expect("a window has the fields of its mirror, and they fit into 128 bytes")
            .sum;
        Self {
            bins,
            max: max.map(Into::into),
            junk,
            covered,
            sum,
        }
    }

    pub(crate) fn to_window(self) -> Result<UtilWindow, Damage> {
        let mut room = [0u8; 128];
        let bytes = postcard::to_slice(&self, &mut room).map_err(|_| Damage::Value("window"))?;
        postcard::from_bytes(bytes).map_err(|_| Damage::Value("window"))
    }

    pub(crate) fn put(&self, before: &Self, out: &mut Vec<u8>) {
        let mut mask = 0u32;
        for (bin, count) in self.bins.iter().enumerate() {
            mask |= u32::from(*count != 0) << bin;
        }
        mask |= if self.junk == 0 { 0 } else { JUNK };
        mask |= if self.covered == before.covered {
            0
        } else {
            COVERED
        };
        mask |= if self.max.is_none() { 0 } else { MAX };
        put(out, mask.into());
        for count in self.bins.iter().filter(|count| **count != 0) {
            put(out, (*count).into());
        }
        if self.junk != 0 {
            put(out, self.junk.into());
        }
        if self.covered != before.covered {
            let change = self
                .covered
                .as_nanos()
                .wrapping_sub(before.covered.as_nanos());
            put(out, fold(change.cast_signed()));
        }
        if let Some(max) = self.max {
            out.push(max);
        }
        put(out, fold(i128::from(self.sum) - guess(&self.bins)));
    }

    pub(crate) fn get(before: &Self, input: &mut Input<'_>) -> Result<Self, Damage> {
        let mask = input.small()?;
        let mut frame = Self {
            covered: before.covered,
            ..Self::default()
        };
        for (bin, count) in frame.bins.iter_mut().enumerate() {
            if mask & (1 << bin) != 0 {
                *count = input.small()?;
            }
        }
        if mask & JUNK != 0 {
            frame.junk = input.small()?;
        }
        if mask & COVERED != 0 {
            let change = unfold(input.wide()?).cast_unsigned();
            frame.covered = duration(before.covered.as_nanos().wrapping_add(change))?;
        }
        if mask & MAX != 0 {
            frame.max = Some(input.byte()?);
        }
        let sum = input.signed()?.checked_add(guess(&frame.bins));
        frame.sum = sum
            .and_then(|sum| u64::try_from(sum).ok())
            .ok_or(Damage::Value("window"))?;
        Ok(frame)
    }
}

/// What the samples of the bins would add up to if each stood in the middle of its bin.
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

pub(crate) fn duration(nanos: u128) -> Result<std::time::Duration, Damage> {
    const SECOND: u128 = 1_000_000_000;
    let seconds = u64::try_from(nanos / SECOND).map_err(|_| Damage::Value("duration"))?;
    let rest = u32::try_from(nanos % SECOND).map_err(|_| Damage::Value("duration"))?;
    Ok(std::time::Duration::new(seconds, rest))
}
