//! `gua explain`: the state of one GPU, the observations and the rule behind it; now, or at a time in the past.

use gua_collector::notes;
use gua_query::words::{moment, zone};
use gua_query::{ExplainQuestion, SampleQuestion};
use gua_render::explain::json::json;
use gua_render::explain::text;
use jiff::SignedDuration;

use crate::commands::prelude::*;

pub fn run(args: &ExplainArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let now = clock::now();
    let zone = zone(args.tz.as_deref(), context.zone())?;
    let mut live = None;
    let answer = match &args.at {
        None => {
            let sample = context.sample()?;
            live = Some(sample.clone());
            let question = SampleQuestion {
                gpu: args.gpu.clone(),
                sample,
                thresholds: context.settings().thresholds(),
            };
            context.ask(|source| source.explain_sample(&question))
        }
        Some(text) => {
            let at = moment("at", text, &zone, now)?.at;
            // No tick covers this very moment yet.
            let at = at.min(now - SignedDuration::from_micros(1));
            if at > now {
                bail!(Failure::usage("--at is in the future"));
            }
            let gpu = args.gpu.clone();
            context.ask(|source| source.explain(&ExplainQuestion { gpu, at, now }))
        }
    }?;
    let keeps = live.map_or_else(Vec::new, |sample| {
        notes::of_sample(context.settings(), &sample, answer.gpu.uuid.as_ref())
    });
    output::data(&match args.json {
        true => json(&answer, &keeps),
        false => output::wrapped(text(&answer, &keeps, &zone)),
    })?;
    Ok(ExitCode::SUCCESS)
}
