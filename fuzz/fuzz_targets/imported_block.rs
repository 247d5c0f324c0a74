//! A block of imported rows.
#![no_main]

use gua_fuzz::{Piece, packed};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, Vec<Piece>)| {
    let (rows, pieces) = input;
    gua_store::imported::decode_any_block(&packed(&pieces), rows.into());
});
