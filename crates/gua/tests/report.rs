//! `gua report` and `gua demo` as people run them, beside the tool whose numbers they promise to keep.

mod command;
mod demo;
mod originals;
