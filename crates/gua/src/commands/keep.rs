//! `gua keep` and `gua nudge`: what holders of idle GPUs say, and what others ask them.

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

pub fn nudge(args: &NudgeArgs, context: &Context) -> anyhow::Result<()> {
    let sample = context.sample()?;
    output::data(&notes::nudge(&context.loaded, &sample, &args.user)?)
}
