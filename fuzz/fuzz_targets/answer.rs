//! Answers of a reader child to its parent.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(answer) = gua_probe::reader::decode_answer(bytes) {
        let _ = format!("{answer:?}");
    }
});
