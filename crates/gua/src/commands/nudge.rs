//! `gua nudge`: asks a user whether the GPUs that they hold idle are still needed.

use gua_collector::notes;

use crate::commands::prelude::*;

pub fn run(args: &NudgeArgs, context: &Context) -> anyhow::Result<()> {
    let sample = context.sample()?;
    output::data(&notes::nudge(&context.loaded, &sample, &args.user)?)
}
