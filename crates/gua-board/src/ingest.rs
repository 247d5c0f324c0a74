//! The write queue: observations of all agents, stored in batches.
//!
//! One thread takes what has arrived and stores it in one transaction, at most 1,000 observations or 50 ms after the last
//! batch began. A quiet board therefore stores at once, and a busy one commits 20 times a second. A request waits until its
//! observation is stored: nothing is acknowledged before. The queue is bounded; a full one refuses.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gua_board_store::StoreError;
use gua_board_store::ledger::Observation;
use gua_model::failure_log::FailureLog;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::{error, info};

use crate::error::Problem;
use crate::metrics::Metrics;

/// Maximum number of observations in one transaction.
const MAX_BATCH: usize = 1000;
/// Minimum time between the starts of two transactions.
const BATCH_TIME: Duration = Duration::from_millis(50);

/// An observation and the request that waits for it.
struct Waiting {
    observation: Observation,
    /// Dropped without a message if it could not be stored.
    stored: oneshot::Sender<()>,
}

/// Queue of observations to store.
pub(crate) struct WriteQueue {
    /// `None` after [`WriteQueue::stop`].
    sender: Mutex<Option<SyncSender<Waiting>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl WriteQueue {
    /// Starts the thread that stores batches with `record`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn start(
        record: impl Fn(&[Observation]) -> Result<(), StoreError> + Send + 'static,
        metrics: Arc<Metrics>,
        capacity: usize,
    ) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(capacity);
        let thread = thread::Builder::new()
            .name("gua-board-write".to_owned())
            .spawn(move || store_all(&receiver, &record, &metrics))?;
        Ok(Self {
            sender: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Stores an observation and returns when it is stored.
    ///
    /// # Errors
    /// If the queue is full or closed, or if it could not be stored.
    pub(crate) async fn store(&self, observation: Observation) -> Result<(), Problem> {
        let (stored, result) = oneshot::channel();
        let waiting = Waiting {
            observation,
            stored,
        };
        self.send(waiting)?;
        result.await.map_err(|_| Problem::NotStored)
    }

    fn send(&self, waiting: Waiting) -> Result<(), Problem> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = sender.as_ref().ok_or(Problem::Stopping)?;
        sender.try_send(waiting).map_err(|error| match error {
            TrySendError::Full(_) => Problem::Overloaded,
            TrySendError::Disconnected(_) => Problem::Stopping,
        })
    }

    /// Refuses new observations and waits until all accepted ones are stored.
    pub(crate) fn stop(&self) {
        let take = |error: PoisonError<_>| error.into_inner();
        drop(self.sender.lock().unwrap_or_else(take).take());
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            // A panic of the thread was reported by the panic handler, and its requests were answered with 503.
            let _ = thread.join();
        }
    }
}

fn store_all(
    receiver: &Receiver<Waiting>,
    record: &dyn Fn(&[Observation]) -> Result<(), StoreError>,
    metrics: &Metrics,
) {
    let mut next_batch = Instant::now();
    let mut failures = FailureLog::default();
    while let Some(batch) = collect(receiver, next_batch) {
        let began = Instant::now();
        next_batch = began + BATCH_TIME;
        let (observations, waiting): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .map(|one| (one.observation, one.stored))
            .unzip();
        let result = record(&observations);
        metrics.stored(observations.len(), began.elapsed(), result.is_ok());
        match failures.change(&result) {
            Some(Ok(failures)) => info!(failures, "observations are stored again"),
            Some(Err(error)) => {
                let cause = std::error::Error::source(error).map(ToString::to_string);
                error!(error = %error, cause = cause, count = observations.len(), "observations not stored");
            }
            None => {}
        }
        if result.is_ok() {
            for stored in waiting {
                // The agent may have hung up.
                let _ = stored.send(());
            }
        }
    }
}

/// Waits for the first observation, then collects until the batch is due or full. `None` when the queue is closed.
fn collect(receiver: &Receiver<Waiting>, due: Instant) -> Option<Vec<Waiting>> {
    let mut batch = vec![receiver.recv().ok()?];
    while batch.len() < MAX_BATCH {
        let left = due.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(left) {
            Ok(waiting) => batch.push(waiting),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    Some(batch)
}

#[cfg(test)]
mod tests;
