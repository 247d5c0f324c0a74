//! `gua top`: the live view. gua-tui draws the screen and interprets keys; this module provides the driver, the history
//! and the signals.

mod events;
mod host;
mod panics;
mod record;
mod session;
mod signal;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use gua_model::Sample;
use gua_model::demo::month::{Month, TICKS_PER_SECOND};
use gua_probe::clock;
use gua_probe::fault::DriverFault;
use gua_probe::host as machine;
use gua_settings::Settings;
use gua_tui::{App, Palette, Rights, Setup, plain};
use jiff::tz::TimeZone;

use super::demo::{self, month::Recorded};
use crate::cli::TopArgs;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use host::HostWatch;
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
    if args.act_as_admin && !signal::me().is_root() {
        return Err(Failure::usage("--act-as-admin needs root").into());
    }
    if args.fake {
        return run_simulated(args, context);
    }
    let mut reader = context.reader();
    let samples: Samples = Box::new(move || reader.sample());
    show(args, context, samples, Record::find(context))
}

/// Shows the simulated GPUs of `gua demo`, as if its month ended now.
pub(super) fn run_simulated(args: &TopArgs, context: &Context) -> anyhow::Result<()> {
    let args = &TopArgs {
        fake: true,
        ..args.clone()
    };
    if !args.once {
        require_terminal()?;
    }
    let recorded = Recorded::write(context, Month::around(clock::now()))?;
    let record = Record::at(&recorded.db, context);
    let month = recorded.month;
    let samples: Samples = Box::new(move || Ok(month.sample(clock::now())));
    let shown = show(args, context, samples, Some(record));
    // The history is removed only now.
    drop(recorded.directory);
    shown
}

fn show(
    args: &TopArgs,
    context: &Context,
    samples: Samples,
    record: Option<Record>,
) -> anyhow::Result<()> {
    let setup = setup(args, context.settings(), record.is_some());
    if args.once {
        // The processes of simulated GPUs do not exist here.
        let host = (!args.fake).then(HostWatch::new);
        return once(setup, samples, record, host);
    }
    require_terminal()?;
    session::run(setup, samples, record)
}

/// Runs the live view with a source of samples and without history.
pub fn watch(args: &TopArgs, context: &Context, samples: Samples) -> anyhow::Result<()> {
    show(args, context, samples, None)
}

fn require_terminal() -> Result<(), Failure> {
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        return Ok(());
    }
    let message = "stdin and stdout must be a terminal";
    Err(Failure::usage(message).hint("`gua top --once` prints one screen as text"))
}

fn setup(args: &TopArgs, settings: &Settings, has_history: bool) -> Setup {
    let colour = match AutoStream::choice(&io::stdout()) {
        ColorChoice::Never => Palette::Plain,
        _ => Palette::Colour,
    };
    let rights = match args {
        _ if args.readonly || args.once => Rights::ReadOnly,
        _ if args.fake => Rights::Simulated,
        _ if args.act_as_admin => Rights::Admin(signal::me()),
        _ => Rights::Own(signal::me()),
    };
    let (host, ticks_per_second) = match args.fake {
        true => (demo::HOST.to_owned(), TICKS_PER_SECOND),
        false => (machine::name(), machine::time::ticks_per_second()),
    };
    Setup {
        host,
        interval: args.interval,
        thresholds: settings.thresholds(),
        ticks_per_second,
        zone: TimeZone::system(),
        palette: colour,
        rights,
        has_history,
    }
}

fn once(
    setup: Setup,
    mut samples: Samples,
    record: Option<Record>,
    host: Option<HostWatch>,
) -> anyhow::Result<()> {
    let ticks_per_second = setup.ticks_per_second;
    let mut app = App::new(setup, clock::now());
    let sample = samples()?;
    let since = record.map(|record| record.since(&sample, ticks_per_second));
    app.take_sample(sample);
    app.take_since(&since.unwrap_or_default());
    if let Some(mut host) = host {
        app.take_surroundings(host.look(&app.newest_processes()));
    }
    let now = clock::now();
    let columns = output::columns().and_then(|columns| u16::try_from(columns).ok());
    let width = columns.unwrap_or(PAPER_WIDTH);
    output::data(&plain::snapshot(&mut app, width, now))
}
