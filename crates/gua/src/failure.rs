//! Failures of commands: the error message, an optional hint and the exit code.

use std::path::Path;
use std::process::ExitCode;

use gua_collector::board::endpoint::ConnectError;
use gua_collector::chain::chain;
use gua_compat::LegacyError;
use gua_probe::fault::DriverFault;
use gua_query::{QueryError, RecordsError};
use gua_store::{FileKind, OpenError, ReadError, WriteError};
use thiserror::Error;

use crate::{output, which};

/// The exit codes that scripts may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command failed, or a check found a problem.
    Failed = 1,
    /// Usage error.
    Usage = 2,
    /// No GPU is available. An empty listing does not count: it is a success.
    Nothing = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Error with an exit code and an optional hint. All other errors exit with 1.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
    pub hint: Option<String>,
}

impl Failure {
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            message: message.into(),
            hint: None,
        }
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

/// Prints the error of `command` (such as `gua doctor`) to stderr and returns the exit code.
pub fn report(command: &str, error: &anyhow::Error) -> ExitCode {
    if error.is::<output::Closed>() {
        return ExitCode::SUCCESS;
    }
    let mut text = format!("{command}: {}\n", chain(error.as_ref()));
    if let Some(hint) = hint(error) {
        text.push_str(&format!("hint: {hint}\n"));
    }
    output::talk(&text);
    error
        .downcast_ref::<Failure>()
        .map_or(Exit::Failed, |failure| failure.exit)
        .into()
}

/// Converts the error of a query: a user's mistake is a usage error, an error of the store is shown unchanged.
#[must_use]
pub fn of_query(error: QueryError) -> anyhow::Error {
    match error {
        QueryError::NoSuchPerson { .. } => Failure::usage(format!("--user: {error}")).into(),
        QueryError::NoSuchGpu { .. }
        | QueryError::AmbiguousGpu { .. }
        | QueryError::AmbiguousRun { .. }
        | QueryError::NoRuns => Failure::usage(error.to_string()).into(),
        QueryError::NoSuchRun { .. } => Failure::usage(error.to_string())
            .hint("`gua runs list` lists them")
            .into(),
        QueryError::Open(source) => of_open(source),
        QueryError::Records(RecordsError::Read(source)) => of_store(source),
        other => other.into(),
    }
}

fn of_open(error: BoxedError) -> anyhow::Error {
    match error.downcast::<OpenError>() {
        Ok(error) => match *error {
            OpenError::Missing { path } => which::no_history(&path).into(),
            OpenError::NotOurs {
                path,
                kind:
                    kind @ (FileKind::Empty
                    | FileKind::OtherSqlite
                    | FileKind::NotSqlite
                    | FileKind::Directory),
            } => Failure::usage(format!("{} is {kind}, and no history", path.display()))
                .hint("--db PATH names another")
                .into(),
            other => other.into(),
        },
        Err(error) => of_store(error),
    }
}

type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// Converts an error of the store back to its own type, so that its hint is found.
fn of_store(error: BoxedError) -> anyhow::Error {
    let error = match error.downcast::<ReadError>() {
        Ok(error) => return (*error).into(),
        Err(error) => error,
    };
    match error.downcast::<LegacyError>() {
        Ok(error) => (*error).into(),
        Err(error) => anyhow::Error::from_boxed(error),
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
    let flag = db.map_or_else(String::new, |db| {
        let path = db.to_string_lossy();
        let path = shlex::try_quote(&path).unwrap_or_default();
        format!(" --db {path}")
    });
    format!(
        "if the file is a damaged history, `gua db set-aside{flag}` renames it and a collector can begin a new one"
    )
}
