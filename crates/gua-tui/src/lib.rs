//! The terminal interface of `gua`: samples, keys and times come in; screens and actions go out.
//!
//! This crate owns the terminal and nothing else. It knows no driver, no files and no clock, and has no other effects:
//! [`App::key`] returns an [`Action`], and the program performs it.

pub mod app;
mod format;
mod jobs;
pub mod key;
mod lost;
pub mod plain;
mod rows;
mod spark;
mod streak;
pub mod surroundings;
pub mod terminal;
pub mod timeline;
mod tree;
mod view;
mod writer;

pub use app::{Action, App, Me, Rights, Setup, Signal};
pub use key::Input;
pub use surroundings::Surroundings;
pub use terminal::{Palette, Screen};
pub use timeline::Moment;
pub use tree::{Ancestor, Lineage};
pub use view::draw;
