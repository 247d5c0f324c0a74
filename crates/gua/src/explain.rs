//! `gua explain`: the state of one card, what was seen, and the rule behind it; now, or at a moment of the past.

pub mod answer;
mod json;
mod now;
mod old;
mod page;
mod past;
mod words;

use std::process::ExitCode;

use gua_probe::clock;
use jiff::SignedDuration;
use jiff::tz::TimeZone;

use crate::cli::ExplainArgs;
use crate::config::Loaded;
use crate::failure::Failure;
use crate::output;
use crate::report::ask;

pub fn run(args: &ExplainArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let now = clock::now();
    let zone = match &args.tz {
        None => TimeZone::system(),
        Some(name) => ask::zone(name)?,
    };
    let answer = match &args.at {
        None => now::answer(&args.gpu, loaded)?,
        Some(text) => {
            let at = ask::moment("--at", text, &zone, now)?.at;
            // This very moment belongs to no tick yet.
            let at = at.min(now - SignedDuration::from_micros(1));
            if at > now {
                return Err(Failure::usage("--at: that moment is yet to come").into());
            }
            past::answer(&args.gpu, at, now, loaded)?
        }
    };
    output::data(&match args.json {
        true => format!("{}\n", serde_json::to_string_pretty(&json::json(&answer))?),
        false => page::text(&answer, &zone),
    })?;
    Ok(ExitCode::SUCCESS)
}
