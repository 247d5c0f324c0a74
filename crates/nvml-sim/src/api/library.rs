//! The library: opening, closing, versions, and descriptions of return codes.

use std::ffi::{c_char, c_int, c_uint};

use crate::call::{Now, exports, initialise, shut_down};
use crate::code::Code;
use crate::driver::Generation;
use crate::foreign::{Length, Out, Text};

exports! {
    R390 library fn nvmlInit() |name| initialise(name);
    R390 library fn nvmlInit_v2() |name| initialise(name);
    R390 library fn nvmlInitWithFlags(_flags: c_uint) |name| initialise(name);
    R390 library fn nvmlShutdown() |name| shut_down(name);

    R390 system fn nvmlSystemGetDriverVersion(version: Text, length: Length<c_uint>) |now| version.set(release(now), length);
    R390 system fn nvmlSystemGetNVMLVersion(version: Text, length: Length<c_uint>) |now| {
        let made = format!("{}.{}", cuda(now) / 1000, release(now));
        version.set(now.world.scenario.driver.nvml_version.as_deref().unwrap_or(&made), length)
    };
    R390 system fn nvmlSystemGetCudaDriverVersion(version: Out<c_int>) |now| version.set(cuda(now));
    R418 system fn nvmlSystemGetCudaDriverVersion_v2(version: Out<c_int>) |now| version.set(cuda(now));
    R390 system fn nvmlSystemGetProcessName(pid: c_uint, name: Text, length: Length<c_uint>) |now| {
        let mut processes = now.world.gpus.iter().flat_map(|gpu| gpu.all_processes());
        let scripted = processes.find(|process| process.scripted.pid == pid).and_then(|process| process.scripted.name.clone());
        name.set(&scripted.or_else(|| command(pid)).ok_or(Code::NOT_FOUND)?, length)
    };
}

fn release(now: &Now) -> &str {
    let set = now.world.scenario.driver.version.as_deref();
    set.unwrap_or(Generation::installed().version())
}

fn cuda(now: &Now) -> c_int {
    let set = now.world.scenario.driver.cuda_version;
    set.unwrap_or(Generation::installed().cuda_version())
}

/// Returns the first word of a real process's command line.
fn command(pid: c_uint) -> Option<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let first = line.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(first).into_owned())
}

/// The only function that returns a text instead of a code. It can be called at any time, and faults do not apply to
/// it.
#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(code: c_uint) -> *const c_char {
    Code(code).sentence().as_ptr()
}
