//! A stored tick and the totals of a quarter hour, as a damaged history file may contain them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = gua_store::decode_anything(bytes);
    let _ = gua_store::decode_any_totals(bytes);
});
