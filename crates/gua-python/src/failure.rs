//! Converts errors to Python exceptions. The classes are in `gua/errors.py`.

use std::io;

use gua_collector::location::{self, OpenFailure};
use gua_compat::LegacyError;
use gua_model::chain::chain;
use gua_model::failure::{Exit, Failure};
use gua_probe::fault::DriverFault;
use gua_query::{QueryError, RecordsError};
use pyo3::exceptions::{PyIsADirectoryError, PyOSError, PyValueError};
use pyo3::{PyErr, import_exception};

import_exception!(gua.errors, DriverError);
import_exception!(gua.errors, DriverMissing);
import_exception!(gua.errors, DriverTimeout);
import_exception!(gua.errors, GuaError);
import_exception!(gua.errors, HistoryError);

/// Error for a driver that did not answer.
pub(crate) fn of_driver(fault: &DriverFault) -> PyErr {
    let text = match fault.hint() {
        Some(hint) => format!("{fault} (hint: {hint})"),
        None => fault.to_string(),
    };
    match fault {
        // A call during the back-off gets the reason, and not the remaining delay.
        DriverFault::BackingOff { last, .. } => of_driver(last),
        DriverFault::LibraryNotFound { .. } => DriverMissing::new_err(text),
        DriverFault::Hung { .. } => DriverTimeout::new_err(text),
        _ => DriverError::new_err(text),
    }
}

/// Error of a command. Flags of the program are arguments here.
pub(crate) fn of_command(failure: &Failure) -> PyErr {
    let text = failure.of_argument();
    let text = match &failure.hint {
        Some(hint) => format!("{text} (hint: {hint})"),
        None => text,
    };
    match failure.exit {
        Exit::Usage => PyValueError::new_err(text),
        _ => GuaError::new_err(text),
    }
}

/// Error for a question that a history cannot answer.
pub(crate) fn of_query(error: &QueryError) -> PyErr {
    if let Some(failure) = location::usage_error(error) {
        return of_command(&failure);
    }
    match error {
        QueryError::Open(source) | QueryError::Records(RecordsError::Read(source))
            if !source.is::<LegacyError>() =>
        {
            HistoryError::new_err(chain(&**source))
        }
        QueryError::Open(source) | QueryError::Records(RecordsError::Read(source)) => {
            GuaError::new_err(chain(&**source))
        }
        error => GuaError::new_err(chain(error)),
    }
}

/// Error for a history that cannot be opened.
pub(crate) fn of_open(error: &OpenFailure) -> PyErr {
    match error {
        OpenFailure::Usage(failure) => of_command(failure),
        OpenFailure::Open(error) => HistoryError::new_err(chain(error)),
    }
}

/// Error for a file that could not be written or read, with its name.
pub(crate) fn of_file(error: &io::Error, path: &std::path::Path) -> PyErr {
    // With an error number, Python chooses the matching class, such as PermissionError.
    let name = path.to_owned().into_os_string();
    match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, error.to_string(), name)),
        None if error.kind() == io::ErrorKind::IsADirectory => {
            PyIsADirectoryError::new_err(format!("{}: {error}", path.display()))
        }
        None => PyOSError::new_err(format!("{}: {error}", path.display())),
    }
}
