//! Order in which GPUs are offered.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use super::free_memory;
use crate::sample::Gpu;

/// Sort keys, the first one first. GPUs with equal keys stay in the order of their indices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order(pub Vec<(Key, Direction)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Index,
    Power,
    FreeMemory,
    Temperature,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Ascending,
    Descending,
}

impl Key {
    pub const ALL: [Key; 4] = [Key::Index, Key::Power, Key::FreeMemory, Key::Temperature];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Key::Index => "index",
            Key::Power => "power",
            Key::FreeMemory => "free-memory",
            Key::Temperature => "temperature",
        }
    }

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderError(String);

impl fmt::Display for OrderError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = Key::ALL.into_iter().map(Key::as_str).collect();
        write!(
            out,
            "`{}` is no order; write one or several of {}, separated by commas, each with - before it for the largest first",
            self.0.escape_debug(),
            words.join(", ")
        )
    }
}

impl std::error::Error for OrderError {}

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
            let key = Key::ALL.into_iter().find(|key| key.as_str() == name);
            key.map(|key| (key, direction))
                .ok_or_else(|| OrderError(text.to_owned()))
        });
        keys.collect::<Result<_, _>>().map(Self)
    }
}

/// Sorts GPUs. Missing readings come last in either direction.
pub fn sort<T>(cards: &mut [T], order: &Order, gpu: impl Fn(&T) -> &Gpu) {
    cards.sort_by(|one, other| {
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
