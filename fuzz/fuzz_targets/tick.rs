//! A stored tick, as a damaged history file may contain it.
#![no_main]

use gua_fuzz::{Piece, packed};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|pieces: Vec<Piece>| {
    let body = packed(&pieces);
    let _ = gua_store::decode_anything(&body);
    // The form of all ticks: the rest of the bytes is then reached more often.
    let _ = gua_store::decode_anything(&[&[1], body.as_slice()].concat());
});
