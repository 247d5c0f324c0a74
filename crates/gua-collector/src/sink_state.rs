//! One sink with its open outage and the outages that it could not take yet.

use std::collections::VecDeque;

use gua_model::failure_log::FailureLog;
use gua_model::{Outage, Tick};
use jiff::Timestamp;
use tracing::{error, info, warn};

use crate::open_outage::OpenOutage;
use crate::sink::{Sink, SinkError};

/// Maximum number of outages queued for a sink that takes nothing; the oldest are dropped first.
const MAX_QUEUED: usize = 256;

#[derive(Debug)]
pub(crate) struct SinkState {
    pub(crate) sink: Box<dyn Sink>,
    pub(crate) outage: Option<OpenOutage>,
    queued: VecDeque<Outage>,
    maintenance: FailureLog,
}

/// Result of the delivery of a tick.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// Whether the sink took the tick.
    pub(crate) is_taken: bool,
    /// The outage of the sink that ended at this tick: the sink took it, or refused it for another reason.
    pub(crate) ended: Option<Outage>,
}

impl SinkState {
    pub(crate) fn new(sink: Box<dyn Sink>) -> Self {
        Self {
            sink,
            outage: None,
            queued: VecDeque::new(),
            maintenance: FailureLog::default(),
        }
    }

    /// Delivers a tick.
    pub(crate) fn deliver(&mut self, number: u64, tick: &Tick) -> Delivery {
        let at = tick.sample.at;
        let result = self.sink.deliver(tick);
        let ended = self.end_outage(at, result.as_ref().err());
        let is_taken = result.is_ok();
        match result {
            Ok(()) => {
                if let Some(outage) = &ended {
                    let (sink, ticks_lost) = (self.sink.name(), outage.ticks_lost);
                    info!(sink, tick = number, ticks_lost, "ticks are stored again");
                }
                self.flush();
                self.maintain(at);
            }
            Err(error) => {
                if self.outage.is_none() {
                    error!(sink = self.sink.name(), tick = number, %error, "tick not stored");
                }
                self.outage
                    .get_or_insert_with(|| OpenOutage::new(at, error.reason, error.message))
                    .add(1);
            }
        }
        Delivery { is_taken, ended }
    }

    /// Ends the open outage unless it continues with this error, and queues it.
    fn end_outage(&mut self, at: Timestamp, error: Option<&SinkError>) -> Option<Outage> {
        let reason = error.map(|error| error.reason);
        let old = self.outage.take_if(|old| Some(old.reason) != reason)?;
        let ended = old.close(at);
        self.queue(ended.clone());
        Some(ended)
    }

    fn maintain(&mut self, at: Timestamp) {
        let maintained = self.sink.maintain(at);
        let sink = self.sink.name();
        match self.maintenance.change(&maintained) {
            Some(Ok(attempts)) => info!(sink, attempts, "maintenance succeeded again"),
            Some(Err(error)) => warn!(sink, %error, "maintenance failed"),
            None => {}
        }
    }

    /// Adds skipped ticks to the open outage, if there is one.
    pub(crate) fn skipped(&mut self, ticks: u32) {
        if let Some(outage) = &mut self.outage {
            outage.add(ticks);
        }
    }

    pub(crate) fn queue(&mut self, outage: Outage) {
        if self.queued.len() == MAX_QUEUED {
            self.queued.pop_front();
        }
        self.queued.push_back(outage);
    }

    /// Hands over the queued outages in order, up to the first that the sink refuses.
    fn flush(&mut self) {
        while let Some(outage) = self.queued.front() {
            if self.sink.outage(outage).is_err() {
                return;
            }
            self.queued.pop_front();
        }
    }

    /// Ends the open outage and the sink. Outages that the sink still refuses are logged, which is their only record.
    pub(crate) fn finish(mut self, now: Timestamp) {
        if let Some(outage) = self.outage.take() {
            self.queue(outage.close(now));
        }
        self.flush();
        for outage in self.queued.drain(..) {
            error!(
                sink = self.sink.name(),
                from = %outage.from,
                to = %outage.to,
                reason = %outage.reason,
                ticks_lost = outage.ticks_lost,
                error = outage.detail,
                "outage not stored"
            );
        }
        self.sink.finish(now);
    }
}
