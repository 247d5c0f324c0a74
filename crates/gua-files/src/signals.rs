//! Signals that concern files: temporary files are removed when a signal ends the program, and reaching the file size limit is a
//! write error.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::companions;

/// Names of temporary files and directories, which are unique. Signal handlers are per process, so there is only one list.
static PARTS: OnceLock<Mutex<Vec<PathBuf>>> = OnceLock::new();

/// Adds a temporary file or directory to those that a signal removes.
pub(crate) fn add_part(path: &Path) {
    if let Some(parts) = PARTS.get() {
        let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.push(path.to_owned());
    }
}

/// Removes temporary files that are created from now on when SIGINT, SIGTERM or SIGHUP ends this program, except signals that
/// it ignores. For programs that do not handle these signals themselves.
pub fn remove_parts_on_signals(is_ignored: impl Fn(i32) -> bool) {
    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter();
    watch(signals.filter(|signal| !is_ignored(*signal)), |signal| {
        let _ = emulate_default_handler(signal);
    });
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with EFBIG. By default, SIGXFSZ ends the program.
/// Started programs have the default action again, because a handler does not survive execve(2). Without a handler, if it
/// cannot be set, the default stays.
pub fn fail_writes_over_the_limit() {
    let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Removes a directory. The program is still running and may create a file in it meanwhile, so one attempt may not be enough.
fn remove_directory(path: &Path) {
    const ATTEMPTS: u32 = 100;
    let is_removed = |_: &u32| fs::remove_dir_all(path).is_ok() || !path.exists();
    let _ = (0..ATTEMPTS).find(is_removed);
}

/// Handles the signals on a thread. If that is not possible, they end the program as usual.
pub(crate) fn watch(signals: impl Iterator<Item = i32>, then: impl Fn(i32) + Send + 'static) {
    let Ok(mut signals) = Signals::new(signals) else {
        return;
    };
    let parts = PARTS.get_or_init(Mutex::default);
    std::thread::spawn(move || {
        for signal in signals.forever() {
            for name in &*parts.lock().unwrap_or_else(PoisonError::into_inner) {
                match name.is_dir() {
                    true => remove_directory(name),
                    false => _ = fs::remove_file(name),
                }
                companions(name).for_each(|path| _ = fs::remove_file(path));
            }
            then(signal);
        }
    });
}
