//! Runs one collector from its arguments to its last line. The order of the steps is part of the contract: nothing is
//! created before the history was checked, and no history before the driver has answered.

use std::fs::File;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::PathBuf;

use gua_model::Sample;
use gua_model::chain::chain;
use gua_model::duration::Clockwise;
use gua_model::failure::Failure;
use gua_probe::host;
use gua_probe::reader::Reader;
use gua_settings::kind::OthersShown;
use gua_settings::{FlagValue, Loaded, Settings, Source};
use jiff::tz::TimeZone;
use tracing::{info, warn};

use super::board_link::{Cloud, Link};
use super::observer::{ANSWERED, DaemonObserver, fixed, log_bytes};
use super::{Append, DaemonError, HistoryFile, options};
use crate::alert::AlertSink;
use crate::board::names::NameSocket;
use crate::board::salt;
use crate::csv::{CsvOptions, CsvSink, DayFiles, configured_form};
use crate::events::Events;
use crate::log_file::LogFile;
use crate::metrics::MetricsSink;
use crate::outage_file::OutageFile;
use crate::pid_file::PidFile;
use crate::reader::daemon_options;
use crate::{Collector, HostRuntime, Options, Sink, log, make_directory_of, socket};

/// Arguments of one collector.
#[derive(Debug)]
pub struct Job {
    pub loaded: Loaded,
    pub flags: Vec<FlagValue>,
    /// Path of the history as typed, for the last line.
    pub typed_db: Option<PathBuf>,
    pub append: Append,
    pub cloud: Cloud,
    /// Pipe to the command that waits for the start; `None` in the foreground.
    pub starter: Option<File>,
    /// Writes to standard output. A closed pipe or a full disk does not stop the collector.
    pub print: fn(&str),
    /// Writes to standard error.
    pub log: fn(&str),
}

/// Collects until a signal stops it.
pub fn run(job: Job) -> Result<(), DaemonError> {
    let Loaded {
        settings, inputs, ..
    } = &job.loaded;
    job.loaded.safe_for_root()?;
    let place = HistoryFile::configured(&job.loaded);
    place.admit(job.append)?;
    if place.is_default() {
        make_directory_of(place.path())?;
    }
    let (link, unencrypted) = link(job.cloud, &job.loaded, &job.flags)?;
    let mut starter = job.starter;
    let (log, pid_file) = match starter {
        None => (None, None),
        Some(_) => {
            let pid_file = PidFile::at(&settings.collect.pid_file.value).lock(std::process::id())?;
            let path = &settings.collect.log_file.value;
            let log = LogFile::open(path, log_bytes(settings))
                .map_err(Failure::cannot("write the log", path))?;
            (Some(log), Some(pid_file))
        }
    };
    let form = log::Form::of_server(&job.loaded);
    log::start(form, job.log);
    warn_unencrypted(unencrypted);
    let mut runtime = HostRuntime::new(Reader::new(daemon_options(settings)))
        .map_err(Failure::because("cannot wait for signals"))?;
    let Some(answer) = runtime.first_read() else {
        return Ok(());
    };
    let sample = match (answer, &link) {
        (Err(fault), Some(link)) => return Err(link.report_fault(fault).into()),
        (answer, _) => answer?,
    };
    if let Some(starter) = &mut starter {
        // The command may have stopped waiting.
        let _ = writeln!(starter, "{ANSWERED}");
    }
    let options = options(settings);
    let mut observer = DaemonObserver {
        // Lines of text would spoil a log of JSON objects.
        print: match form {
            log::Form::Json => |_: &str| {},
            _ => job.print,
        },
        inputs: inputs.clone(),
        flags: job.flags.clone(),
        thresholds: options.thresholds,
        history: place.clone(),
        typed_db: job.typed_db.unwrap_or_else(|| place.path().to_owned()),
        log,
        starter,
        // `gua status` only finds a daemon with a PID file. If this file cannot be created, it shows less.
        outage: (pid_file.as_ref())
            .and_then(|_| OutageFile::create(&settings.collect.pid_file.value).ok()),
        fixed: fixed(settings),
        answers: None,
    };
    match import_old(&place, &options, &runtime, &observer) {
        Err(error) if runtime.stop_requested() => {
            warn!(error = chain(&error), "stopped during the import");
            return Ok(());
        }
        imported => imported?,
    }
    let mut history = place.open(job.append, &sample, &options)?;
    history.events = Some(Events::in_directory(settings.claim.dir.value.clone()));
    log_start(&sample, settings);
    observer.answers = answers(&place, settings, form);
    let _names = names(&place, settings, link.as_ref());
    if let Some(link) = &link {
        let board = link.named();
        let line = format!("cloud sync enabled -> {board}");
        info!(board, line, "cloud sync enabled");
    }
    let beats = sd_notify::watchdog_enabled().filter(|allowed| !allowed.is_zero());
    let sinks = configured_sinks(&job.loaded, &job.flags, &place, &options);
    let mut collector = Collector::new(runtime, observer, options)
        .with_sink(Box::new(history))
        .with_heartbeat(beats.map(|allowed| allowed / 2));
    for sink in sinks.into_iter().flatten() {
        collector = collector.with_sink(sink);
    }
    if let Some(link) = link {
        collector = collector.with_sink(Box::new(link.start()?));
    }
    let summary = collector.run();
    if summary.lost > 0 {
        warn!(ticks_lost = summary.lost, "ticks were lost during this run");
    }
    // The PID file is removed last: while it exists, the daemon may still be running.
    drop(pid_file);
    Ok(())
}

/// Configures the link to the board. A board without TLS is only a warning: the daemon then collects without pushes.
fn link(
    cloud: Cloud,
    loaded: &Loaded,
    flags: &[FlagValue],
) -> Result<(Option<Link>, Option<Failure>), Failure> {
    match cloud.admit(loaded)? {
        Some(warning) => Ok((None, Some(warning))),
        None => Ok((Link::configure(cloud, loaded, flags)?, None)),
    }
}

fn warn_unencrypted(warning: Option<Failure>) {
    if let Some(Failure { message, hint, .. }) = warning {
        let hint = hint.unwrap_or_default();
        warn!(
            error = message,
            hint, "nothing is pushed to the board; ticks are stored locally"
        );
    }
}

/// Prepares the host's history, or one with `history.socket` set, for questions of other users, and starts the reader of the
/// socket if systemd does not. A failure affects answers, but no ticks.
fn answers(place: &HistoryFile, settings: &Settings, form: log::Form) -> Option<socket::Reader> {
    let path = &settings.history.socket;
    let is_hosts =
        place.path() == settings.history.service_db.value || path.source != Source::Default;
    if !is_hosts {
        return None;
    }
    let salt = salt::of_history(place.path());
    if settings.privacy.others.value == OthersShown::Pseudonyms
        && let Err(error) = salt::create_for_group(&salt)
    {
        warn!(%error, salt = %salt.display(), "cannot create the salt of the pseudonyms");
    }
    // The usual place of the socket belongs to root, or to systemd on behalf of the service's user.
    if path.source == Source::Default && !rustix::process::geteuid().is_root() {
        return None;
    }
    match socket::Reader::start(&path.value, place.path(), form) {
        Ok(reader) => reader,
        Err(error) => {
            let socket = path.value.display();
            warn!(%error, %socket, "cannot open the socket; questions of other users are not answered");
            None
        }
    }
}

/// Opens the socket of `gua board link`, if this is the collector of the host's history. A failure affects no ticks.
fn names(place: &HistoryFile, settings: &Settings, link: Option<&Link>) -> Option<NameSocket> {
    if place.path() != settings.history.service_db.value {
        return None;
    }
    let path = &settings.cloud.socket.value;
    let started = NameSocket::start(path, link.map(Link::name_board));
    let socket = path.display();
    let started = started.inspect_err(|error| {
        warn!(%error, %socket, "cannot open the socket of `gua board link`; only root can link user names");
    });
    started.ok().flatten()
}

/// Starts the sinks that the settings enable in addition to the history. A sink that cannot be started is left out, so that
/// no tick is lost.
fn configured_sinks(
    loaded: &Loaded,
    flags: &[FlagValue],
    place: &HistoryFile,
    options: &Options,
) -> [Option<Box<dyn Sink>>; 3] {
    let (settings, history) = (&loaded.settings, place.path());
    let csv = settings.csv.dir.value.as_ref().map(|directory| {
        let started = CsvSink::new(CsvOptions {
            files: DayFiles::new(directory, configured_form(settings)),
            every: settings.csv.every.value,
            zone: TimeZone::system(),
            thresholds: options.thresholds,
        });
        match &started {
            Ok(_) => info!(directory = %directory.display(), "daily CSV enabled"),
            Err(error) => warn!(%error, "cannot start the daily CSV"),
        }
        started
    });
    let metrics = settings.metrics.listen.value.map(|address| {
        let started = MetricsSink::start(address, history.to_owned(), settings.clone());
        started.inspect_err(|error| warn!(%error, "cannot start the metrics"))
    });
    // Without alerts too, because a reload may add some.
    let alerts = AlertSink::start(loaded, flags, history);
    let alerts = alerts.inspect_err(|error| warn!(%error, "cannot start the alerts"));
    [boxed(csv), boxed(metrics), boxed(Some(alerts))]
}

fn boxed<S: Sink + 'static>(started: Option<io::Result<S>>) -> Option<Box<dyn Sink>> {
    Some(Box::new(started?.ok()?))
}

/// Imports a history of gpu-usage-audit at the default path into a new file, and says so in the log and to the starter.
fn import_old(
    place: &HistoryFile,
    options: &Options,
    runtime: &HostRuntime,
    observer: &DaemonObserver,
) -> Result<(), DaemonError> {
    let mut is_logged = false;
    let path = place.path().display();
    let adopted = place.adopt_old(options, &mut |progress| {
        if !std::mem::replace(&mut is_logged, true) {
            let rows = progress.rows_total;
            info!(rows, "importing a history of gpu-usage-audit");
            observer.note(&format!(
                "{path} is a history of gpu-usage-audit: importing its {rows} rows into a new file"
            ));
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
        observer.note(&format!(
            "imported and verified; the old file is kept as {renamed_to}"
        ));
    }
    Ok(())
}

fn log_start(sample: &Sample, settings: &Settings) {
    let driver = sample.driver.version.as_deref().unwrap_or("unknown");
    let interval = Clockwise(settings.collect.interval.value);
    // The text form of this record is that of gpu-usage-audit.
    info!(host = host::name(), env = "bare", driver, %interval, "daemon started");
}
