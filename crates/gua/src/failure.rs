//! How a failed command ends: its sentence, its hint, its exit code.

use std::path::Path;
use std::process::ExitCode;

use gua_collector::board::endpoint::ConnectError;
use gua_collector::chain::chain;
use gua_probe::fault::DriverFault;
use gua_store::{FileKind, OpenError, WriteError};
use thiserror::Error;

use crate::output;

/// The exit codes that scripts may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It could not be done, or a check found something.
    Failed = 1,
    /// The command was used wrongly.
    Usage = 2,
    /// No GPU is available. An empty listing is not this: it is a success.
    Nothing = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// An error that knows its exit code, and perhaps what to do about it. Any other error ends with 1.
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

/// Says on stderr what went wrong in `command` (such as `gua doctor`), once, and returns the code to end with.
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
            // A history whose first page is torn is no database any more.
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

/// What can be done about a history that is damaged.
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
