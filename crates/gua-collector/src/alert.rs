//! Alerts of the daemon and of a board, and the commands about them.
//!
//! In the daemon there are two parts, which never wait for each other. The sink leaves the latest tick in a slot and wakes a
//! thread. That thread (`engine`) finds the conditions. The `outbox` decides which messages are due, stores them in a file
//! beside the history (`state`) and delivers them (`target`). A target that hangs therefore delays other messages, at most by
//! its time limit, but never a tick. After a restart, the messages that no target has acknowledged are delivered. A board
//! has a thread of its own (`fleet`) with the same outbox; the server of the board finds its conditions.

mod engine;
mod fleet;
mod outbox;
mod state;
mod target;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gua_claim::random_word;
use gua_model::alert::{Alert, Sender, When};
use gua_model::{Period, Tick, Uid};
use gua_probe::{clock, host};
use gua_render::alert::{
    AlertHistoryDocument, AlertMessage, AlertRow, AlertsDocument, DeliveryRow, DeliveryStatus,
};
use gua_settings::{FlagValue, Layer, Listed, Loaded};
use jiff::Timestamp;

use self::engine::Engine;
pub use self::fleet::FleetAlerts;
use self::state::{Past, Pending, State};
pub(crate) use self::target::feed;
use crate::board::worker::Worker;
use crate::claims::Names;
use crate::daemon::health::judged;
use crate::observer::Options;
use crate::sink::{Sink, SinkError};
use crate::{location, lock};

/// Maximum number of gaps between two evaluations.
const MAX_GAPS: usize = 16;
/// Maximum time to wait for the thread to end. Messages that are not delivered by then stay in its file.
const FINAL_WAIT: Duration = Duration::from_millis(500);

/// Minimum time between two evaluations.
const EVALUATION_PERIOD: Duration = Duration::from_secs(2);

/// Maximum time of notify-send.
const DESKTOP_LIMIT: Duration = Duration::from_secs(5);

/// Text on a board's page if messages of an alert are not delivered.
const UNDELIVERED: &str = "messages are not delivered; see the board's log";

/// Work that the sink hands to the thread.
#[derive(Debug, Default)]
struct Slot {
    tick: Option<Tick>,
    /// Time of this daemon's first tick, until the engine has looked up the last tick before it.
    first: Option<Timestamp>,
    /// Whether the tick was not evaluated yet.
    is_new: bool,
    /// Gaps between ticks since the last evaluation.
    gaps: Vec<Period>,
    /// The settings were reloaded.
    is_reloaded: bool,
}

type SharedSlot = Arc<Mutex<Slot>>;

/// Passes ticks to the thread of the alerts and never blocks.
#[derive(Debug)]
pub struct AlertSink {
    slot: SharedSlot,
    worker: Worker,
}

impl AlertSink {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(loaded: &Loaded, flags: &[FlagValue], history: &Path) -> std::io::Result<Self> {
        let slot = SharedSlot::default();
        let mut engine = Engine::new(loaded.clone(), flags.to_vec(), history, slot.clone());
        let worker = Worker::start("alerts", move |wake| engine.run(&wake))?;
        Ok(Self { slot, worker })
    }
}

impl Sink for AlertSink {
    fn name(&self) -> &str {
        "alerts"
    }

    fn deliver(&mut self, tick: &Tick) -> Result<(), SinkError> {
        let mut slot = lock(&self.slot);
        let at = tick.sample.at;
        if let Some(last) = &slot.tick {
            let gap = missed(last, at);
            if slot.gaps.len() < MAX_GAPS {
                slot.gaps.extend(gap);
            }
        } else {
            slot.first = Some(at);
        }
        (slot.tick, slot.is_new) = (Some(tick.clone()), true);
        drop(slot);
        self.worker.wake();
        Ok(())
    }

    fn configure(&mut self, _: &Options) {
        lock(&self.slot).is_reloaded = true;
        self.worker.wake();
    }

    fn finish(self: Box<Self>, _: Timestamp) {
        self.worker.stop(FINAL_WAIT);
    }
}

/// The time after a tick, if the next one was missed.
fn missed(last: &Tick, until: Timestamp) -> Option<Period> {
    let from = last.sample.at;
    let elapsed = until.duration_since(from);
    let is_missed = elapsed.is_positive() && last.cadence().is_missed(elapsed.unsigned_abs());
    is_missed.then(|| Period::new(from, until))
}

/// Path of the state of the alerts of a history.
pub fn state_file(history: &Path) -> PathBuf {
    gua_files::beside(history, ".alerts.json")
}

/// A sender of alerts, and where its state is.
#[derive(Clone, Debug)]
pub struct SenderState {
    pub by: Sender,
    state_file: PathBuf,
}

impl SenderState {
    /// The daemon whose history a command reads.
    pub fn daemon(loaded: &Loaded) -> Self {
        Self {
            by: Sender::Daemon,
            state_file: state_file(&location::history(loaded)),
        }
    }

    /// The board with its data in this directory.
    pub fn board(data: &Path) -> Self {
        Self {
            by: Sender::Board,
            state_file: data.join("alerts.json"),
        }
    }
}

/// Alerts that a daemon with this history sends. The host's alerts belong to the host's service, or to root.
fn applicable<'a>(loaded: &'a Loaded, history: &Path) -> impl Iterator<Item = &'a Listed<Alert>> {
    let is_hosts =
        history == loaded.settings.history.service_db.value || rustix::process::geteuid().is_root();
    let alerts = alerts_of(loaded, Sender::Daemon).into_iter();
    alerts.filter(move |alert| is_hosts || alert.layer == Layer::User)
}

/// The configured alerts of a sender.
fn alerts_of(loaded: &Loaded, by: Sender) -> Vec<&Listed<Alert>> {
    let alerts = loaded.settings.alerts.iter();
    alerts.filter(|alert| alert.value.by == by).collect()
}

/// The configured alerts of a sender, for `gua alert list`, and the problems that concern all of them, one sentence each.
pub fn listed(loaded: &Loaded, sender: &SenderState) -> (AlertsDocument, Vec<String>) {
    listed_of(&alerts_of(loaded, sender.by), loaded, sender, |error| error)
}

/// The configured alerts of a board for its pages. The errors of messages are left out: they are about the hosts of all workspaces,
/// and can quote the address of a person.
pub fn listed_for_page(loaded: &Loaded, sender: &SenderState) -> AlertsDocument {
    let alerts = alerts_of(loaded, sender.by);
    // The function `history` reports a state file that cannot be read.
    let (document, _) = listed_of(&alerts, loaded, sender, |_| UNDELIVERED.to_owned());
    document
}

/// Lists these alerts; `shown` returns what is shown of a failed delivery.
fn listed_of(
    alerts: &[&Listed<Alert>],
    loaded: &Loaded,
    sender: &SenderState,
    shown: fn(String) -> String,
) -> (AlertsDocument, Vec<String>) {
    let mut problems = Vec::new();
    let state = load(sender).unwrap_or_else(|error| {
        problems.push(format!(
            "{error}; it is unknown when messages were last sent"
        ));
        State::default()
    });
    let row = |alert: &&Listed<Alert>| {
        let Alert { name, target, .. } = &alert.value;
        let failure = || state.failure_of(name).map(shown);
        let problem = target::problem(target).or_else(failure);
        let source = alert.source.to_string();
        AlertRow::new(&alert.value, source, state.last_sent_by(name), problem)
    };
    let document = AlertsDocument::new(alerts.iter().map(row).collect());
    if sender.by == Sender::Daemon {
        problems.extend(unsent(alerts, loaded));
    }
    (document, problems)
}

/// Reasons why no daemon sends these alerts now: one sentence for those of the host, and one for those of the user.
fn unsent(alerts: &[&Listed<Alert>], loaded: &Loaded) -> impl Iterator<Item = String> {
    let settings = &loaded.settings;
    let (read, service) = (
        location::history(loaded),
        &settings.history.service_db.value,
    );
    Layer::ALL.into_iter().filter_map(move |layer| {
        let (whose, history) = match layer {
            Layer::Host if rustix::process::geteuid().is_root() => ("of the host", &read),
            Layer::Host => ("of the host", service),
            Layer::User if read == *service => ("of this user", &settings.history.db.value),
            Layer::User => ("of this user", &read),
        };
        let is_its = |alert: &&Listed<Alert>| alert.layer == layer;
        let health = alerts
            .iter()
            .any(is_its)
            .then(|| judged(history, settings, clock::now()))?;
        let why = health.err()?.replace('\n', " ");
        Some(format!("no daemon sends the alerts {whose} now: {why}"))
    })
}

/// Number of alerts that a daemon of this user sends, and their problems, one sentence each.
pub fn problems(loaded: &Loaded) -> (usize, Vec<String>) {
    let alerts: Vec<_> = applicable(loaded, &loaded.settings.history.db.value).collect();
    if alerts.is_empty() {
        return (0, Vec::new());
    }
    let sender = SenderState::daemon(loaded);
    let (document, mut problems) = listed_of(&alerts, loaded, &sender, |error| error);
    let rows = document.alerts.iter();
    problems.extend(rows.filter_map(AlertRow::problem));
    (alerts.len(), problems)
}

fn load(sender: &SenderState) -> Result<State, String> {
    let path = &sender.state_file;
    State::load(path)
        .map_err(|error| format!("cannot read the alerts `{}`: {error}", path.display()))
}

/// Messages that were delivered or given up, and those that wait, the latest first.
///
/// # Errors
/// If the state cannot be read. The error is a sentence.
pub fn history(sender: &SenderState, limit: usize) -> Result<AlertHistoryDocument, String> {
    let state = load(sender)?;
    let row = |one: &Pending, status, at| {
        DeliveryRow::new(&one.message, one.to.clone(), status, at, one.attempts)
    };
    let waiting = state.pending.iter().map(|pending| {
        let status = DeliveryStatus::Waiting(pending.error.clone());
        row(pending, status, pending.message.at)
    });
    let past = state.history.iter().rev().map(|Past { last, at }| {
        let status = match last.error.clone() {
            None => DeliveryStatus::Sent,
            Some(error) => DeliveryStatus::Failed(error),
        };
        row(last, status, *at)
    });
    Ok(AlertHistoryDocument::new(
        waiting.rev().chain(past).take(limit).collect(),
    ))
}

/// Sends a test message of an alert, and waits for the result.
///
/// # Errors
/// If the target did not accept it. The error is a sentence without secrets.
pub fn test(loaded: &Loaded, alert: &Alert) -> Result<(), String> {
    let (host, name) = (host::name(), &alert.name);
    let title = format!("{host}: test of the alert {name}");
    let text = format!("{title}\nMessages of this alert arrive here.");
    send_now(loaded, alert, "test", (title, text))
}

/// Notifies the user on the desktop and by their own alerts that the GPUs with these numbers are free, and leased until a
/// time. Returns the errors of the alerts.
pub fn notify_free(loaded: &Loaded, gpus: &str, until: &str) -> Vec<String> {
    let host = host::name();
    let title = format!("{host}: GPU {gpus} is free, and leased for you until {until}");
    let text = format!("{title}\nStart your program before the lease ends.");
    let mut desktop = Command::new("notify-send");
    // A host without a desktop has no such program.
    let _ = feed(desktop.args(["gua", &title]), Vec::new(), DESKTOP_LIMIT);
    let alerts = loaded.settings.alerts.iter();
    let own = alerts.filter(|alert| alert.layer == Layer::User);
    let own = own.filter(|alert| alert.value.when.contains(&When::Free));
    let sent = own.map(|alert| {
        let words = (title.clone(), text.clone());
        let sent = send_now(loaded, &alert.value, When::Free.as_str(), words);
        sent.map_err(|error| format!("alert {}: {error}", alert.value.name))
    });
    sent.filter_map(Result::err).collect()
}

/// Sends a message about no condition of the daemon, and waits for the result. It is addressed to the caller.
fn send_now(
    loaded: &Loaded,
    alert: &Alert,
    when: &str,
    (title, text): (String, String),
) -> Result<(), String> {
    let me = Uid(rustix::process::geteuid().as_raw());
    let message = AlertMessage {
        id: random_word(),
        at: clock::now(),
        alert: alert.name.clone(),
        when: when.to_owned(),
        host: host::name(),
        host_id: None,
        workspace: None,
        user: Some(Names::default().user(me)),
        title,
        text,
        details: Vec::new(),
    };
    let options = crate::board::setup::connect_options(loaded);
    target::send(&alert.target, &message, &options).map_err(|error| error.message)
}

#[cfg(test)]
mod tests;
