//! The messages of alerts from the moment at which they are due: queued in the state file, delivered with retries, and kept as
//! past ones. The daemon and the board have one each; they differ in how they find the conditions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use gua_claim::random_word;
use gua_model::alert::finding::all_silent;
use gua_model::alert::{Alert, Finding, Target, When};
use gua_model::failure_log::FailureLog;
use gua_model::text::sanitize;
use gua_probe::{clock, host};
use gua_render::alert::AlertMessage;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use tracing::{info, warn};

use super::state::{Pending, State};
use super::target;
use crate::board::ConnectOptions;
use crate::board::retry::Retry;

/// Delay after the first failure of a target, and the longest one.
const FIRST_DELAY: Duration = Duration::from_secs(5);
const MAX_DELAY: Duration = Duration::from_secs(600);
/// Time after which an evaluation comes before further deliveries.
const DELIVERY_TIME: Duration = Duration::from_secs(60);
/// Age at which a message that cannot be delivered is given up.
const MAX_AGE: SignedDuration = SignedDuration::from_hours(24);

pub(super) struct Outbox {
    path: PathBuf,
    pub(super) state: State,
    host: String,
    pub(super) zone: TimeZone,
    /// Delays of targets that failed, by [`retry_key`].
    retries: BTreeMap<String, Retry>,
    save_failures: FailureLog,
    /// Messages that were dropped since one was last queued without others being dropped.
    pub(super) dropped: FailureLog,
    /// For each alert, by name: time at which the first of its silent agents that are not reported yet was found.
    first_silent: BTreeMap<(String, String), Timestamp>,
}

impl Outbox {
    /// Opens the state in a file, which may not exist.
    pub(super) fn open(path: PathBuf) -> Self {
        let state = State::load(&path).unwrap_or_else(|error| {
            warn!(path = %path.display(), %error, "cannot read the state of the alerts; starting with an empty one");
            State::default()
        });
        Self {
            path,
            state,
            host: host::name(),
            zone: TimeZone::system(),
            retries: BTreeMap::new(),
            save_failures: FailureLog::default(),
            dropped: FailureLog::default(),
            first_silent: BTreeMap::new(),
        }
    }

    /// Time until the next retry of a waiting message.
    pub(super) fn until_retry(&self) -> Option<Duration> {
        let now = clock::monotonic();
        let retries = self.retries.values();
        let next = retries.filter_map(|retry| retry.remaining(now)).min();
        next.filter(|_| !self.state.pending.is_empty())
    }

    /// Queues the messages that are due, given what was found for each alert.
    pub(super) fn queue<'a>(
        &mut self,
        found: impl IntoIterator<Item = (&'a Alert, Vec<Finding>)>,
        now: Timestamp,
    ) {
        let (mut added, mut has_dropped) = (0, false);
        for (alert, findings) in found {
            let due = alert.due(findings, &self.state.last_sent, now, &self.zone);
            let (silent, other) = due.into_iter().partition(|one| one.when == When::Silent);
            let other = Vec::into_iter(other).map(|finding| vec![finding]);
            for findings in other.chain(self.collected(alert, silent, now)) {
                let Some(finding) = all_silent(&findings) else {
                    continue;
                };
                match self
                    .state
                    .has_room(finding.host.as_ref().and_then(|host| host.id.as_deref()))
                {
                    true => {
                        let keys = findings.iter().map(|finding| alert.key(finding));
                        self.state.last_sent.extend(keys.map(|key| (key, now)));
                        self.add(alert, &finding, now);
                        added += 1;
                    }
                    false => {
                        has_dropped = true;
                        if self.dropped.add() {
                            warn!("too many alert messages are waiting; new ones are dropped");
                        }
                    }
                }
            }
        }
        if added > 0 {
            if !has_dropped && let Some(dropped) = self.dropped.end() {
                info!(dropped, "alert messages are queued again");
            }
            self.state.prune(now);
            self.save();
        }
    }

    /// Returns the silent agents to report now, in one list for each workspace. Returns none while more are being collected.
    fn collected(
        &mut self,
        alert: &Alert,
        silent: Vec<Finding>,
        now: Timestamp,
    ) -> Vec<Vec<Finding>> {
        let mut workspaces: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
        for finding in silent {
            let host = finding.host.as_ref();
            let workspace = host.map_or_else(String::new, |host| host.workspace.clone());
            workspaces.entry(workspace).or_default().push(finding);
        }
        let limit = SignedDuration::try_from(alert.collection_time()).unwrap_or_default();
        let first_silent = &mut self.first_silent;
        first_silent.retain(|(name, workspace), _| {
            *name != alert.name || workspaces.contains_key(workspace)
        });
        workspaces.retain(|workspace, _| {
            let key = (alert.name.clone(), workspace.clone());
            let waited = now.duration_since(*first_silent.entry(key.clone()).or_insert(now));
            // A clock that was set back must not delay a message.
            let is_due = !(SignedDuration::ZERO..limit).contains(&waited);
            if is_due {
                first_silent.remove(&key);
            }
            is_due
        });
        workspaces.into_values().collect()
    }

    fn add(&mut self, alert: &Alert, finding: &Finding, now: Timestamp) {
        let message = alert.message(finding, &self.host);
        let on = finding.host.as_ref();
        let pending = Pending {
            to: alert.target.kind().to_owned(),
            attempts: 0,
            error: None,
            message: AlertMessage {
                id: format!("{}{}", random_word(), random_word()),
                at: now,
                alert: alert.name.clone(),
                when: finding.when.as_str().to_owned(),
                host: finding.host_name(&self.host),
                host_id: on.and_then(|host| host.id.clone()),
                workspace: on.map(|host| host.workspace.clone()),
                user: finding.person.clone(),
                title: message.title,
                text: message.text,
                details: finding.details.clone(),
            },
        };
        self.state.pending.push(pending);
    }

    /// Delivers the messages whose targets are not waiting for a retry.
    pub(super) fn deliver(
        &mut self,
        alerts: &[Alert],
        options: &ConnectOptions,
        now: Timestamp,
        monotonic: Duration,
    ) {
        let waiting = self.state.pending.clone();
        let until = clock::monotonic().saturating_add(DELIVERY_TIME);
        for Pending { message, .. } in waiting {
            // Slow targets do not delay the next evaluation for long.
            if clock::monotonic() >= until {
                break;
            }
            let alert = alerts.iter().find(|alert| alert.name == message.alert);
            let Some(Alert { target, .. }) = alert else {
                let error = "the alert is no longer configured".to_owned();
                self.state.end(&message.id, now, Some(error));
                self.save();
                continue;
            };
            let new = || Retry::new(FIRST_DELAY, MAX_DELAY);
            let retry = self.retries.entry(retry_key(&message, target));
            let retry = retry.or_insert_with(new);
            if retry.remaining(monotonic.max(clock::monotonic())).is_some() {
                continue;
            }
            let sent = target::send(target, &message, options);
            let alert = message.alert.as_str();
            if let Some(pending) = self.state.waiting(&message.id) {
                pending.attempts += 1;
            }
            match sent {
                Ok(()) => {
                    if let Some(failures) = retry.succeeded() {
                        info!(alert, failures, "alert messages are delivered again");
                    }
                    self.state.end(&message.id, clock::now(), None);
                }
                Err(error) => self.failed(&message, &retry_key(&message, target), error, now),
            }
            self.save();
        }
    }

    /// Delays the next attempt, or gives up a message that the target rejected or that is too old.
    fn failed(
        &mut self,
        message: &AlertMessage,
        retry_key: &str,
        error: target::SendError,
        now: Timestamp,
    ) {
        let alert = message.alert.as_str();
        let retry = self.retries.get_mut(retry_key);
        let is_old = now.duration_since(message.at) >= MAX_AGE;
        let is_final = !error.is_retryable || is_old;
        let new = retry.and_then(|retry| match error.is_retryable {
            true => retry.failed(clock::monotonic(), &error.message),
            false => retry.count(&error.message),
        });
        if is_final {
            let error = error.message;
            warn!(alert, error = %sanitize(&error), "giving up on an alert message");
            self.state.end(&message.id, now, Some(error));
            return;
        }
        if let Some(error) = new {
            warn!(alert, error, "cannot deliver an alert message");
        }
        if let Some(pending) = self.state.waiting(&message.id) {
            pending.error = Some(error.message);
        }
    }

    /// Writes the state. If that fails, messages are delivered from memory.
    fn save(&mut self) {
        let saved = self.state.save(&self.path);
        let path = self.path.display();
        match self.save_failures.change(&saved) {
            Some(Ok(failures)) => {
                info!(%path, failures, "the state of the alerts is written again");
            }
            Some(Err(error)) => {
                warn!(%path, %error, "cannot write the state of the alerts; it will be lost at a restart");
            }
            None => {}
        }
    }
}

/// Key of the delay after a failure: the alert, and the person if each has a place of their own.
fn retry_key(message: &AlertMessage, target: &Target) -> String {
    let person = message.user.as_deref().filter(|_| target.is_personal());
    format!("{} {}", message.alert, person.unwrap_or_default())
}
