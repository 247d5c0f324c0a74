//! The thread of a board's alerts. The board finds the conditions on its hosts; the outbox queues and sends the messages. The
//! thread shares nothing with the requests of agents but the board's live state, so that a slow target never delays a push.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use gua_model::alert::{Alert, Finding, Sender};
use gua_probe::clock;
use gua_settings::Loaded;
use jiff::Timestamp;

use super::outbox::Outbox;
use super::{FINAL_WAIT, SenderState};
use crate::board::ConnectOptions;
use crate::board::setup::connect_options;
use crate::board::worker::Worker;

/// Time between two evaluations.
const EVALUATION_PERIOD: Duration = Duration::from_secs(2);

/// Alerts of a running board.
#[derive(Debug)]
pub struct FleetAlerts {
    worker: Worker,
}

impl FleetAlerts {
    /// Starts the thread; `None` if the board has no alerts. `find` returns what it finds for each of the alerts, in their
    /// order.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(
        loaded: &Loaded,
        data: &Path,
        find: impl FnMut(&[Alert], Timestamp) -> Vec<Vec<Finding>> + Send + 'static,
    ) -> io::Result<Option<Self>> {
        let sender = SenderState::board(data);
        let alerts = loaded.settings.alerts.iter().map(|alert| &alert.value);
        let alerts = alerts.filter(|alert| alert.by == Sender::Board);
        let alerts: Vec<Alert> = alerts.cloned().collect();
        if alerts.is_empty() {
            return Ok(None);
        }
        let mut thread = Thread {
            alerts,
            find: Box::new(find),
            outbox: Outbox::open(sender.state_file),
            options: connect_options(loaded),
            next_evaluation: Duration::ZERO,
        };
        let worker = Worker::start("alerts", move |end| thread.run(&end))?;
        Ok(Some(Self { worker }))
    }

    /// Ends the thread. What it has not delivered is in its file.
    pub fn stop(self) {
        self.worker.stop(FINAL_WAIT);
    }
}

type Find = Box<dyn FnMut(&[Alert], Timestamp) -> Vec<Vec<Finding>> + Send>;

struct Thread {
    alerts: Vec<Alert>,
    find: Find,
    outbox: Outbox,
    options: ConnectOptions,
    next_evaluation: Duration,
}

impl Thread {
    fn run(&mut self, end: &Receiver<()>) {
        loop {
            self.step(clock::now(), clock::monotonic());
            let evaluation = self.next_evaluation.saturating_sub(clock::monotonic());
            let retry = self.outbox.until_retry().unwrap_or(evaluation);
            if end.recv_timeout(evaluation.min(retry)) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    fn step(&mut self, now: Timestamp, monotonic: Duration) {
        if monotonic >= self.next_evaluation {
            self.next_evaluation = monotonic.saturating_add(EVALUATION_PERIOD);
            let found = (self.find)(&self.alerts, now);
            self.outbox.queue(self.alerts.iter().zip(found), now);
        }
        self.outbox
            .deliver(&self.alerts, &self.options, now, monotonic);
    }
}
