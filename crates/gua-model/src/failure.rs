//! Why a command cannot do what it was asked to: a message, a hint, and the exit code that scripts rely on.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use crate::chain::chain;

/// Exit codes other than success.
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

/// Error with an exit code and an optional hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub exit: Exit,
    /// Name of the flag whose value is wrong, without dashes. In Python and in URLs it is the name of an argument.
    pub flag: Option<&'static str>,
    pub message: String,
    pub hint: Option<String>,
}

impl Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(flag) = self.flag {
            write!(out, "--{flag}: ")?;
        }
        out.write_str(&self.message)
    }
}

impl Failure {
    /// Error in the value of a flag, named without dashes.
    pub fn of_flag(flag: &'static str, message: impl Into<String>) -> Self {
        Self {
            flag: Some(flag),
            ..Self::usage(message)
        }
    }

    /// Returns the message, with the flag named as an argument: `since`, not `--since`.
    pub fn of_argument(&self) -> String {
        let Self { flag, message, .. } = self;
        flag.map_or_else(|| message.clone(), |name| format!("{name}: {message}"))
    }

    /// Error of the caller: an invalid flag, value or configuration.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            flag: None,
            message: message.into(),
            hint: None,
        }
    }

    /// Returns a function that says what failed because of an error: `cannot write `x`: no space left`.
    pub fn because<E: Error>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |error| Self::failed(format!("{what}: {}", chain(&error)))
    }

    /// Like [`Failure::because`], for a file: `cannot read `x`: permission denied`.
    pub fn cannot<E: Error>(what: &str, path: &Path) -> impl FnOnce(E) -> Self {
        Self::because(format!("cannot {what} `{}`", path.display()))
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.hint_if(Some(hint))
    }

    #[must_use]
    pub fn hint_if(self, hint: Option<impl Into<String>>) -> Self {
        Self {
            hint: hint.map(Into::into),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_names_its_flag_as_the_caller_knows_it() {
        let failure = Failure::of_flag("since", "no such date");
        assert_eq!(failure.to_string(), "--since: no such date");
        assert_eq!(failure.of_argument(), "since: no such date");
        let failure = Failure::failed("--since is in the text");
        assert_eq!(failure.of_argument(), failure.to_string());
    }
}
