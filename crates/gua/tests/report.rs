//! `gua report` and `gua demo` as users run them, compared with the tool whose numbers they keep.

mod command;
mod demo;
mod originals;
mod terminal;
