//! One collector, from its arguments to its last line. The order of the steps is a promise: nothing is created before
//! the history was looked at, and no history before the driver has answered.

use std::fs::File;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use gua_collector::csv::{CsvOptions, CsvSink, DayFiles};
use gua_collector::events::Events;
use gua_collector::pid_file::PidFile;
use gua_collector::systemd::{Notifier, heartbeat};
use gua_collector::{Collector, HostRuntime, Observer as _, Options};
use gua_model::Sample;
use gua_model::text::counted;
use gua_probe::reader::{Reader, ReaderOptions};
use gua_probe::{clock, host};
use jiff::tz::TimeZone;

use super::board_link::{Cloud, Link};
use super::log_file::LogFile;
use super::observer::{ANSWERED, DaemonObserver, fixed, log_bytes, log_line, options};
use super::outage_file::OutageFile;
use super::{Append, history, make_directory_of};
use crate::commands::csv;
use crate::config::{FlagValue, Loaded, Settings};
use crate::driver;
use crate::duration::Clockwise;
use crate::output;

/// What is to be collected where.
pub(super) struct Job {
    pub(super) loaded: Loaded,
    pub(super) flags: Vec<FlagValue>,
    /// The history as it was typed, for the last line.
    pub(super) typed_db: Option<PathBuf>,
    pub(super) append: Append,
    pub(super) cloud: Cloud,
    pub(super) setting: Setting,
}

/// Where a collector runs.
pub(super) enum Setting {
    Foreground,
    /// With the pipe to the command that waits for the start.
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
    let link = Link::settle(job.cloud, &job.loaded)?;
    let (log, mut starter, held) = match job.setting {
        Setting::Foreground => (None, None, None),
        Setting::Background { starter } => {
            let held = PidFile::at(&settings.collect.pid_file.value).take(std::process::id())?;
            let path = &settings.collect.log_file.value;
            let log = LogFile::open(path, log_bytes(settings))
                .with_context(|| format!("cannot write the log `{}`", path.display()))?;
            (Some(log), Some(starter), Some(held))
        }
    };
    let mut runtime =
        HostRuntime::new(Reader::new(reader(settings))).context("cannot wait for signals")?;
    let Some(answer) = runtime.first_answer() else {
        return Ok(ExitCode::SUCCESS);
    };
    let sample = match (answer, &link) {
        (Err(fault), Some(link)) => return Err(link.tell_of(fault)),
        (answer, _) => answer?,
    };
    if let Some(starter) = &mut starter {
        // It may have stopped waiting.
        let _ = writeln!(starter, "{ANSWERED}");
    }
    let options = options(settings);
    let mut observer = DaemonObserver {
        notifier: notifier(&job.loaded),
        inputs: inputs.clone(),
        flags: job.flags,
        thresholds: options.thresholds,
        history: place.clone(),
        typed_db: job.typed_db.unwrap_or_else(|| place.path().to_owned()),
        log,
        starter,
        // Only a daemon with a pid file is asked for its status; without this file it says less.
        trouble: held
            .is_some()
            .then(|| OutageFile::make(&settings.collect.pid_file.value).ok())
            .flatten(),
        fixed: fixed(settings),
    };
    match take_over(&place, &options, &runtime, &mut observer) {
        Err(error) if runtime.stop_requested() => {
            observer.note(&format!("{error:#}"));
            return Ok(ExitCode::SUCCESS);
        }
        taken_over => taken_over?,
    }
    let events = Events::in_directory(settings.claim.dir.value.clone());
    let history = place
        .open(job.append, &sample, &options)?
        .with_events(events);
    observer.note(&started(&sample, settings));
    if let Some(link) = &link {
        observer.note(&format!("cloud sync enabled -> {}", link.named()));
    }
    let own_pid = std::process::id();
    let beats = heartbeat(
        inputs.variable("WATCHDOG_USEC"),
        inputs.variable("WATCHDOG_PID"),
        own_pid,
    );
    let csv = daily_csv(settings, &options, &mut observer);
    let mut collector = Collector::new(runtime, observer, options)
        .with_sink(Box::new(history))
        .with_heartbeat(beats);
    if let Some(csv) = csv {
        collector = collector.with_sink(Box::new(csv));
    }
    if let Some(link) = link {
        let board = link.start(place.path(), reader(settings))?;
        collector = collector.with_sink(Box::new(board));
    }
    let summary = collector.run();
    if summary.lost > 0 {
        let text = lost(summary.lost);
        output::talk(&log_line(clock::now(), &TimeZone::system(), &text));
    }
    // The pid file goes last: as long as it is there, something of us is.
    drop(held);
    Ok(ExitCode::SUCCESS)
}

/// The daily CSV, where it is asked for. Whatever is wrong with it costs rows and no tick.
fn daily_csv(
    settings: &Settings,
    options: &Options,
    observer: &mut DaemonObserver,
) -> Option<CsvSink> {
    let directory = settings.csv.dir.value.as_ref()?;
    let sink = CsvSink::new(CsvOptions {
        files: DayFiles::new(directory, csv::form(settings)),
        every: settings.csv.every.value,
        zone: TimeZone::system(),
        thresholds: options.thresholds,
    });
    match sink {
        Ok(sink) => {
            let directory = directory.display();
            observer.note(&format!("the daily CSV goes to {directory}"));
            Some(sink)
        }
        Err(error) => {
            observer.note(&format!("there will be no daily CSV: {error}"));
            None
        }
    }
}

/// An old history at the default path becomes the beginning of the new one.
fn take_over(
    place: &history::Place,
    options: &Options,
    runtime: &HostRuntime,
    observer: &mut DaemonObserver,
) -> anyhow::Result<()> {
    let mut is_told = false;
    let adopted = place.adopt_old(options, &mut |progress| {
        if !std::mem::replace(&mut is_told, true) {
            let rows = progress.rows_total;
            observer.note(&format!(
                "taking over {rows} rows of a history of gpu-usage-audit"
            ));
        }
        observer.busy();
        if runtime.stop_requested() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    if let Some(adopted) = adopted {
        observer.note(&format!(
            "the history of gpu-usage-audit was taken over and checked; the old file is now `{}`",
            adopted.old_renamed_to.display()
        ));
    }
    Ok(())
}

fn reader(settings: &Settings) -> ReaderOptions {
    let options = driver::options(settings);
    // Pauses that are over before the next tick, with time left for an attempt that hangs, cost none that the driver would
    // have answered. Ticks of less than seconds have shorter pauses too.
    let longest_pause = (settings.collect.interval.value / 4).min(options.longest_pause);
    ReaderOptions {
        first_pause: options.first_pause.min(longest_pause),
        longest_pause,
        ..options
    }
}

/// A socket that cannot be reached is as good as none: the service manager then notices by itself.
fn notifier(loaded: &Loaded) -> Notifier {
    loaded
        .inputs
        .variable("NOTIFY_SOCKET")
        .and_then(|name| Notifier::to(name).ok())
        .unwrap_or_default()
}

/// What is said at the end of a run that lost ticks.
fn lost(ticks: u64) -> String {
    let were = if ticks == 1 { "was" } else { "were" };
    format!("{} of this run {were} lost", counted(ticks, "tick"))
}

fn started(sample: &Sample, settings: &Settings) -> String {
    let driver = sample.driver.version.as_deref().unwrap_or("unknown");
    format!(
        "daemon started (host={}, env=bare, driver={driver}, interval={})",
        host::name(),
        Clockwise(settings.collect.interval.value)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tick_was_lost_and_several_were() {
        assert_eq!(lost(1), "1 tick of this run was lost");
        assert_eq!(lost(12), "12 ticks of this run were lost");
    }
}
