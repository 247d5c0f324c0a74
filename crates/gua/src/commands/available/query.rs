//! Which GPUs a caller wants: `gua available` passes its arguments, `gua run --claim` arguments of its own.

use std::fmt::Display;

use crate::cli::{AvailableArgs, TableFormat};
use crate::context::Context;
use crate::output;

/// A request for free GPUs.
#[derive(Debug)]
pub(crate) struct Query<'a> {
    /// The command that messages are prefixed with.
    pub(crate) prefix: &'static str,
    pub(crate) args: &'a AvailableArgs,
    /// Format of the answer on standard output; `None` prints no answer.
    pub(crate) format: Option<TableFormat>,
    pub(crate) context: &'a Context,
}

impl Query<'_> {
    /// A message of this command.
    pub(super) fn line(&self, message: impl Display) -> String {
        format!("{}: {message}\n", self.prefix)
    }

    /// Prints messages for people, unless `--quiet` is given.
    pub(super) fn eprint(&self, text: impl FnOnce() -> String) {
        if !self.args.quiet {
            output::eprint(&text());
        }
    }

    /// The exact number of GPUs that is wanted, if it is given.
    pub(super) fn count(&self) -> Option<usize> {
        let count = self.args.count?;
        Some(usize::try_from(count).unwrap_or(usize::MAX))
    }
}
