//! Signals that this process was started to ignore, and how to make a program that it starts ignore them too.
//!
//! Rust's runtime ignores SIGPIPE before `main` and resets it in every program that it starts. So a program that wants
//! this calls [`remember`] when it is loaded, before the runtime starts; signals that were ignored are ignored again
//! between fork and exec. Without that call no signal counts as ignored. This module blocks and handles no signal.
#![expect(
    unsafe_code,
    reason = "signal actions are asked for and set by functions of C"
)]

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{mem, ptr};

/// One bit per signal.
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// Real-time signals are left out: the C library uses some of them.
const SIGNALS: std::ops::RangeInclusive<i32> = 1..=31;

/// Signals that a library or the runtime changes, so that a started job would not inherit them.
const TAKEN: [i32; 2] = [libc::SIGPIPE, libc::SIGCHLD];

/// Records the signals that are ignored now. Called once, before the runtime and `main`.
pub extern "C" fn remember() {
    for signal in SIGNALS {
        // SAFETY: the struct is plain numbers, for which zeros are values; with no new action sigaction(2) only writes
        // the one that there is.
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

/// Reports whether this process was started to ignore the signal.
pub fn was_ignored(signal: i32) -> bool {
    SIGNALS.contains(&signal) && IGNORED.load(Ordering::Relaxed) & (1 << signal) != 0
}

/// Restores the default action of SIGCHLD if this process was started to ignore it: children could not be waited for
/// (wait(2)). Programs started with [`hand_down`] still ignore it.
pub fn restore_child_signal() {
    if was_ignored(libc::SIGCHLD) {
        // SAFETY: the default action of SIGCHLD calls nothing.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}

/// Makes the started program ignore the signals that this process was started to ignore, even those that it no longer
/// ignores itself.
pub fn hand_down(command: &mut Command) {
    if !TAKEN.into_iter().any(was_ignored) {
        // Without such signals the runtime's faster way to start a program is kept.
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
