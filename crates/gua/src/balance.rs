//! Warning about GPUs that an answer leaves out, because their stored hours do not add up.

use std::process::ExitCode;

use gua_model::GpuUuid;
use gua_model::text::sanitize;

use crate::cli::StrictArgs;
use crate::failure::{Exit, success_or};
use crate::output;

/// Prints a warning that names the GPUs, if there are any.
pub(crate) fn warn<'a>(prefix: &str, gpus: impl IntoIterator<Item = &'a GpuUuid>) {
    let gpus: Vec<String> = gpus.into_iter().map(|gpu| sanitize(gpu.as_str())).collect();
    if !gpus.is_empty() {
        output::eprint(&format!(
            "{prefix}: warning: left out, because states and gaps do not add up to the capacity: {}\n\
             hint: `gua db check` says why, and `gua db repair` recomputes the totals and sessions from the ticks\n",
            gpus.join(", ")
        ));
    }
}

/// Exit code of an answer that leaves out these GPUs; prints the warning.
pub(crate) fn exit_code(prefix: &str, gpus: &[GpuUuid], args: &StrictArgs) -> ExitCode {
    warn(prefix, gpus);
    success_or(Exit::Failed, !args.strict || gpus.is_empty())
}
