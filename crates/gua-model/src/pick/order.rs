//! Order in which GPUs are offered.

use std::cmp::Ordering;
use std::str::FromStr;

use super::free_memory;
use crate::sample::Gpu;

/// Sort keys, the first one first. GPUs with equal keys stay in the order of their indices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order(pub Vec<(Key, Direction)>);

crate::words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Key {
        Index = "index",
        Power = "power",
        FreeMemory = "free-memory",
        Temperature = "temperature",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Ascending,
    Descending,
}

impl Key {
    fn value(self, gpu: &Gpu) -> Option<i128> {
        match self {
            Key::Index => Some(gpu.index.into()),
            Key::Power => gpu.power.ok().map(|power| power.0.into()),
            Key::FreeMemory => free_memory(gpu).ok().map(|bytes| bytes.0.into()),
            Key::Temperature => gpu.temperature.ok().map(|degrees| degrees.0.into()),
        }
    }
}

/// Error for a text that is not a valid order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a sort order; write one or more of {}, separated by commas, each with - before it for the largest first",
    .0.escape_debug(),
    Key::ALL.map(Key::as_str).join(", ")
)]
pub struct OrderError(String);

impl FromStr for Order {
    type Err = OrderError;

    /// Parses `power`, `-free-memory,index`, `temperature:desc`.
    fn from_str(text: &str) -> Result<Self, OrderError> {
        let keys = text.split(',').map(|word| {
            let word = word.trim();
            let (name, direction) = match (word.strip_prefix('-'), word.rsplit_once(':')) {
                (Some(name), _) => (name, Direction::Descending),
                (None, Some((name, "desc"))) => (name, Direction::Descending),
                (None, Some((name, "asc"))) => (name, Direction::Ascending),
                (None, _) => (word, Direction::Ascending),
            };
            let key = Key::from_word(name).ok_or_else(|| OrderError(text.to_owned()))?;
            Ok((key, direction))
        });
        keys.collect::<Result<_, _>>().map(Self)
    }
}

/// Sorts GPUs. Missing readings come last in either direction.
pub fn sort<T>(all: &mut [T], order: &Order, gpu: impl Fn(&T) -> &Gpu) {
    all.sort_by(|one, other| {
        let (one, other) = (gpu(one), gpu(other));
        let by_key = |(key, direction): &(Key, Direction)| match (
            key.value(one),
            key.value(other),
            direction,
        ) {
            (Some(one), Some(other), Direction::Ascending) => one.cmp(&other),
            (Some(one), Some(other), Direction::Descending) => other.cmp(&one),
            (Some(_), None, _) => Ordering::Less,
            (None, Some(_), _) => Ordering::Greater,
            (None, None, _) => Ordering::Equal,
        };
        let first_difference = order.0.iter().map(by_key).find(|order| order.is_ne());
        first_difference.unwrap_or(Ordering::Equal)
    });
}
