//! The thread of the alerts: evaluates the latest tick, stores the messages that are due, and delivers them with retries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use gua_claim::random_word;
use gua_model::alert::finding::{
    IdleHold, KnownGpu, UnobservedTime, gap, idle_held, idle_holds, known_gpus, nudged, quota,
    quota_condition, unhealthy,
};
use gua_model::alert::{Alert, Finding, Target, When};
use gua_model::chain::chain;
use gua_model::quota::Standing;
use gua_model::{Period, Sample, Tick, Uid};
use gua_probe::host::time::ticks_per_second;
use gua_probe::{clock, host};
use gua_query::TicksQuestion;
use gua_render::alert::AlertMessage;
use gua_render::listing::row::Terms;
use gua_render::quota::use_of;
use gua_settings::{FlagValue, Loaded};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use tracing::{info, warn};

use super::state::{MAX_PENDING, Pending, State};
use super::{SharedSlot, applicable, lock, missed, state_file, target};
use crate::board::retry::Retry;
use crate::board::setup::connect_options;
use crate::claims::Names;
use crate::failure_log::FailureLog;
use crate::quota::Accounts;
use crate::{listing, location, notes};

/// Minimum time between two evaluations.
const EVALUATION_PERIOD: Duration = Duration::from_secs(2);
/// Minimum time between two reads of the use under quotas.
const QUOTA_PERIOD: Duration = Duration::from_secs(300);
/// Maximum time between two steps, for gaps while no tick arrives and for retries.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Delay after the first failure of a target, and the longest one.
const FIRST_DELAY: Duration = Duration::from_secs(5);
const MAX_DELAY: Duration = Duration::from_secs(600);
/// Time after which an evaluation comes before further deliveries.
const DELIVERY_TIME: Duration = Duration::from_secs(60);
/// Age at which a message that cannot be delivered is given up.
const MAX_AGE: SignedDuration = SignedDuration::from_hours(24);
/// How long a gap of the past is reported, if quiet hours held the message back.
const GAP_AGE: SignedDuration = SignedDuration::from_hours(24);
/// How far back a gap before the start of the daemon may have begun.
const LONGEST_GAP: SignedDuration = SignedDuration::from_hours(31 * 24);

pub(super) struct Engine {
    loaded: Loaded,
    flags: Vec<FlagValue>,
    history: PathBuf,
    host: String,
    zone: TimeZone,
    pub(super) slot: SharedSlot,
    pub(super) state: State,
    /// GPUs of this run.
    known: Vec<KnownGpu>,
    /// Recent gaps that have ended.
    gaps: Vec<Period>,
    /// Whether the gap before the first tick was looked up.
    has_begun: bool,
    next_evaluation: Duration,
    next_quota: Duration,
    standings: Vec<Standing>,
    /// Names of people who asked others, because each look-up takes a thread.
    names: BTreeMap<Uid, String>,
    /// Delays of targets that failed, by [`retry_key`].
    retries: BTreeMap<String, Retry>,
    failures: FailureLog,
    save_failures: FailureLog,
}

impl Engine {
    pub(super) fn new(
        loaded: Loaded,
        flags: Vec<FlagValue>,
        history: &Path,
        slot: SharedSlot,
    ) -> Self {
        let path = state_file(history);
        let state = State::load(&path).unwrap_or_else(|error| {
            warn!(path = %path.display(), %error, "cannot read the state of the alerts; it begins anew");
            State::default()
        });
        Self {
            loaded,
            flags,
            history: history.to_owned(),
            host: host::name(),
            zone: TimeZone::system(),
            slot,
            state,
            known: Vec::new(),
            gaps: Vec::new(),
            has_begun: false,
            next_evaluation: Duration::ZERO,
            next_quota: Duration::ZERO,
            standings: Vec::new(),
            names: BTreeMap::new(),
            retries: BTreeMap::new(),
            failures: FailureLog::default(),
            save_failures: FailureLog::default(),
        }
    }

    /// Handles ticks until the sink is dropped.
    pub(super) fn run(&mut self, wake: &Receiver<()>) {
        loop {
            self.step(clock::now(), clock::monotonic());
            let mut woken = wake.recv_timeout(LONGEST_WAIT.min(self.until_next()));
            // Only the latest tick counts.
            while woken.is_ok() {
                match wake.try_recv() {
                    Ok(()) => {}
                    Err(std::sync::mpsc::TryRecvError::Empty) => break,
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                        woken = Err(RecvTimeoutError::Disconnected);
                    }
                }
            }
            if woken == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    /// Time until the next retry, or the next evaluation if a tick waits for it.
    fn until_next(&self) -> Duration {
        let now = clock::monotonic();
        let retries = self.retries.values();
        let next = retries.filter_map(|retry| retry.remaining(now)).min();
        let next = next.filter(|_| !self.state.pending.is_empty());
        let evaluation = self.next_evaluation.saturating_sub(now);
        let evaluation = lock(&self.slot).is_new.then_some(evaluation);
        let next = next.into_iter().chain(evaluation).min();
        next.unwrap_or(LONGEST_WAIT)
    }

    pub(super) fn step(&mut self, now: Timestamp, monotonic: Duration) {
        if std::mem::take(&mut lock(&self.slot).is_reloaded) {
            let loaded = Loaded::from(&self.loaded.inputs, &self.flags);
            // With mistakes, the previous settings stay in force, as for the loop.
            if loaded.checked().is_ok() {
                self.loaded = loaded;
                self.next_quota = Duration::ZERO;
            }
        }
        if monotonic >= self.next_evaluation {
            self.next_evaluation = monotonic.saturating_add(EVALUATION_PERIOD);
            let (tick, gaps) = {
                let mut slot = lock(&self.slot);
                slot.is_new = false;
                (slot.tick.clone(), std::mem::take(&mut slot.gaps))
            };
            self.gaps.extend(gaps);
            if let Some(tick) = tick {
                self.evaluate(&tick, now, monotonic);
            }
        }
        self.deliver(now, monotonic);
    }

    /// Queues the messages that are due.
    fn evaluate(&mut self, tick: &Tick, now: Timestamp, monotonic: Duration) {
        let alerts: Vec<Alert> = applicable(&self.loaded, &self.history)
            .map(|alert| alert.value.clone())
            .collect();
        let wants = |when: When| alerts.iter().any(|alert| alert.when.contains(&when));
        self.look_back(tick);
        let sample = &tick.sample;
        let holds = match wants(When::IdleHeld) || wants(When::Nudge) {
            true => self.idle_holds(sample),
            false => Vec::new(),
        };
        let nudges = match wants(When::Nudge) && !holds.is_empty() {
            true => self.nudges(&holds, now),
            false => BTreeMap::new(),
        };
        if (wants(When::QuotaNear) || wants(When::QuotaOver)) && monotonic >= self.next_quota {
            self.next_quota = monotonic.saturating_add(QUOTA_PERIOD);
            self.read_quotas(now);
        }
        let health = unhealthy(sample, &self.known);
        for gpu in known_gpus(sample) {
            if self.known.iter().all(|known| known.uuid != gpu.uuid) {
                self.known.push(gpu);
            }
        }
        let times = self.unobserved(tick, now);
        let mut is_changed = false;
        for alert in &alerts {
            let mut findings = health.clone();
            // Without new ticks, nothing is known of the time since the last one.
            let at = sample.at;
            findings.extend(idle_held(&holds, alert.long_idle(), at));
            findings.extend(
                nudges.iter().filter_map(|(to, asker)| {
                    nudged(&holds, *to, asker, alert.long_for_nudge(), at)
                }),
            );
            findings.extend(times.iter().filter_map(|time| gap(time, alert.long_gap())));
            findings.extend(self.standings.iter().filter_map(|standing| {
                let when = quota_condition(standing, alert.percent)?;
                Some(quota(standing, when, use_of(standing)))
            }));
            for finding in alert.due(findings, &self.state.last_sent, now, &self.zone) {
                self.queue(alert, &finding, now);
                is_changed = true;
            }
        }
        if is_changed {
            self.state.prune(now);
            self.save();
        }
    }

    /// Holders of idle GPUs who were asked about them, each with one of those who asked.
    fn nudges(&mut self, holds: &[IdleHold], now: Timestamp) -> BTreeMap<Uid, String> {
        let mut asked = BTreeMap::new();
        for nudge in notes::nudges(&self.loaded.settings, now) {
            let is_holder = holds.iter().any(|hold| hold.uid == Some(nudge.to));
            if is_holder && !asked.contains_key(&nudge.to) {
                let name = self.names.entry(nudge.owner);
                let name = name.or_insert_with(|| Names::default().user(nudge.owner));
                asked.insert(nudge.to, name.clone());
            }
        }
        asked
    }

    /// Looks up the gap between the last tick of an earlier daemon and the first one of this.
    fn look_back(&mut self, first: &Tick) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        let at = first.sample.at;
        let Ok(from) = at.checked_sub(LONGEST_GAP) else {
            return;
        };
        let question = TicksQuestion {
            window: Period::new(from, at),
            limit: 1,
        };
        let ticks = location::file_at(self.history.clone()).ticks(&question);
        let last = ticks.ok().and_then(|ticks| ticks.into_iter().next_back());
        self.gaps.extend(last.and_then(|last| missed(&last, at)));
    }

    /// Holds on idle GPUs that their people do not keep.
    fn idle_holds(&self, sample: &Sample) -> Vec<IdleHold> {
        let terms = Terms {
            thresholds: self.loaded.settings.thresholds(),
            ticks_per_second: ticks_per_second(),
        };
        let source = location::file_at(self.history.clone());
        let idle = listing::idle(source.as_ref(), sample, &terms);
        let mut holds = idle_holds(sample, &idle, &terms.thresholds);
        let keeps = notes::keeps(&self.loaded.settings, sample.at);
        let is_kept = |hold: &IdleHold| keeps.iter().any(|keep| keep.covers(hold.uid, &hold.gpu));
        holds.retain(|hold| !is_kept(hold));
        holds
    }

    fn read_quotas(&mut self, now: Timestamp) {
        let accounts = Accounts::of::<Box<dyn std::error::Error>>(
            &self.loaded,
            |_| self.history.clone(),
            &self.zone,
            now,
        );
        match accounts {
            Ok(accounts) => {
                self.standings = accounts.standings;
                self.failures.end();
            }
            Err(error) => {
                self.standings.clear();
                let error = chain(error.as_ref());
                if self.failures.is_new(&error) {
                    warn!(error, "cannot read the use under quotas for alerts");
                }
            }
        }
    }

    /// The gaps of the last day, and the current one.
    fn unobserved(&mut self, tick: &Tick, now: Timestamp) -> Vec<UnobservedTime> {
        self.gaps
            .retain(|gap| now.duration_since(gap.to()) < GAP_AGE);
        let ended = self.gaps.iter().map(|gap| UnobservedTime {
            period: *gap,
            has_ended: true,
        });
        let lasting = missed(tick, now).map(|period| UnobservedTime {
            period,
            has_ended: false,
        });
        ended.chain(lasting).collect()
    }

    fn queue(&mut self, alert: &Alert, finding: &Finding, now: Timestamp) {
        // It is found again when others have been delivered.
        if self.state.pending.len() >= MAX_PENDING {
            return;
        }
        let message = alert.message(finding, &self.host);
        self.state.last_sent.insert(alert.key(finding), now);
        let pending = Pending {
            to: alert.target.kind().to_owned(),
            attempts: 0,
            error: None,
            message: AlertMessage {
                id: format!("{}{}", random_word(), random_word()),
                at: now,
                alert: alert.name.clone(),
                when: finding.when.as_str().to_owned(),
                host: self.host.clone(),
                user: finding.person.clone(),
                title: message.title,
                text: message.text,
                details: finding.details.clone(),
            },
        };
        self.state.pending.push(pending);
    }

    /// Delivers the messages whose targets are not waiting for a retry.
    fn deliver(&mut self, now: Timestamp, monotonic: Duration) {
        let waiting = self.state.pending.clone();
        let until = clock::monotonic().saturating_add(DELIVERY_TIME);
        let options = connect_options(&self.loaded);
        for Pending { message, .. } in waiting {
            // Slow targets do not delay the next evaluation for long.
            if clock::monotonic() >= until {
                break;
            }
            let target = applicable(&self.loaded, &self.history)
                .find(|alert| alert.value.name == message.alert)
                .map(|alert| alert.value.target.clone());
            let Some(target) = target else {
                let error = "the alert is no longer configured".to_owned();
                self.state.end(&message.id, now, Some(error));
                self.save();
                continue;
            };
            let new = || Retry::new(FIRST_DELAY, MAX_DELAY);
            let retry = self.retries.entry(retry_key(&message, &target));
            let retry = retry.or_insert_with(new);
            if retry.remaining(monotonic.max(clock::monotonic())).is_some() {
                continue;
            }
            let sent = target::send(&target, &message, &options);
            let alert = message.alert.as_str();
            if let Some(pending) = self
                .state
                .pending
                .iter_mut()
                .find(|one| one.message.id == message.id)
            {
                pending.attempts += 1;
            }
            match sent {
                Ok(()) => {
                    if let Some(failures) = retry.succeeded() {
                        info!(alert, failures, "messages of an alert are delivered again");
                    }
                    self.state.end(&message.id, clock::now(), None);
                }
                Err(error) => self.failed(&message, &retry_key(&message, &target), error, now),
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
        if let Some(error) = new {
            warn!(alert, error, "cannot deliver a message of an alert");
        }
        if is_final {
            self.state.end(&message.id, now, Some(error.message));
            return;
        }
        let mut pending = self.state.pending.iter_mut();
        if let Some(pending) = pending.find(|one| one.message.id == message.id) {
            pending.error = Some(error.message);
        }
    }

    /// Writes the state. If that fails, messages are delivered from memory.
    fn save(&mut self) {
        let path = state_file(&self.history);
        match self.state.save(&path) {
            Ok(()) => drop(self.save_failures.end()),
            Err(error) => {
                if self.save_failures.is_new(&error.to_string()) {
                    let path = path.display();
                    warn!(%path, %error, "cannot write the state of the alerts; a restart loses it");
                }
            }
        }
    }
}

/// Key of the delay after a failure: the alert, and the person if each has a place of their own.
fn retry_key(message: &AlertMessage, target: &Target) -> String {
    let person = message.user.as_deref().filter(|_| target.is_personal());
    format!("{} {}", message.alert, person.unwrap_or_default())
}
