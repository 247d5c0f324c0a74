//! The thread of the daemon's alerts: evaluates the latest tick, and passes what it finds to the outbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use gua_model::alert::finding::{
    IdleHold, KnownGpu, UnobservedTime, gap, idle_held, idle_holds, known_gpus, nudged, quota,
    quota_condition, unhealthy,
};
use gua_model::alert::{Alert, When};
use gua_model::chain::chain;
use gua_model::failure_log::FailureLog;
use gua_model::quota::Standing;
use gua_model::{Period, Sample, Tick, Uid, User};
use gua_probe::clock;
use gua_probe::process::name_in_directory;
use gua_query::TicksQuestion;
use gua_render::quota::use_of;
use gua_settings::{FlagValue, Loaded};
use jiff::{SignedDuration, Timestamp};
use tracing::{info, warn};

use super::outbox::Outbox;
use super::{EVALUATION_PERIOD, SharedSlot, applicable, missed, state_file};
use crate::board::setup::connect_options;
use crate::quota::standings_of;
use crate::{listing, location, lock, notes};

/// Minimum time between two reads of the use under quotas.
const QUOTA_PERIOD: Duration = Duration::from_secs(300);
/// Maximum time between two steps, for gaps while no tick arrives and for retries.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Maximum age of a reported gap: quiet hours may hold its message back.
const GAP_AGE: SignedDuration = SignedDuration::from_hours(24);
/// Maximum time before this daemon's first tick at which the last tick of an earlier daemon is looked up.
const MAX_GAP: SignedDuration = SignedDuration::from_hours(31 * 24);

pub(super) struct Engine {
    loaded: Loaded,
    flags: Vec<FlagValue>,
    history: PathBuf,
    pub(super) slot: SharedSlot,
    pub(super) outbox: Outbox,
    /// GPUs of this run, and of the last tick before it.
    known: Vec<KnownGpu>,
    /// Recent gaps that have ended.
    gaps: Vec<Period>,
    next_evaluation: Duration,
    next_quota: Duration,
    standings: Vec<Standing>,
    /// Names of people who asked others.
    names: BTreeMap<Uid, String>,
    failures: FailureLog,
    look_back_failures: FailureLog,
}

impl Engine {
    pub(super) fn new(
        loaded: Loaded,
        flags: Vec<FlagValue>,
        history: &Path,
        slot: SharedSlot,
    ) -> Self {
        Self {
            loaded,
            flags,
            history: history.to_owned(),
            slot,
            outbox: Outbox::open(state_file(history)),
            known: Vec::new(),
            gaps: Vec::new(),
            next_evaluation: Duration::ZERO,
            next_quota: Duration::ZERO,
            standings: Vec::new(),
            names: BTreeMap::new(),
            failures: FailureLog::default(),
            look_back_failures: FailureLog::default(),
        }
    }

    /// Handles ticks until the sink is dropped.
    pub(super) fn run(&mut self, wake: &Receiver<()>) {
        loop {
            self.step(clock::now(), clock::monotonic());
            let mut woken = wake.recv_timeout(MAX_WAIT.min(self.until_next()));
            // Only the latest tick counts.
            while woken.is_ok() {
                woken = wake.recv_timeout(Duration::ZERO);
            }
            if woken == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    /// Time until the next retry, or the next evaluation if a tick waits for it.
    fn until_next(&self) -> Duration {
        let evaluation = self.next_evaluation.saturating_sub(clock::monotonic());
        let evaluation = lock(&self.slot).is_new.then_some(evaluation);
        let next = self
            .outbox
            .until_retry()
            .into_iter()
            .chain(evaluation)
            .min();
        next.unwrap_or(MAX_WAIT)
    }

    pub(super) fn step(&mut self, now: Timestamp, monotonic: Duration) {
        if std::mem::take(&mut lock(&self.slot).is_reloaded) {
            let loaded = Loaded::from(&self.loaded.inputs, &self.flags);
            // If the settings have a mistake, the previous ones stay in force, as in the daemon's loop.
            if loaded.checked().is_ok() {
                self.loaded = loaded;
                self.next_quota = Duration::ZERO;
            }
        }
        let alerts: Vec<Alert> = applicable(&self.loaded, &self.history)
            .map(|alert| alert.value.clone())
            .collect();
        if monotonic >= self.next_evaluation {
            self.next_evaluation = monotonic.saturating_add(EVALUATION_PERIOD);
            let (tick, first, gaps) = {
                let mut slot = lock(&self.slot);
                slot.is_new = false;
                // Without alerts, nothing is read or stored.
                let first = slot.first.take_if(|_| !alerts.is_empty());
                (slot.tick.clone(), first, std::mem::take(&mut slot.gaps))
            };
            if let Some(tick) = tick.filter(|_| !alerts.is_empty()) {
                if let Some(first) = first {
                    self.look_back(first);
                }
                self.gaps.extend(gaps);
                self.evaluate(&alerts, &tick, now, monotonic);
            }
        }
        let options = connect_options(&self.loaded);
        self.outbox.deliver(&alerts, &options, now, monotonic);
    }

    /// Queues the messages that are due.
    fn evaluate(&mut self, alerts: &[Alert], tick: &Tick, now: Timestamp, monotonic: Duration) {
        let wants = |when: When| alerts.iter().any(|alert| alert.when.contains(&when));
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
        self.learn(known_gpus(sample));
        let times = self.unobserved(tick, now);
        // Without new ticks, nothing is known of the time since the last one.
        let at = sample.at;
        let found = alerts.iter().map(|alert| {
            let mut findings = health.clone();
            findings.extend(idle_held(&holds, alert.long_idle(), at));
            findings.extend(nudges.iter().filter_map(|(to, requester)| {
                nudged(&holds, *to, requester, alert.long_for_nudge(), at)
            }));
            findings.extend(times.iter().filter_map(|time| gap(time, alert.long_gap())));
            findings.extend(self.standings.iter().filter_map(|standing| {
                let when = quota_condition(standing, alert.percent)?;
                Some(quota(standing, when, use_of(standing)))
            }));
            (alert, findings)
        });
        self.outbox.queue(found, now);
    }

    /// Holders of idle GPUs who were asked about them, each with one of those who asked.
    fn nudges(&mut self, holds: &[IdleHold], now: Timestamp) -> BTreeMap<Uid, String> {
        let mut asked = BTreeMap::new();
        for nudge in notes::nudges(&self.loaded.settings, now) {
            let is_holder = holds.iter().any(|hold| hold.uid == Some(nudge.to));
            if is_holder && !asked.contains_key(&nudge.to) {
                let uid = nudge.owner;
                let name = self.names.entry(uid).or_insert_with(|| {
                    let name = name_in_directory(uid).flatten();
                    User { uid, name }.shown()
                });
                asked.insert(nudge.to, name.clone());
            }
        }
        asked
    }

    /// Looks up the last tick of an earlier daemon, to find the gap until the first tick of this one and the GPUs that were
    /// lost in between.
    fn look_back(&mut self, at: Timestamp) {
        let Ok(from) = at.checked_sub(MAX_GAP) else {
            return;
        };
        let question = TicksQuestion {
            window: Period::new(from, at),
            limit: 1,
        };
        let ticks = location::file_at(self.history.clone()).ticks(&question);
        match self.look_back_failures.change(&ticks) {
            Some(Ok(failures)) => info!(failures, "the last tick can be read for alerts again"),
            Some(Err(error)) => warn!(error = chain(error), "cannot read the last tick for alerts"),
            None => {}
        }
        let Ok(ticks) = ticks else {
            // The next evaluation reads it again.
            lock(&self.slot).first = Some(at);
            return;
        };
        if let Some(last) = ticks.into_iter().next_back() {
            self.gaps.extend(missed(&last, at));
            self.learn(known_gpus(&last.sample));
        }
    }

    /// Remembers GPUs.
    fn learn(&mut self, gpus: Vec<KnownGpu>) {
        for gpu in gpus {
            if self.known.iter().all(|known| known.uuid != gpu.uuid) {
                self.known.push(gpu);
            }
        }
    }

    /// Holds on idle GPUs that their people do not keep.
    fn idle_holds(&self, sample: &Sample) -> Vec<IdleHold> {
        let terms = listing::terms(&self.loaded.settings);
        let source = location::file_at(self.history.clone());
        let idle = listing::idle(source.as_ref(), sample, &terms);
        let mut holds = idle_holds(sample, &idle, &terms.thresholds);
        let keeps = notes::keeps(&self.loaded.settings, sample.at);
        let is_kept = |hold: &IdleHold| keeps.iter().any(|keep| keep.covers(hold.uid, &hold.gpu));
        holds.retain(|hold| !is_kept(hold));
        holds
    }

    fn read_quotas(&mut self, now: Timestamp) {
        let read = standings_of(&self.loaded, &self.history, &self.outbox.zone, now);
        match self.failures.change(&read) {
            Some(Ok(failures)) => info!(failures, "the quota usage for alerts can be read again"),
            Some(Err(error)) => warn!(%error, "cannot read the quota usage for alerts"),
            None => {}
        }
        self.standings = read.unwrap_or_default();
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
}
