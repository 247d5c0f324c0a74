//! Errors of commands: the message, an optional hint and the exit code.

use std::path::Path;
use std::process::ExitCode;

use gua_collector::board::endpoint::ConnectError;
use gua_collector::location;
use gua_collector::log::Form;
use gua_model::chain::chain;
use gua_probe::fault::DriverFault;
use gua_settings::{FlagValue, Inputs, Loaded};
use gua_store::{FileKind, OpenError, WriteError, is_damage};

use crate::output;

pub use gua_model::failure::{Exit, Failure};

/// Prints the error of `command` (such as `gua doctor`) to stderr and returns the exit code.
pub fn report(command: &str, error: &anyhow::Error) -> ExitCode {
    report_as(Form::of_command(&Inputs::of_this_process()), command, error)
}

/// Prints the error of a server that was called with these flags, in the form of its log, and returns the exit code.
pub fn report_server(command: &str, flags: &[FlagValue], error: &anyhow::Error) -> ExitCode {
    let form = Form::of_server(&Loaded::of_this_process(flags));
    report_as(form, command, error)
}

fn report_as(form: Form, command: &str, error: &anyhow::Error) -> ExitCode {
    if error.is::<output::Closed>() {
        return ExitCode::SUCCESS;
    }
    // A user's mistake has its own message and exit code. Other errors of libraries are printed unchanged.
    let mistake = error.downcast_ref().and_then(location::usage_error);
    let failure = error.chain().find_map(|cause| cause.downcast_ref());
    let (message, failure) = match &mistake {
        Some(mistake) => (mistake.to_string(), Some(mistake)),
        None => (chain(error.as_ref()), failure),
    };
    let hint = match failure {
        Some(failure) => failure.hint.clone(),
        None => error.chain().find_map(hint),
    };
    output::eprint(&form.error(command, &message, hint.as_deref()));
    failure.map_or(Exit::Failed, |failure| failure.exit).into()
}

/// Success, or another code.
pub fn success_or(otherwise: Exit, succeeded: bool) -> ExitCode {
    match succeeded {
        true => ExitCode::SUCCESS,
        false => otherwise.into(),
    }
}

/// Hint for an error of a library.
fn hint(cause: &(dyn std::error::Error + 'static)) -> Option<String> {
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
}

/// Hint for a damaged history.
pub fn set_aside_hint(db: Option<&Path>) -> String {
    let flag = db.map_or_else(String::new, |db| format!(" --db {}", quoted(db)));
    format!(
        "if the file is a damaged history, `gua db set-aside{flag}` renames it and a collector can start a new one"
    )
}

/// Error with the hint for damaged files, but only if SQLite reports damage.
pub fn damaged(db: &Path, error: &(dyn std::error::Error + 'static)) -> anyhow::Error {
    Failure::failed(chain(error))
        .hint_if(is_damage(error).then(|| set_aside_hint(Some(db))))
        .into()
}

/// A path as a word of a shell command.
pub fn quoted(path: &Path) -> String {
    let path = path.to_string_lossy();
    shlex::try_quote(&path).unwrap_or_default().into_owned()
}
