//! Environment variables that `gua run` sets for the job it watches.

/// Number of the descriptor that the job writes its phase marks to.
pub const DESCRIPTOR_VARIABLE: &str = "GUA_RUN_FD";

/// Path of the same pipe, for processes that closed their inherited descriptors.
pub const PIPE_VARIABLE: &str = "GUA_RUN_PIPE";

/// Identifier of the run.
pub const RUN_VARIABLE: &str = "GUA_RUN_ID";
