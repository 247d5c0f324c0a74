//! `gua report` and `gua demo` as users run them, compared with the tool whose numbers they keep.

mod command;
mod compare;
mod demo;
mod imported;
mod originals;
mod terminal;
