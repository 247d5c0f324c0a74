//! The signals that this process was started to ignore, and how a program that it starts is made to ignore them too.
//!
//! Rust's runtime ignores SIGPIPE before `main`, and gives it its default action back in every program that it starts. So the
//! loader has what was there before remembered, before the runtime comes; and where it was to be ignored, that is done again
//! between fork and exec. This file blocks and handles no signal.
#![expect(
    unsafe_code,
    reason = "signal actions are asked for and set by functions of C, and the loader calls by address"
)]

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{mem, ptr};

/// A bit for each signal.
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// Real-time signals are left out: nobody ignores them by habit, and the C library keeps some for itself.
const SIGNALS: std::ops::RangeInclusive<i32> = 1..=31;

/// What a library or the runtime of a program that watches a job has taken for itself, so that the job would not inherit it.
const TAKEN: [i32; 2] = [libc::SIGPIPE, libc::SIGCHLD];

#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER: extern "C" fn() = remember;

/// Runs when the program is loaded, before the runtime and `main`.
extern "C" fn remember() {
    for signal in SIGNALS {
        // SAFETY: the struct is plain numbers, for which zeros are values; with no new action sigaction(2) only writes the
        // one that there is.
        let is_ignored = unsafe {
            let mut now: libc::sigaction = mem::zeroed();
            libc::sigaction(signal, ptr::null(), &raw mut now) == 0
                && now.sa_sigaction == libc::SIG_IGN
        };
        if is_ignored {
            IGNORED.fetch_or(1 << signal, Ordering::Relaxed);
        }
    }
}

/// Whether this process was started to ignore the signal.
#[must_use]
pub fn was_ignored(signal: i32) -> bool {
    SIGNALS.contains(&signal) && IGNORED.load(Ordering::Relaxed) & (1 << signal) != 0
}

/// Hears of the ends of children again where this process was started to ignore them: ignored, they could not be waited for
/// (wait(2)). What is started with [`hand_down`] ignores them still.
pub fn heed_children() {
    if was_ignored(libc::SIGCHLD) {
        // SAFETY: the default action of SIGCHLD calls nothing.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}

/// Has the program that is started ignore what this process was started to ignore, also where it does not do so itself any
/// more.
pub fn hand_down(command: &mut Command) {
    if !TAKEN.into_iter().any(was_ignored) {
        // The usual case keeps the runtime's quicker way to start a program.
        return;
    }
    let ignore = || {
        for signal in TAKEN.into_iter().filter(|signal| was_ignored(*signal)) {
            // SAFETY: signal(2) may be called between fork and exec (signal-safety(7)).
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        Ok(())
    };
    // SAFETY: the closure takes no lock and no memory; it reads an atomic number and calls signal(2).
    unsafe { command.pre_exec(ignore) };
}
