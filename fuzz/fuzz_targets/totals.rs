//! Totals of a quarter hour and of a day, of own ticks and of imported rows.
#![no_main]

use gua_fuzz::{Piece, packed};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|pieces: Vec<Piece>| {
    let body = packed(&pieces);
    let _ = gua_store::decode_any_totals(&body);
    for form in [2, 3, 100] {
        let _ = gua_store::decode_any_totals(&[&[form], body.as_slice()].concat());
    }
});
