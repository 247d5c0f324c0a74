//! `gua keep`: tells other users that idle-held GPUs are still needed.

use gua_collector::notes;

use crate::commands::prelude::*;

pub fn run(args: &KeepArgs, context: &Context) -> anyhow::Result<()> {
    let settings = context.settings();
    let text = match (args.length, &args.why) {
        (Some(length), Some(why)) => notes::keep(settings, &context.sample()?, length, why)?,
        _ => notes::unkeep(settings)?,
    };
    output::data(&text)
}
