//! A configuration file.
#![no_main]

use std::path::Path;

use gua_settings::kind::Home;
use gua_settings::{Settings, file};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let home = Home(Some("/home/ada".into()));
    let mut settings = Settings::defaults(&home);
    for problem in file::apply(&mut settings, bytes, Path::new("config.toml"), &home) {
        assert!(!problem.to_string().is_empty());
    }
});
