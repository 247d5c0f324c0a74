//! Kernel files about the host: mounts, driver module, privileges, namespaces.
#![no_main]

use gua_probe::host;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let mounts = host::mount::parse_mounts(text);
    let _ = host::mount::hiding(&mounts, "/proc".as_ref());
    let _ = host::mount::holding(&mounts, "/var/lib/gua/gua.db".as_ref());
    let _ = host::driver::parse_module(text);
    let _ = host::driver::parse_version(text);
    let _ = host::namespace::parse_pid_namespace(text);
    let _ = host::privilege::parse_status(text);
    let _ = host::time::parse_boot_time(text);
    let (comm, arguments) = text.split_at(text.len() / 2);
    let _ = host::collector::recognise(comm, arguments);
});
