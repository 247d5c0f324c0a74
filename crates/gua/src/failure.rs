//! Errors of commands: the message, an optional hint and the exit code.

use std::path::Path;
use std::process::ExitCode;

use gua_collector::board::endpoint::ConnectError;
use gua_collector::daemon::DaemonError;
use gua_collector::location::{self, OpenFailure};
use gua_compat::LegacyError;
use gua_model::chain::chain;
use gua_probe::fault::DriverFault;
use gua_query::{QueryError, RecordsError};
use gua_store::{FileKind, OpenError, ReadError, WriteError};

use crate::output;

pub use gua_model::failure::{Exit, Failure};

/// Prints the error of `command` (such as `gua doctor`) to stderr and returns the exit code.
pub fn report(command: &str, error: &anyhow::Error) -> ExitCode {
    if error.is::<output::Closed>() {
        return ExitCode::SUCCESS;
    }
    let mut text = format!("{command}: {}\n", chain(error.as_ref()));
    if let Some(hint) = hint(error) {
        text.push_str(&format!("hint: {hint}\n"));
    }
    output::eprint(&text);
    error
        .downcast_ref::<Failure>()
        .map_or(Exit::Failed, |failure| failure.exit)
        .into()
}

/// Converts the error of a query: a user's mistake is a usage error, an error of the store is shown unchanged.
#[must_use]
pub fn of_query(error: QueryError) -> anyhow::Error {
    if let Some(failure) = location::usage_error(&error) {
        return failure.into();
    }
    match error {
        QueryError::Open(source) | QueryError::Records(RecordsError::Read(source)) => {
            of_store(source)
        }
        other => other.into(),
    }
}

/// Converts an error of the store back to its own type, so that its hint is found.
fn of_store(error: Box<dyn std::error::Error + Send + Sync>) -> anyhow::Error {
    let error = match error.downcast::<OpenError>() {
        Ok(error) => return (*error).into(),
        Err(error) => error,
    };
    let error = match error.downcast::<ReadError>() {
        Ok(error) => return (*error).into(),
        Err(error) => error,
    };
    match error.downcast::<LegacyError>() {
        Ok(error) => (*error).into(),
        Err(error) => anyhow::Error::from_boxed(error),
    }
}

/// Converts the error of a history that cannot be opened.
#[must_use]
pub fn of_open(error: OpenFailure) -> anyhow::Error {
    match error {
        OpenFailure::Usage(failure) => failure.into(),
        OpenFailure::Open(error) => error.into(),
    }
}

/// Converts the error of a collector to the error behind it, so that its hint is found.
#[must_use]
pub fn of_daemon(error: DaemonError) -> anyhow::Error {
    match error {
        DaemonError::Failure(error) => error.into(),
        DaemonError::Driver(error) => error.into(),
        DaemonError::Reported(error) => error.into(),
        DaemonError::Open(error) => error.into(),
        DaemonError::Read(error) => error.into(),
        DaemonError::Legacy(error) => error.into(),
        DaemonError::PidFile(error) => error.into(),
        error @ DaemonError::Write { .. } => error.into(),
    }
}

fn hint(error: &anyhow::Error) -> Option<String> {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.hint.clone();
    }
    error.chain().find_map(|cause| {
        if let Some(error) = cause.downcast_ref::<ConnectError>() {
            return error.hint().map(str::to_owned);
        }
        if let Some(WriteError::Damaged(_)) = cause.downcast_ref() {
            return Some(set_aside_hint(None));
        }
        match cause.downcast_ref() {
            // SQLite does not recognize a history with a damaged first page as a database.
            Some(
                OpenError::Damaged { path, .. }
                | OpenError::NotOurs {
                    path,
                    kind: FileKind::NotSqlite,
                },
            ) => Some(set_aside_hint(Some(path))),
            _ => cause
                .downcast_ref::<DriverFault>()?
                .hint()
                .map(str::to_owned),
        }
    })
}

/// Hint for a damaged history.
#[must_use]
pub fn set_aside_hint(db: Option<&Path>) -> String {
    let flag = db.map_or_else(String::new, |db| format!(" --db {}", quoted(db)));
    format!(
        "if the file is a damaged history, `gua db set-aside{flag}` renames it and a collector can start a new one"
    )
}

/// A path as a word of a shell command.
#[must_use]
pub fn quoted(path: &Path) -> String {
    let path = path.to_string_lossy();
    shlex::try_quote(&path).unwrap_or_default().into_owned()
}
