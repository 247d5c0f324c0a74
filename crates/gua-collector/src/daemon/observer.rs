//! The daemon's side of the loop: prints tick lines, notifies systemd and the starting command, and reloads settings.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use gua_compat::gpu_usage_audit::tick_line::tick_line;
use gua_model::chain::chain;
use gua_model::{Thresholds, Tick};
use gua_probe::{clock, own_code};
use gua_settings::{FlagValue, Inputs, Loaded, Settings};
use sd_notify::NotifyState;
use tracing::{info, warn};

use super::{HistoryFile, options};
use crate::log_file::LogFile;
use crate::outage_file::OutageFile;
use crate::socket::Reader;
use crate::{Observer, OpenOutage, Options};

/// Lines that a background daemon writes to the command that started it: the driver has answered, and the first tick
/// was stored.
pub(super) const ANSWERED: &str = "answered";
pub(super) const READY: &str = "ready";
/// Start of a line for the user of that command.
pub(super) const NOTE: &str = "note ";

/// Observes the loop of a daemon.
#[derive(Debug)]
pub(super) struct DaemonObserver {
    /// Writes to standard output.
    pub(super) print: fn(&str),
    pub(super) inputs: Inputs,
    pub(super) flags: Vec<FlagValue>,
    pub(super) thresholds: Thresholds,
    pub(super) history: HistoryFile,
    /// Path of the history as typed, for the last line.
    pub(super) typed_db: PathBuf,
    /// `None` in the foreground.
    pub(super) log: Option<LogFile>,
    /// Pipe to the command that started this daemon, until the first tick is stored.
    pub(super) starter: Option<File>,
    /// `None` in the foreground.
    pub(super) outage: Option<OutageFile>,
    /// Settings that only take effect after a restart, with their values at the start.
    pub(super) fixed: Vec<(String, String)>,
    /// Reader of the service's socket, if this daemon has to run it.
    pub(super) answers: Option<Reader>,
}

impl DaemonObserver {
    /// Shows a message to the user who started this daemon, if that command is still waiting.
    pub(super) fn note(&self, text: &str) {
        if let Some(mut starter) = self.starter.as_ref() {
            let _ = writeln!(starter, "{NOTE}{text}");
        }
    }

    /// Asks systemd for more time while a long start is in progress.
    pub(super) fn extend_start(&self) {
        notify(&[
            NotifyState::ExtendTimeoutUsec(60_000_000),
            NotifyState::Watchdog,
        ]);
    }
}

/// Notifies systemd. An unreachable socket is ignored: the service manager then runs into its own timeout.
fn notify(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}

impl Observer for DaemonObserver {
    fn ticked(&mut self, number: u64, tick: &Tick) {
        let line = tick_line(number, tick, &self.thresholds);
        (self.print)(&line);
        if let Some(log) = &self.log {
            log.rotate_if_full();
        }
        if let Some(answers) = &mut self.answers
            && let Err(error) = answers.keep()
        {
            warn!(%error, "cannot start the reader of the socket; questions are not answered");
            self.answers = None;
        }
    }

    fn outage(&mut self, outage: Option<&OpenOutage>) {
        if let Some(file) = &self.outage {
            file.set(outage);
        }
        let status = outage.map_or_else(String::new, |outage| {
            format!("losing ticks since {} ({})", outage.from, outage.reason)
        });
        notify(&[NotifyState::Status(&status)]);
    }

    fn ready(&mut self) {
        notify(&[NotifyState::Ready]);
        if let Some(mut starter) = self.starter.take() {
            // The command may have stopped waiting.
            let _ = writeln!(starter, "{READY}");
        }
        // The code of the start is not needed any more.
        own_code::give_back();
    }

    fn alive(&mut self) {
        notify(&[NotifyState::Watchdog]);
    }

    fn reload(&mut self) -> Result<Options, String> {
        let now = clock::monotonic().as_micros().cast_signed();
        notify(&[NotifyState::Reloading, NotifyState::MonotonicUsec(now)]);
        let loaded = Loaded::from(&self.inputs, &self.flags);
        if let Some(log) = &mut self.log {
            log.max_bytes = log_bytes(&loaded.settings);
            log.reopen()
                .map_err(|error| format!("cannot open the log again: {error}"))?;
        }
        let settings = loaded.checked().map_err(|failure| failure.to_string())?;
        let options = options(settings);
        let fixed = fixed(settings).into_iter().zip(&self.fixed);
        let changed = fixed.filter(|(new, old)| new != *old);
        let changed: Vec<String> = changed.map(|((key, _), _)| key).collect();
        if !changed.is_empty() {
            let settings = changed.join(", ");
            warn!(settings, "changed settings apply after a restart");
        }
        if options.thresholds != self.thresholds {
            info!(
                "new thresholds apply to live displays only; totals keep the thresholds of the history"
            );
        }
        self.thresholds = options.thresholds;
        Ok(options)
    }

    fn reloaded(&mut self) {
        notify(&[NotifyState::Ready]);
    }

    fn stopping(&mut self, ticks: u64) {
        notify(&[NotifyState::Stopping]);
        let line = format!("shutdown signal received, stopping ({ticks} ticks)");
        info!(ticks, line, "shutdown signal received");
        // Counted before the writer closes the file, because closing truncates the WAL that readers use.
        match self.history.gpu_ticks() {
            Ok(rows) => {
                let typed = self.typed_db.display();
                (self.print)(&format!("\n{typed}: {rows} total gpu_sample rows\n"));
            }
            Err(error) => {
                warn!(
                    error = chain(&error),
                    "cannot count the rows of the history"
                );
            }
        }
    }
}

/// Settings that a running daemon reads again, or does not use.
const RELOADED: [&str; 9] = [
    "states.active_util",
    "states.held_mb",
    "states.count_graphics",
    "claim.longest",
    "collect.interval",
    "collect.keep_raw",
    "collect.log_mb",
    "cloud.url",
    "privacy.others",
];

/// Settings that only take effect after a restart, with their values.
pub(super) fn fixed(settings: &Settings) -> Vec<(String, String)> {
    let shown = settings.shown().into_iter();
    let named = shown.map(|one| (format!("{}.{}", one.entry.section, one.entry.key), one.toml));
    named
        .filter(|(key, _)| !RELOADED.contains(&key.as_str()))
        .collect()
}

/// Maximum size of the log file.
pub(super) fn log_bytes(settings: &Settings) -> u64 {
    settings.collect.log_mb.value * 1024 * 1024
}
