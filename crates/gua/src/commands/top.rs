//! `gua top`: the live view. gua-tui draws the screen and interprets keys; this module provides the driver, the history
//! and the signals.

mod events;
mod session;
mod signal;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use gua_collector::listing;
use gua_model::demo::month::{Month, TICKS_PER_SECOND};
use gua_model::period::Period;
use gua_model::since::Since;
use gua_model::{Bytes, GpuUuid, ProcessKey, Sample, Tick};
use gua_probe::fault::DriverFault;
use gua_probe::host as machine;
use gua_probe::host::processor::{ProcessorTime, processor_time};
use gua_probe::host::{HostRoot, memory};
use gua_probe::process::ProcRoot;
use gua_probe::process::command::usage;
use gua_query::{Source, TicksQuestion};
use gua_render::listing::row::Terms;
use gua_settings::Settings;
use gua_store::{FileKind, what_is_this};
use gua_tui::surroundings::{HostLoad, ProcessUse};
use gua_tui::timeline::Source as Seen;
use gua_tui::{App, Moment, Palette, Rights, Setup, Surroundings, plain};
use jiff::Timestamp;

use crate::commands::MIN_VIEW_INTERVAL;
use crate::commands::prelude::*;
use crate::simulated::{HOST, SimulatedMonth};

/// Source of samples, called once per interval on its own thread.
pub type Samples = Box<dyn FnMut() -> Result<Sample, DriverFault> + Send>;

/// Width of `--once` output if stdout is not a terminal.
const PAPER_WIDTH: u16 = 100;

pub fn run(args: &TopArgs, context: &Context) -> anyhow::Result<()> {
    if args.interval < MIN_VIEW_INTERVAL {
        bail!(Failure::usage("--interval must be at least 100ms"));
    }
    if args.act_as_admin && !signal::me().is_root() {
        bail!(Failure::usage("--act-as-admin needs root"));
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
    let recorded = SimulatedMonth::write(context, Month::around(clock::now()))?;
    let record = Record {
        path: recorded.db,
        settings: context.settings().clone(),
    };
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
    let setup = setup(args, context, record.is_some());
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

fn setup(args: &TopArgs, context: &Context, has_history: bool) -> Setup {
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
        true => (HOST.to_owned(), TICKS_PER_SECOND),
        false => (machine::name(), machine::time::ticks_per_second()),
    };
    Setup {
        host,
        interval: args.interval,
        thresholds: context.settings().thresholds(),
        ticks_per_second,
        zone: context.zone(),
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
        app.take_surroundings(host.read(&app.newest_processes()));
    }
    let now = clock::now();
    let columns = output::columns().and_then(|columns| u16::try_from(columns).ok());
    let width = columns.unwrap_or(PAPER_WIDTH);
    output::data(&plain::snapshot(&mut app, width, now))
}

/// Time ranges that are searched one after another until ticks are found.
const REACH: [Duration; 4] = [
    Duration::from_hours(1),
    Duration::from_hours(24),
    Duration::from_hours(24 * 7),
    Duration::from_hours(24 * 90),
];

/// Ticks in one page.
const PAGE: u32 = 240;

/// An existing history of gua.
#[derive(Clone, Debug)]
struct Record {
    path: PathBuf,
    settings: Settings,
}

impl Record {
    /// Finds the configured history, else that of the running daemon, else the host's.
    pub(super) fn find(context: &Context) -> Option<Self> {
        let path = context.history();
        let settings = context.settings().clone();
        let is_there = location::service(&path, &settings).is_some()
            || matches!(what_is_this(&path), FileKind::OurHistory { .. });
        is_there.then_some(Self { path, settings })
    }

    fn source(&self) -> Box<dyn Source> {
        location::source_at(&self.path, &self.settings)
    }

    /// Last moments before a time, in chronological order; may be empty.
    pub(super) fn page_before(&self, before: Timestamp) -> Vec<Moment> {
        let mut pages = REACH.iter().map(|reach| {
            let from = before.checked_sub(*reach).unwrap_or(Timestamp::MIN);
            let question = TicksQuestion {
                window: Period::new(from, before),
                limit: PAGE,
            };
            // The file may be damaged or deleted by now; the view continues without it.
            self.source().ticks(&question).unwrap_or_default()
        });
        let moment = |tick: Tick| Moment {
            sample: tick.sample,
            interval: tick.interval,
            source: Seen::Recorded,
        };
        let page = pages.find(|page| !page.is_empty());
        page.into_iter().flatten().map(moment).collect()
    }

    /// Start times of the states of the GPUs in a sample; empty if unknown.
    pub(super) fn since(&self, sample: &Sample, ticks_per_second: u64) -> BTreeMap<GpuUuid, Since> {
        let terms = Terms {
            thresholds: self.settings.thresholds(),
            ticks_per_second,
        };
        listing::start_times(self.source().as_ref(), sample, &terms)
    }
}

/// Reads the host. CPU use is the difference from the last sample, so the first one has none.
#[derive(Debug)]
struct HostWatch {
    root: HostRoot,
    /// Time of the last sample on the monotonic clock, and the CPU time of each process then.
    before: Option<(Duration, HashMap<ProcessKey, Duration>)>,
    cpu_before: Option<ProcessorTime>,
}

impl HostWatch {
    pub(super) fn new() -> Self {
        Self {
            root: HostRoot::real(),
            before: None,
            cpu_before: None,
        }
    }

    /// Samples the host and these processes.
    pub(super) fn read(&mut self, processes: &[ProcessKey]) -> Surroundings {
        let now = clock::monotonic();
        let root = ProcRoot::default();
        let mut spent = HashMap::new();
        let mut found = HashMap::new();
        for key in processes {
            let Ok(used) = usage(&root, key) else {
                continue;
            };
            let cpu_percent = self.before.as_ref().and_then(|(at, before)| {
                let passed = now.checked_sub(*at)?;
                percent(used.cpu.checked_sub(*before.get(key)?)?, passed)
            });
            spent.insert(*key, used.cpu);
            let command = used.command.map(|line| line.to_string());
            let process = ProcessUse {
                parent: used.parent,
                cpu_percent,
                memory: used.memory,
                command: command.unwrap_or_default(),
            };
            found.insert(*key, process);
        }
        self.before = Some((now, spent));
        Surroundings {
            host: self.host(),
            processes: found,
        }
    }

    fn host(&mut self) -> HostLoad {
        let cpu = processor_time(&self.root).ok();
        let shares = cpu.zip(self.cpu_before);
        let shares = shares.and_then(|(now, before)| now.since(&before));
        self.cpu_before = cpu;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a percentage between 0 and 100"
        )]
        let busy = |idle: f64| (100.0 - idle).clamp(0.0, 100.0).round() as u32;
        let memory = memory::memory(&self.root).ok();
        HostLoad {
            cpu_percent: shares.map(|shares| busy(shares.idle_pct)),
            load: memory::load(&self.root).ok(),
            memory: memory.map(|memory| {
                let used = memory.total.0.saturating_sub(memory.available.0);
                (Bytes(used), memory.total)
            }),
        }
    }
}

/// Returns the CPU time as a share of the passed time; 100 is one CPU.
fn percent(spent: Duration, passed: Duration) -> Option<u32> {
    let share = (spent.as_micros() * 100).checked_div(passed.as_micros())?;
    u32::try_from(share).ok()
}

#[cfg(test)]
mod tests {
    use gua_model::Pid;
    use gua_probe::process::ProcessTable;

    use super::*;

    #[test]
    fn cpu_use_is_the_time_between_two_samples() {
        let second = Duration::from_secs(1);
        assert_eq!(percent(second / 2, second), Some(50));
        assert_eq!(percent(second * 7, second), Some(700));
        assert_eq!(percent(second, Duration::ZERO), None);
        let mut table = ProcessTable::default();
        let own = table.resolve(Pid(std::process::id())).unwrap().key;
        let mut watch = HostWatch::new();
        let first = watch.read(&[own]);
        assert_eq!(first.processes[&own].cpu_percent, None);
        assert!(first.host.memory.is_some_and(|(used, total)| used < total));
        assert!(first.processes[&own].memory > Bytes(100_000));
        let later = watch.read(&[own]);
        assert!(later.processes[&own].cpu_percent.is_some());
    }
}
