//! The one thread of this process that reads the driver.
//!
//! It is a static, which this project avoids elsewhere: an interpreter loads this library once, and a caller has no
//! other way to find the existing thread. A forked child starts its own, since threads are not forked.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gua_collector::reader;
use gua_model::Sample;
use gua_probe::keeper::Keeper;
use gua_probe::probe::ProbeOptions;
use gua_probe::reader::ReaderOptions;
use gua_settings::{FlagValue, Loaded, Settings};
use pyo3::{PyErr, PyResult, Python};

use crate::failure;

/// Maximum delay of Ctrl-C during a wait.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

struct Kept {
    /// PID of the process that the thread belongs to.
    pid: u32,
    options: ProbeOptions,
    deadline: Duration,
    keeper: Keeper,
}

/// Only locked for a moment and by threads that hold the interpreter's lock, so that a fork never copies it locked.
static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

/// Loads the settings of this process; `flags` take precedence.
pub(crate) fn settings(flags: &[FlagValue]) -> PyResult<Loaded> {
    let loaded = Loaded::of_this_process(flags);
    let checked = loaded.checked().map(drop);
    checked.map_err(|error| failure::of_command(&error))?;
    Ok(loaded)
}

/// Locks a value that is valid at any time, even if a thread panicked while it held the lock.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Polls until there is a result. Other Python threads continue meanwhile, and Ctrl-C ends the wait.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    mut poll: impl FnMut(Duration) -> Option<T> + Send,
) -> PyResult<T> {
    loop {
        if let Some(found) = py.detach(|| poll(SIGNAL_CHECK_INTERVAL)) {
            return Ok(found);
        }
        py.check_signals()?;
    }
}

/// Returns the thread that reads the driver which these settings name.
pub(crate) fn keeper(_attached: Python<'_>, settings: &Settings) -> PyResult<Keeper> {
    // Uses the options of the program's reader child, without the child.
    let ReaderOptions {
        probe: options,
        deadline,
        ..
    } = reader::options(settings);
    let pid = std::process::id();
    let mut kept = locked(&KEPT);
    if let Some(kept) = kept.as_ref()
        && (kept.pid, &kept.options, kept.deadline) == (pid, &options, deadline)
    {
        return Ok(kept.keeper.clone());
    }
    let keeper = Keeper::start(options.clone(), deadline).map_err(PyErr::from)?;
    *kept = Some(Kept {
        pid,
        options,
        deadline,
        keeper: keeper.clone(),
    });
    Ok(keeper)
}

/// Takes one sample.
pub(crate) fn sample(py: Python<'_>, settings: &Settings) -> PyResult<Sample> {
    let mut pending = keeper(py, settings)?.begin();
    wait(py, |patience| pending.wait(patience))?.map_err(|fault| failure::of_driver(&fault))
}
