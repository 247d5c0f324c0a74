//! The driver library behind a safe face. Every `unsafe` that has to do with it is in the two files below here.
//!
//! Nothing here decides what a value means for a card; that is [`crate::probe`]'s work.

mod code;
mod library;
mod lists;

pub(crate) use code::Code;
pub(crate) use library::{Device, EccKind, Library, Memory};
pub(crate) use lists::{List, Listed, Lists};
