//! A stored tick, as a damaged history file may have it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = gua_store::decode_anything(bytes);
});
