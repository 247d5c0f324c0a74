//! `gua explain`: the state of one GPU, what was observed, and the rule behind it; now, or at a moment of the past.

mod json;
mod page;
mod words;

use std::process::ExitCode;

use gua_probe::clock;
use gua_query::{ExplainQuestion, Source as _};
use jiff::SignedDuration;
use jiff::tz::TimeZone;

use crate::cli::ExplainArgs;
use crate::config::Loaded;
use crate::failure::{self, Failure};
use crate::report::question::{moment, zone};
use crate::{driver, output, which};

pub fn run(args: &ExplainArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let now = clock::now();
    let zone = match &args.tz {
        None => TimeZone::system(),
        Some(name) => zone(name)?,
    };
    let settings = &loaded.settings;
    let source = which::source(loaded);
    let answer = match &args.at {
        None => {
            let sample = driver::sample(&mut driver::reader(settings))?;
            source.explain_sample(&args.gpu, &sample, settings.thresholds())
        }
        Some(text) => {
            let at = moment("--at", text, &zone, now)?.at;
            // No tick covers this very moment yet.
            let at = at.min(now - SignedDuration::from_micros(1));
            if at > now {
                return Err(Failure::usage("--at: that moment is yet to come").into());
            }
            let gpu = args.gpu.clone();
            source.explain(&ExplainQuestion { gpu, at, now })
        }
    };
    let answer = answer.map_err(failure::of_query)?;
    output::data(&match args.json {
        true => format!("{}\n", serde_json::to_string_pretty(&json::json(&answer))?),
        false => page::text(&answer, &zone),
    })?;
    Ok(ExitCode::SUCCESS)
}
