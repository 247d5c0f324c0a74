//! Our errors as Python's exceptions. The classes stand in `gua/errors.py`.

use std::io;

use gua::failure::{Exit, Failure};
use gua_collector::chain::chain;
use gua_probe::fault::DriverFault;
use gua_store::{OpenError, ReadError};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::{PyErr, import_exception};

import_exception!(gua.errors, DriverError);
import_exception!(gua.errors, DriverMissing);
import_exception!(gua.errors, DriverTimeout);
import_exception!(gua.errors, GuaError);
import_exception!(gua.errors, HistoryError);

/// A driver that did not answer.
pub(crate) fn of_driver(fault: &DriverFault) -> PyErr {
    let text = match fault.hint() {
        Some(hint) => format!("{fault} (hint: {hint})"),
        None => fault.to_string(),
    };
    match fault {
        // Whoever asks twice in a second gets the reason, and not that we wait.
        DriverFault::BackingOff { last, .. } => of_driver(last),
        DriverFault::LibraryNotFound { .. } => DriverMissing::new_err(text),
        DriverFault::Hung { .. } => DriverTimeout::new_err(text),
        _ => DriverError::new_err(text),
    }
}

/// What a command of the program would have ended with.
pub(crate) fn of_command(error: &anyhow::Error) -> PyErr {
    if let Some(fault) = error.downcast_ref::<DriverFault>() {
        return of_driver(fault);
    }
    let text = chain(error.as_ref());
    // A flag of the program is an argument here.
    let text = text.strip_prefix("--").map_or(text.clone(), str::to_owned);
    match error.downcast_ref::<Failure>() {
        Some(failure) => {
            let text = match &failure.hint {
                Some(hint) => format!("{text} (hint: {hint})"),
                None => text,
            };
            match failure.exit {
                Exit::Usage => PyValueError::new_err(text),
                _ => GuaError::new_err(text),
            }
        }
        None if error.is::<OpenError>() || error.is::<ReadError>() => HistoryError::new_err(text),
        None => GuaError::new_err(text),
    }
}

/// A file that could not be written or read, with its name.
pub(crate) fn of_file(error: &io::Error, path: &std::path::Path) -> PyErr {
    // With a number Python makes the class that fits, such as PermissionError.
    let name = path.to_owned().into_os_string();
    match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, error.to_string(), name)),
        None => PyOSError::new_err(format!("{}: {error}", path.display())),
    }
}
