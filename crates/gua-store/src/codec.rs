//! Encoding of one tick in a few hundred bytes: the changes since the previous tick.
//!
//! A chain of ticks begins with a key tick, which is self-contained. The ticks after it are differences, each relative
//! to the previous one. Chains never cross a quarter hour, so a reader can start at any quarter. A [`Tick`] is
//! converted to a [`Frame`] (names become interned ids, readings become numbers), which is encoded as bytes, and back.
//! This module contains no SQL, and no input makes it panic.

pub(crate) mod bytes;
pub(crate) mod frame;
pub(crate) mod slots;
pub(crate) mod window;
pub(crate) mod wire;

#[cfg(test)]
pub(crate) mod arbitrary;
#[cfg(test)]
mod tests;

use gua_model::{GpuUuid, Identity, Tick};

pub(crate) use bytes::{Link, decode, encode};
pub(crate) use frame::Frame;

/// Interns names: each name has an id that stays the same within one file.
pub(crate) trait Names {
    type Error;
    fn gpu(&mut self, uuid: &GpuUuid) -> Result<u64, Self::Error>;
    fn process(&mut self, identity: &Identity) -> Result<u64, Self::Error>;
    fn text(&mut self, text: &str) -> Result<u64, Self::Error>;
}

/// Looks up the name of an id; `None` if the file has no such id.
pub(crate) trait Lookup {
    fn gpu(&mut self, id: u64) -> Option<GpuUuid>;
    fn process(&mut self, id: u64) -> Option<Identity>;
    fn text(&mut self, id: u64) -> Option<String>;
}

/// Reason a stored tick, or the totals of a quarter hour, cannot be read. That tick and the differences based on it, or
/// that quarter, are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error("it ends too early")]
    Short,
    #[error("it has bytes after its end")]
    Long,
    #[error("its checksum does not match")]
    Checksum,
    #[error("the tick before it cannot be read")]
    Chain,
    #[error("it has format {0}, which this gua does not support")]
    Form(u8),
    #[error(
        "it was written by an earlier development version of gua, whose totals this one does not read: report and export \
         it with that version, or move the file away and start a new history"
    )]
    Earlier,
    #[error("it has an invalid {0}")]
    Value(&'static str),
    #[error("it refers to {0} that the file does not have")]
    Name(&'static str),
}

/// Decodes random bytes as a tick, for fuzzing.
pub fn decode_anything(body: &[u8]) -> Result<usize, Damage> {
    struct Nobody;
    impl Lookup for Nobody {
        fn gpu(&mut self, id: u64) -> Option<GpuUuid> {
            format!("GPU-{id}").parse().ok()
        }
        fn process(&mut self, _: u64) -> Option<Identity> {
            None
        }
        fn text(&mut self, id: u64) -> Option<String> {
            Some(id.to_string())
        }
    }
    let frame = bytes::decode_unchecked(body, None)?;
    let again = bytes::decode_unchecked(body, Some(&frame));
    let tick: Tick = frame.to_tick(&mut Nobody)?;
    Ok(tick.sample.gpus.len() + again.map_or(0, |frame| frame.gpus.len()))
}
