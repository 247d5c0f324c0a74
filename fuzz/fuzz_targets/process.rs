//! Kernel files about one process, and the passwd file.
#![no_main]

use gua_probe::process::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let _ = parse::stat(text);
    let _ = parse::storage(text);
    let _ = parse::status_uids(text);
    let _ = parse::loginuid(text);
    let _ = parse::cgroup(text);
    let _ = parse::passwd_file(text);
    if let Some(comm) = parse::comm(text) {
        assert!(!comm.is_empty() && !comm.chars().any(char::is_control));
    }
});
