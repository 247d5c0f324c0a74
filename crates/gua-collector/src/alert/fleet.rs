//! The thread of a board's alerts. The board finds the conditions on its hosts; the outbox queues and sends the messages. The
//! thread shares nothing with the requests of agents but the board's live state, so that a slow target never delays a push.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use gua_model::alert::{Alert, Finding, Sender};
use gua_probe::clock;
use gua_settings::{FlagValue, Loaded};
use jiff::Timestamp;
use tracing::{error, info};

use super::outbox::Outbox;
use super::{EVALUATION_PERIOD, FINAL_WAIT, SenderState, alerts_of};
use crate::board::setup::connect_options;
use crate::board::worker::Worker;

/// Alerts of a running board.
#[derive(Debug)]
pub struct FleetAlerts {
    worker: Worker,
}

impl FleetAlerts {
    /// Starts the thread. It also runs without alerts, because a reload may add some. `find` returns the findings of each
    /// alert, in the order of the alerts.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(
        loaded: &Loaded,
        flags: &[FlagValue],
        data: &Path,
        find: impl FnMut(&[Alert], Timestamp) -> Vec<Vec<Finding>> + Send + 'static,
    ) -> io::Result<Self> {
        let mut thread = Thread {
            alerts: alerts_of_board(loaded),
            loaded: loaded.clone(),
            flags: flags.to_vec(),
            find: Box::new(find),
            outbox: Outbox::open(SenderState::board(data).state_file),
            next_evaluation: Duration::ZERO,
        };
        let worker = Worker::start("alerts", move |wake| thread.run(&wake))?;
        Ok(Self { worker })
    }

    /// Reads the alerts again. Returns at once.
    pub fn reload(&self) {
        self.worker.wake();
    }

    /// Ends the thread. Undelivered messages stay in its file.
    pub fn stop(self) {
        self.worker.stop(FINAL_WAIT);
    }
}

fn alerts_of_board(loaded: &Loaded) -> Vec<Alert> {
    let alerts = alerts_of(loaded, Sender::Board).into_iter();
    alerts.map(|alert| alert.value.clone()).collect()
}

type Find = Box<dyn FnMut(&[Alert], Timestamp) -> Vec<Vec<Finding>> + Send>;

struct Thread {
    alerts: Vec<Alert>,
    loaded: Loaded,
    flags: Vec<FlagValue>,
    find: Find,
    outbox: Outbox,
    next_evaluation: Duration,
}

impl Thread {
    /// Evaluates and delivers until the handle is dropped.
    fn run(&mut self, wake: &Receiver<()>) {
        loop {
            self.step(clock::now(), clock::monotonic());
            let evaluation = self.next_evaluation.saturating_sub(clock::monotonic());
            let retry = self.outbox.until_retry().unwrap_or(evaluation);
            match wake.recv_timeout(evaluation.min(retry)) {
                Ok(()) => self.reload(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Reads the settings again. If they have a mistake, the previous ones stay in force.
    fn reload(&mut self) {
        let loaded = Loaded::from(&self.loaded.inputs, &self.flags);
        match loaded.checked() {
            Ok(_) => {
                self.alerts = alerts_of_board(&loaded);
                self.loaded = loaded;
                info!(alerts = self.alerts.len(), "alerts reloaded");
            }
            Err(error) => error!(
                %error,
                "alerts not reloaded; the previous ones stay in force"
            ),
        }
    }

    fn step(&mut self, now: Timestamp, monotonic: Duration) {
        if monotonic >= self.next_evaluation {
            self.next_evaluation = monotonic.saturating_add(EVALUATION_PERIOD);
            if !self.alerts.is_empty() {
                let found = (self.find)(&self.alerts, now);
                self.outbox.queue(self.alerts.iter().zip(found), now);
            }
        }
        let options = connect_options(&self.loaded);
        self.outbox.deliver(&self.alerts, &options, now, monotonic);
    }
}
