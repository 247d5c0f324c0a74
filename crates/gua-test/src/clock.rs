//! A wall clock that stands still for the commands of a host, so that their output can be compared with a recording.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::TestHost;

/// The variable that the preloaded library reads.
const NOW: &str = "GUA_TEST_NOW";

/// Replaces the C library's function, by which Rust's standard library asks the time. All other clocks go on.
const SOURCE: &str = r#"
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    const char *now = getenv("GUA_TEST_NOW");
    if (clock == CLOCK_REALTIME && now) {
        char *rest;
        time->tv_sec = strtoll(now, &rest, 10);
        time->tv_nsec = *rest == '.' ? strtol(rest + 1, NULL, 10) : 0;
        return 0;
    }
    return syscall(SYS_clock_gettime, clock, time);
}
"#;

/// The time in seconds since 1970, with nine decimals.
pub fn now() -> String {
    let output = Command::new("date").arg("+%s.%N").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Stops the wall clock of a host's commands at a moment, as [`now`] returns it.
pub fn stop(host: &mut TestHost, moment: &str) {
    host.set("LD_PRELOAD", library(host.directory()));
    host.set(NOW, moment);
}

/// The library that a command preloads. Compiles it at first use into the folder.
fn library(folder: &Path) -> PathBuf {
    let library = folder.join("stopped-clock.so");
    if !library.exists() {
        let source = folder.join("stopped-clock.c");
        std::fs::write(&source, SOURCE).unwrap();
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(&source);
        crate::originals::run(&mut compiler);
    }
    library
}
