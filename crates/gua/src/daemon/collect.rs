//! Runs one collector from its arguments to its last line. The order of the steps is part of the contract: nothing is
//! created before the history was checked, and no history before the driver has answered.

use std::fs::File;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use gua_collector::csv::{CsvOptions, CsvSink, DayFiles};
use gua_collector::events::Events;
use gua_collector::log_file::LogFile;
use gua_collector::outage_file::OutageFile;
use gua_collector::pid_file::PidFile;
use gua_collector::{Collector, HostRuntime, Options};
use gua_model::Sample;
use gua_probe::host;
use gua_probe::reader::{Reader, ReaderOptions};
use jiff::tz::TimeZone;
use tracing::{info, warn};

use super::board_link::{Cloud, Link};
use super::observer::{ANSWERED, DaemonObserver, fixed, log_bytes, options};
use super::{Append, history, make_directory_of};
use crate::commands::csv;
use crate::config::{FlagValue, Loaded, Settings};
use crate::driver;
use crate::duration::Clockwise;
use crate::log;

/// Arguments of one collector.
pub(super) struct Job {
    pub(super) loaded: Loaded,
    pub(super) flags: Vec<FlagValue>,
    /// Path of the history as typed, for the last line.
    pub(super) typed_db: Option<PathBuf>,
    pub(super) append: Append,
    pub(super) cloud: Cloud,
    pub(super) mode: Mode,
}

/// How a collector runs.
pub(super) enum Mode {
    Foreground,
    /// `starter` is the pipe to the command that waits for the start.
    Background {
        starter: File,
    },
}

pub(super) fn run(job: Job) -> anyhow::Result<ExitCode> {
    let Loaded {
        settings, inputs, ..
    } = &job.loaded;
    let place = history::Place::of(&settings.history.db.value, inputs.home.as_deref());
    place.admit(job.append)?;
    if place.is_default() {
        make_directory_of(place.path())?;
    }
    let link = Link::configure(job.cloud, &job.loaded)?;
    let (log, mut starter, pid_file) = match job.mode {
        Mode::Foreground => (None, None, None),
        Mode::Background { starter } => {
            let pid_file = PidFile::at(&settings.collect.pid_file.value).lock(std::process::id())?;
            let path = &settings.collect.log_file.value;
            let log = LogFile::open(path, log_bytes(settings))
                .with_context(|| format!("cannot write the log `{}`", path.display()))?;
            (Some(log), Some(starter), Some(pid_file))
        }
    };
    let format = settings.collect.log_format.value;
    log::start(log::Form::choose(format, inputs.variable("JOURNAL_STREAM")));
    let mut runtime =
        HostRuntime::new(Reader::new(reader(settings))).context("cannot wait for signals")?;
    let Some(answer) = runtime.first_read() else {
        return Ok(ExitCode::SUCCESS);
    };
    let sample = match (answer, &link) {
        (Err(fault), Some(link)) => return Err(link.report_fault(fault)),
        (answer, _) => answer?,
    };
    if let Some(starter) = &mut starter {
        // The command may have stopped waiting.
        let _ = writeln!(starter, "{ANSWERED}");
    }
    let options = options(settings);
    let observer = DaemonObserver {
        inputs: inputs.clone(),
        flags: job.flags,
        thresholds: options.thresholds,
        history: place.clone(),
        typed_db: job.typed_db.unwrap_or_else(|| place.path().to_owned()),
        log,
        starter,
        // `gua status` only finds a daemon with a PID file. If this file cannot be created, it shows less.
        outage: pid_file
            .is_some()
            .then(|| OutageFile::create(&settings.collect.pid_file.value).ok())
            .flatten(),
        fixed: fixed(settings),
    };
    match import_old(&place, &options, &runtime, &observer) {
        Err(error) if runtime.stop_requested() => {
            warn!(error = %format_args!("{error:#}"), "stopped during the import");
            return Ok(ExitCode::SUCCESS);
        }
        imported => imported?,
    }
    let events = Events::in_directory(settings.claim.dir.value.clone());
    let history = place
        .open(job.append, &sample, &options)?
        .with_events(events);
    log_start(&sample, settings);
    if let Some(link) = &link {
        let board = link.named();
        let line = format!("cloud sync enabled -> {board}");
        info!(board, line, "cloud sync enabled");
    }
    let beats = sd_notify::watchdog_enabled().filter(|allowed| !allowed.is_zero());
    let csv = daily_csv(settings, &options);
    let mut collector = Collector::new(runtime, observer, options)
        .with_sink(Box::new(history))
        .with_heartbeat(beats.map(|allowed| allowed / 2));
    if let Some(csv) = csv {
        collector = collector.with_sink(Box::new(csv));
    }
    if let Some(link) = link {
        let board = link.start(place.path(), reader(settings))?;
        collector = collector.with_sink(Box::new(board));
    }
    let summary = collector.run();
    if summary.lost > 0 {
        warn!(ticks_lost = summary.lost, "ticks were lost during this run");
    }
    // The PID file is removed last: while it exists, the daemon may still be running.
    drop(pid_file);
    Ok(ExitCode::SUCCESS)
}

/// The sink of the daily CSV, if configured. A failure loses rows but no ticks.
fn daily_csv(settings: &Settings, options: &Options) -> Option<CsvSink> {
    let directory = settings.csv.dir.value.as_ref()?;
    let sink = CsvSink::new(CsvOptions {
        files: DayFiles::new(directory, csv::form(settings)),
        every: settings.csv.every.value,
        zone: TimeZone::system(),
        thresholds: options.thresholds,
    });
    match sink {
        Ok(sink) => {
            info!(directory = %directory.display(), "daily CSV enabled");
            Some(sink)
        }
        Err(error) => {
            warn!(%error, "cannot start the daily CSV");
            None
        }
    }
}

/// Imports a history of gpu-usage-audit at the default path into a new file.
fn import_old(
    place: &history::Place,
    options: &Options,
    runtime: &HostRuntime,
    observer: &DaemonObserver,
) -> anyhow::Result<()> {
    let mut is_logged = false;
    let adopted = place.adopt_old(options, &mut |progress| {
        if !std::mem::replace(&mut is_logged, true) {
            let rows = progress.rows_total;
            info!(rows, "importing a history of gpu-usage-audit");
        }
        observer.extend_start();
        if runtime.stop_requested() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    if let Some(adopted) = adopted {
        let renamed_to = adopted.old_renamed_to.display();
        info!(%renamed_to, "history of gpu-usage-audit imported and verified");
    }
    Ok(())
}

fn reader(settings: &Settings) -> ReaderOptions {
    let options = driver::options(settings);
    // A delay that ends well before the next tick loses no tick that the driver would have answered, even if the next
    // attempt hangs for a while. Short intervals get short delays.
    let longest_pause = (settings.collect.interval.value / 4).min(options.longest_pause);
    ReaderOptions {
        first_pause: options.first_pause.min(longest_pause),
        longest_pause,
        ..options
    }
}

fn log_start(sample: &Sample, settings: &Settings) {
    let driver = sample.driver.version.as_deref().unwrap_or("unknown");
    let interval = Clockwise(settings.collect.interval.value);
    // The text form of this record is that of gpu-usage-audit.
    info!(host = host::name(), env = "bare", driver, %interval, "daemon started");
}
