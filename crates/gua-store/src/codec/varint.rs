//! Numbers of packed totals, one at a time. `wire` has their format.

use super::Damage;
use super::wire::{self, Wire as _};

pub(crate) use super::wire::zigzag as fold;

pub(crate) fn put(out: &mut Vec<u8>, mut value: u128) {
    out.wide(&mut value).expect("a writer accepts every number");
}

/// Unread rest of a body.
#[derive(Debug)]
pub(crate) struct Input<'a>(wire::Input<'a>);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(wire::Input(bytes))
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Damage> {
        let mut value = 0;
        self.0.byte(&mut value).map(|()| value)
    }

    pub(crate) fn wide(&mut self) -> Result<u128, Damage> {
        let mut value = 0;
        self.0.wide(&mut value).map(|()| value)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Damage> {
        let mut value = 0;
        self.0.number(&mut value).map(|()| value)
    }

    pub(crate) fn signed(&mut self) -> Result<i128, Damage> {
        let mut value = 0;
        self.0.signed(&mut value).map(|()| value)
    }

    pub(crate) fn count(&mut self) -> Result<usize, Damage> {
        let mut value = 0;
        self.0.count(&mut value).map(|()| value)
    }

    /// Consumes the next number if it is zero in one byte; returns whether it was.
    pub(crate) fn zero(&mut self) -> bool {
        match self.0.0.split_first() {
            Some((0, rest)) => {
                self.0.0 = rest;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn end(&self) -> Result<(), Damage> {
        self.0.end()
    }
}
