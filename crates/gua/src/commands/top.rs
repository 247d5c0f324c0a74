//! `gua top`: the live view. gua-tui draws the screen and interprets keys; this module provides the driver, the history
//! and the signals.

mod events;
mod panics;
mod record;
mod session;
mod signal;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use gua_model::Sample;
use gua_model::demo::{self, Script};
use gua_probe::fault::DriverFault;
use gua_probe::{clock, host};
use gua_settings::Settings;
use gua_tui::{App, Palette, Rights, Setup, plain};
use jiff::tz::TimeZone;

use crate::cli::TopArgs;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use record::Record;

/// Source of samples, called once per interval on its own thread.
pub type Samples = Box<dyn FnMut() -> Result<Sample, DriverFault> + Send>;

/// Minimum interval; a shorter one would keep the driver busy.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// Width of `--once` output if stdout is not a terminal.
const PAPER_WIDTH: u16 = 100;

pub fn run(args: &TopArgs, context: &Context) -> anyhow::Result<()> {
    if args.interval < SHORTEST_INTERVAL {
        return Err(Failure::usage("--interval must be at least 100ms").into());
    }
    let samples: Samples = match args.fake {
        true => Box::new(|| Ok(simulated())),
        false => {
            let mut reader = context.reader();
            Box::new(move || reader.sample())
        }
    };
    match args.once {
        true => once(args, context, samples),
        false => watch(args, context, samples),
    }
}

/// Runs the live view with a source of samples.
pub fn watch(args: &TopArgs, context: &Context, samples: Samples) -> anyhow::Result<()> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let message = "stdin and stdout must be a terminal";
        return Err(Failure::usage(message)
            .hint("`gua top --once` prints one screen as text")
            .into());
    }
    let record = record(args, context);
    let setup = setup(args, context.settings(), record.is_some());
    session::run(setup, samples, record)
}

fn record(args: &TopArgs, context: &Context) -> Option<Record> {
    match args.fake {
        true => None,
        false => Record::find(context),
    }
}

/// Simulated sample. As in gpu-usage-audit, the current second selects the phase.
fn simulated() -> Sample {
    let now = clock::now();
    let phase = now.as_second().rem_euclid(5).unsigned_abs();
    demo::sample(Script::V1_8, phase, now, clock::since_boot())
}

fn setup(args: &TopArgs, settings: &Settings, has_history: bool) -> Setup {
    let colour = match AutoStream::choice(&io::stdout()) {
        ColorChoice::Never => Palette::Plain,
        _ => Palette::Colour,
    };
    let rights = match args {
        _ if args.readonly || args.once => Rights::ReadOnly,
        _ if args.fake => Rights::Simulated,
        _ => Rights::Own(signal::me()),
    };
    Setup {
        host: host::name(),
        interval: args.interval,
        thresholds: settings.thresholds(),
        ticks_per_second: host::time::ticks_per_second(),
        zone: TimeZone::system(),
        palette: colour,
        rights,
        has_history,
    }
}

fn once(args: &TopArgs, context: &Context, mut samples: Samples) -> anyhow::Result<()> {
    let record = record(args, context);
    let setup = setup(args, context.settings(), record.is_some());
    let mut app = App::new(setup, clock::now());
    let sample = samples()?;
    let since = record.map(|record| record.since(&sample));
    app.take_sample(sample);
    app.take_since(&since.unwrap_or_default());
    let now = clock::now();
    let columns = output::columns().and_then(|columns| u16::try_from(columns).ok());
    let width = columns.unwrap_or(PAPER_WIDTH);
    output::data(&plain::snapshot(&mut app, width, now))
}
