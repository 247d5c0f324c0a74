//! The thread that updates the accounts and publishes a snapshot after each tick.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use gua_compat::open_records;
use gua_model::account::Accounts;
use gua_model::chain::chain;
use gua_model::failure_log::{FailureLog, OpenFaults};
use gua_model::{GpuUuid, Outage, Period, Sample, Span, Spans, Thresholds, Tick, UtcDay};
use gua_probe::clock;
use gua_probe::process::cost;
use gua_probe::reader::READER_ARGUMENT;
use gua_query::{AccountsQuestion, QueryError, accounts};
use gua_render::metrics::{CollectorMetrics, Cost, GpuMetrics, HostMetrics};
use gua_settings::Settings;
use jiff::Timestamp;
use tracing::{info, warn};

use super::{Published, Snapshot, complete};
use crate::observer::Options;
use crate::sink::Progress;
use crate::{VERSION, lock};

/// Event from the collector's loop.
#[derive(Debug)]
pub(super) enum Event {
    /// A tick was stored.
    Tick(Box<Tick>),
    Outage(Outage),
    /// The driver could not be read.
    Failed,
    /// A tick has ended; its outages were reported before.
    Ticked(Progress),
    Configure(Options),
}

/// An event with its number; numbers have no gaps unless an event was dropped.
pub(super) type Numbered = (u64, Event);

#[derive(Debug)]
pub(super) struct Publisher {
    published: Arc<Published>,
    history: PathBuf,
    settings: Settings,
    thresholds: Thresholds,
    /// Number of the next event.
    next: u64,
    /// `None` until the accounts can be read from the history, and when they have missed something.
    accounting: Option<Accounting>,
    failures: FailureLog,
    /// GPUs without counters.
    unbalanced: OpenFaults<GpuUuid>,
    /// The last stored sample, and when it arrived on the monotonic clock.
    sample: Option<(Sample, Duration)>,
    /// GPUs of this run, with the readings of the last tick.
    gpus: Vec<GpuMetrics>,
}

/// Accounts up to the last tick.
#[derive(Debug)]
struct Accounting {
    accounts: Accounts,
    spans: Spans,
    /// Day for which the idle floors were read.
    floors_of: UtcDay,
    last: Timestamp,
    /// Spans and window of the time before the last tick, whose outages may still be reported.
    pending: Option<(Vec<Span>, Period)>,
    outages: Vec<Outage>,
}

impl Publisher {
    pub(super) fn new(published: Arc<Published>, history: PathBuf, settings: Settings) -> Self {
        Self {
            published,
            history,
            thresholds: settings.thresholds(),
            settings,
            next: 0,
            accounting: None,
            failures: FailureLog::default(),
            unbalanced: OpenFaults::new(GpuUuid::eq),
            sample: None,
            gpus: Vec::new(),
        }
    }

    /// Handles events until the sink is dropped.
    pub(super) fn run(mut self, events: &Receiver<Numbered>) {
        while let Ok(event) = events.recv() {
            self.handle(event);
        }
    }

    pub(super) fn handle(&mut self, (number, event): Numbered) {
        if number != self.next {
            self.accounting = None;
        }
        self.next = number + 1;
        match event {
            Event::Tick(tick) => self.tick(*tick),
            Event::Outage(outage) => {
                if let Some(accounting) = &mut self.accounting {
                    accounting.outages.push(outage);
                }
            }
            Event::Failed => {
                for gpu in &mut self.gpus {
                    gpu.forget_readings();
                }
            }
            Event::Configure(options) => self.thresholds = options.thresholds,
            Event::Ticked(progress) => self.publish(&progress),
        }
    }

    fn tick(&mut self, tick: Tick) {
        self.gpus = followed(&self.gpus, &tick.sample, &self.thresholds);
        self.sample = Some((tick.sample.clone(), clock::monotonic()));
        let followed = match &mut self.accounting {
            Some(accounting) => accounting.push(tick, &self.history),
            None => Accounting::begin(tick, &self.history).map(|begun| {
                self.accounting = Some(begun);
            }),
        };
        self.warn_of_unbalanced();
        if followed.is_err() {
            // The accounts do not have this tick; the next one reads it from the history.
            self.accounting = None;
        }
        match self.failures.change(&followed) {
            Some(Ok(failures)) => info!(failures, "the history can be read for metrics again"),
            Some(Err(error)) => warn!(
                error = chain(error),
                "cannot read the history for metrics; counters of time are missing"
            ),
            None => {}
        }
    }

    /// Logs GPUs without counters.
    fn warn_of_unbalanced(&mut self) {
        let Some(accounting) = &self.accounting else {
            return;
        };
        let unbalanced = &accounting.accounts.unbalanced;
        self.unbalanced.update(unbalanced, |gpu, ticks| match ticks {
            Some(ticks) => info!(%gpu, ticks, "time counters are available again"),
            None => warn!(
                %gpu,
                "no time counters for a GPU whose stored hours do not add up; `gua db check` says why"
            ),
        });
    }

    fn publish(&mut self, progress: &Progress) {
        if let Some(accounting) = &mut self.accounting {
            accounting.settle();
        }
        let sample = self.sample.as_ref().map(|(sample, _)| sample);
        let mut metrics = HostMetrics {
            driver: sample.and_then(|sample| sample.driver.version.clone().ok()),
            gpus: self.gpus.clone(),
            accounts: self.accounting.as_ref().map(|one| one.accounts.clone()),
            collector: Some(CollectorMetrics {
                interval: progress.interval,
                ticks: progress.ticks,
                lost: progress.lost,
                tick_time: Some(progress.took),
                last_tick: sample.map(|sample| sample.at),
                outage: progress.outage,
            }),
            costs: costs("collector"),
            ..HostMetrics::without_gpus(VERSION)
        };
        complete(&mut metrics, &self.settings, sample);
        let snapshot = Snapshot {
            metrics,
            taken: self.sample.as_ref().map(|(_, taken)| *taken),
            interval: progress.interval,
        };
        *lock(&self.published) = Some(Arc::new(snapshot));
    }
}

/// Returns the GPUs of a sample, and earlier GPUs that are missing from it. A missing MIG instance was removed, not lost, so it is
/// left out.
fn followed(before: &[GpuMetrics], sample: &Sample, thresholds: &Thresholds) -> Vec<GpuMetrics> {
    let gpus = sample.gpus.iter();
    let mut now: Vec<GpuMetrics> = gpus.map(|gpu| GpuMetrics::new(gpu, thresholds)).collect();
    for gpu in before {
        let is_there = now.iter().any(|seen| seen.uuid == gpu.uuid);
        if !is_there && !gpu.uuid.as_str().starts_with("MIG-") {
            let mut lost = gpu.clone();
            lost.forget_readings();
            now.push(lost);
        }
    }
    now
}

impl Accounting {
    /// Reads the accounts of the time before a tick from the history.
    fn begin(tick: Tick, history: &std::path::Path) -> Result<Self, QueryError> {
        let at = tick.sample.at;
        let records = open_records(history)?;
        let accounts = accounts(records.as_ref(), &AccountsQuestion { until: at })?;
        let mut spans = Spans::new(accounts.thresholds, records.floors(at)?);
        spans.push_owned(tick);
        Ok(Self {
            accounts,
            spans,
            floors_of: UtcDay::of(at),
            last: at,
            pending: None,
            outages: Vec::new(),
        })
    }

    fn push(&mut self, tick: Tick, history: &std::path::Path) -> Result<(), QueryError> {
        self.settle();
        let at = tick.sample.at;
        let today = UtcDay::of(at);
        let floors = match today == self.floors_of {
            true => None,
            false => Some(open_records(history)?.floors(at)?),
        };
        let (_, spans) = self.spans.push_owned(tick);
        if let Some(floors) = floors {
            self.spans.floors = floors;
            self.floors_of = today;
        }
        // After the clock was set back, only the spans contain the end of the time before.
        let ends = spans.iter().map(|span| span.to);
        let end = ends.max().unwrap_or(self.last);
        let window = Period::new(self.last, if at > self.last { at } else { end });
        self.pending = Some((spans, window));
        self.last = at;
        Ok(())
    }

    /// Adds the time before the last tick. All of its outages have been reported by now.
    fn settle(&mut self) {
        let Some((spans, window)) = self.pending.take() else {
            return;
        };
        self.accounts.add(&spans, window, &self.outages);
        // An outage that has not ended is reported again, in full, when it ends.
        self.outages.clear();
    }
}

/// Returns the costs of this process, labelled `own`, and of the child that reads the driver.
pub(super) fn costs(own: &'static str) -> Vec<(&'static str, Cost)> {
    let costs = [(own, own_cost()), ("reader", reader_cost())];
    let known = costs.into_iter();
    known
        .filter_map(|(process, cost)| Some((process, cost?)))
        .collect()
}

/// Returns the cost of this process.
pub fn own_cost() -> Option<Cost> {
    Some(Cost {
        processor: clock::processor_time(),
        memory: cost::resident_memory(std::process::id())?,
    })
}

/// Returns the cost of the child that reads the driver. The child may be replaced at any moment.
fn reader_cost() -> Option<Cost> {
    let pid = cost::child_with_argument(READER_ARGUMENT)?;
    Some(Cost {
        processor: cost::processor_time(pid)?,
        memory: cost::resident_memory(pid)?,
    })
}
