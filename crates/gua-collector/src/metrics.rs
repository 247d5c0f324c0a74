//! Metrics of the daemon for Prometheus, and of `gua metrics`.
//!
//! There are three parts, which never wait for each other. The sink passes each tick to the thread of the `publisher`. That
//! thread updates the accounts and publishes a snapshot. The `server` answers requests with the latest snapshot. Therefore a
//! request never reads the driver or the history, and a slow client never delays a tick.

mod publisher;
mod server;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gua_model::{Cadence, Outage, RollUp, Sample, State, Tick};
use gua_query::AccountsQuestion;
use gua_render::metrics::{HostMetrics, Names};
use gua_settings::kind::OthersShown;
use gua_settings::{Loaded, Settings};
use jiff::Timestamp;

pub use self::publisher::own_cost;
use self::publisher::{Event, Numbered, Publisher};
use crate::observer::Options;
use crate::sink::{Progress, Sink, SinkError};
use crate::{VERSION, claims, location};

/// Default address: loopback, and a port that no exporter in Prometheus's list of default ports uses.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:19400";

/// Maximum number of queued events, far more than the publisher is ever behind.
const MAX_EVENTS: usize = 1024;

/// The latest snapshot, shared by the publisher and the server.
type Published = Mutex<Option<Arc<Snapshot>>>;

/// Metrics at the last tick.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    metrics: HostMetrics,
    /// Time of the readings, on the monotonic clock.
    taken: Option<Duration>,
    interval: Duration,
}

impl Snapshot {
    /// Whether the readings are recent enough to be shown at `now` on the monotonic clock: no tick was missed since.
    fn is_fresh(&self, now: Duration) -> bool {
        let cadence = Cadence::new(self.interval);
        self.taken
            .is_some_and(|taken| !cadence.is_missed(now.saturating_sub(taken)))
    }
}

/// Passes ticks to the publisher and never blocks.
#[derive(Debug)]
pub struct MetricsSink {
    events: SyncSender<Numbered>,
    /// Number of events so far. A number that the publisher does not receive is an event that was dropped.
    count: u64,
}

impl MetricsSink {
    /// Starts the publisher and the server.
    ///
    /// # Errors
    /// If a thread cannot be started. An address that is in use is not an error: it is logged and retried.
    pub fn start(address: SocketAddr, history: PathBuf, settings: Settings) -> io::Result<Self> {
        let published = Arc::<Published>::default();
        server::start(address, Arc::clone(&published))?;
        Self::publish_to(published, history, settings)
    }

    fn publish_to(
        published: Arc<Published>,
        history: PathBuf,
        settings: Settings,
    ) -> io::Result<Self> {
        let (events, received) = sync_channel(MAX_EVENTS);
        let publisher = Publisher::new(published, history, settings);
        std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || publisher.run(&received))?;
        Ok(Self { events, count: 0 })
    }

    fn send(&mut self, event: Event) {
        // If the queue is full, the event is dropped, and the publisher reads the history again.
        let _ = self.events.try_send((self.count, event));
        self.count += 1;
    }
}

impl Sink for MetricsSink {
    fn name(&self) -> &str {
        "metrics"
    }

    fn deliver(&mut self, tick: &Tick) -> Result<(), SinkError> {
        self.send(Event::Tick(Box::new(tick.clone())));
        Ok(())
    }

    fn driver_failed(&mut self, _at: Timestamp) {
        self.send(Event::Failed);
    }

    fn outage(&mut self, outage: &Outage) -> Result<(), SinkError> {
        self.send(Event::Outage(outage.clone()));
        Ok(())
    }

    fn ticked(&mut self, progress: &Progress) {
        self.send(Event::Ticked(*progress));
    }

    fn configure(&mut self, options: &Options) {
        self.send(Event::Configure(*options));
    }
}

/// Sets which names the settings allow as labels. Every local user can read the metrics, so `privacy.others` must allow names
/// too.
fn allow_names(metrics: &mut HostMetrics, settings: &Settings) {
    let may_name = settings.privacy.others.value == OthersShown::Names;
    let names = |is_wanted: bool| match is_wanted && may_name {
        true => Names::Shown,
        false => Names::Hidden,
    };
    metrics.users = names(settings.metrics.users.value);
    metrics.workloads = names(settings.metrics.workloads.value);
}

/// Completes the metrics of a sample: allowed names, activity at the moment, and the claims of this host. If the claim
/// directory cannot be read, the claims are unknown.
fn complete(metrics: &mut HostMetrics, settings: &Settings, sample: Option<&Sample>) {
    allow_names(metrics, settings);
    let Some(sample) = sample else { return };
    if let Some(accounts) = &mut metrics.accounts {
        for gpu in &metrics.gpus {
            let is_active = gpu.state.and_then(State::roll_up) == Some(RollUp::Active);
            if is_active && !accounts.unbalanced.contains(&gpu.uuid) {
                let account = accounts.gpus.entry(gpu.uuid.clone()).or_default();
                account.last_active = account.last_active.max(Some(sample.at));
            }
        }
    }
    let Ok(taken) = claims::taken(settings, sample, Vec::new()) else {
        return;
    };
    let claimed = taken.survey.claimed();
    metrics.claims = Some(taken.survey.claims.len());
    for gpu in &mut metrics.gpus {
        gpu.is_claimed = Some(claimed.contains(&gpu.uuid));
    }
}

/// Returns the metrics of a sample with the accounts of the history, for `gua metrics`. Without a history, counters of GPU time
/// are missing. The cost of the driver reader is included only while it runs.
pub fn once(loaded: &Loaded, sample: &Sample) -> HostMetrics {
    let settings = &loaded.settings;
    let mut metrics = HostMetrics::of_sample(sample, &settings.thresholds(), VERSION);
    let question = AccountsQuestion { until: sample.at };
    metrics.accounts = location::source(loaded).accounts(&question).ok();
    complete(&mut metrics, settings, Some(sample));
    metrics.costs = publisher::costs("command");
    metrics
}

#[cfg(test)]
mod tests;
