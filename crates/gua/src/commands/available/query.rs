//! Which GPUs a caller wants: `gua available` passes its arguments, `gua run --claim` arguments of its own.

use crate::cli::{AvailableArgs, TableFormat};

/// A request for free GPUs.
#[derive(Debug)]
pub(crate) struct Query<'a> {
    /// The command that messages are prefixed with.
    pub(crate) prefix: &'static str,
    pub(crate) args: &'a AvailableArgs,
    /// Format of the answer on standard output; `None` prints no answer.
    pub(crate) format: Option<TableFormat>,
}
