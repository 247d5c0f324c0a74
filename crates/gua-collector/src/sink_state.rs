//! One sink with what it still has to be told: ticks that it lost, outages that it could not take.

use std::collections::VecDeque;

use gua_model::{Outage, Tick};
use jiff::Timestamp;

use crate::open_outage::OpenOutage;
use crate::sink::Sink;

/// More outages than this are not kept for a sink that takes nothing; the oldest go first.
const MOST_WAITING: usize = 256;

pub(crate) struct SinkState {
    pub(crate) sink: Box<dyn Sink>,
    trouble: Option<OpenOutage>,
    waiting: VecDeque<Outage>,
    /// How often in a row the work between ticks has failed.
    failed_upkeep: u64,
}

/// What became of a tick.
pub(crate) struct Delivered {
    pub(crate) stored: bool,
    /// What is to be logged.
    pub(crate) notes: Vec<String>,
}

impl SinkState {
    pub(crate) fn new(sink: Box<dyn Sink>) -> Self {
        Self {
            sink,
            trouble: None,
            waiting: VecDeque::new(),
            failed_upkeep: 0,
        }
    }

    /// What keeps it from taking ticks now.
    pub(crate) fn trouble(&self) -> Option<&OpenOutage> {
        self.trouble.as_ref()
    }

    pub(crate) fn deliver(&mut self, number: u64, tick: &Tick) -> Delivered {
        let mut notes = Vec::new();
        let at = tick.sample.at;
        let result = self.sink.deliver(tick);
        let stored = result.is_ok();
        match result {
            Ok(()) => {
                if let Some(trouble) = self.trouble.take() {
                    let (name, lost) = (self.sink.name(), trouble.ticks_lost);
                    notes.push(format!(
                        "{name} takes ticks again at tick {number}; {lost} were lost"
                    ));
                    self.keep(trouble.close(at));
                }
                self.flush();
                notes.extend(self.upkeep(at));
                notes.extend(self.sink.notes());
            }
            Err(error) => {
                let other = |old: &mut OpenOutage| old.reason != error.reason;
                if let Some(old) = self.trouble.take_if(other) {
                    self.keep(old.close(at));
                }
                if self.trouble.is_none() {
                    let name = self.sink.name();
                    notes.push(format!("tick {number} is lost to the {name}: {error}"));
                }
                let message = error.message;
                self.trouble
                    .get_or_insert_with(|| OpenOutage::new(at, error.reason, message))
                    .add(1);
            }
        }
        Delivered { stored, notes }
    }

    fn upkeep(&mut self, at: Timestamp) -> Option<String> {
        let name = self.sink.name().to_owned();
        match self.sink.upkeep(at) {
            Ok(()) => {
                let failed = std::mem::take(&mut self.failed_upkeep);
                (failed > 0).then(|| format!("the {name} is kept up again after {failed} attempts"))
            }
            Err(error) => {
                self.failed_upkeep += 1;
                let is_news = self.failed_upkeep == 1;
                is_news.then(|| format!("the {name} could not be kept up: {error}"))
            }
        }
    }

    /// Ticks that fell out while this sink was in trouble belong to its trouble.
    pub(crate) fn skipped(&mut self, ticks: u32) {
        if let Some(trouble) = &mut self.trouble {
            trouble.add(ticks);
        }
    }

    pub(crate) fn keep(&mut self, outage: Outage) {
        if self.waiting.len() == MOST_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(outage);
    }

    /// Hands over what waits, in order, until something does not go through.
    pub(crate) fn flush(&mut self) {
        while let Some(outage) = self.waiting.front() {
            if self.sink.outage(outage).is_err() {
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// The loop ends: what is still going on ends with it. Outages that the sink does not take even now are returned as
    /// lines for the log, the only place left to know of them.
    pub(crate) fn finish(&mut self, now: Timestamp) -> Vec<String> {
        if let Some(trouble) = self.trouble.take() {
            self.keep(trouble.close(now));
        }
        self.flush();
        self.sink.finish(now);
        let name = self.sink.name();
        let told = |outage: Outage| {
            let Outage {
                from,
                to,
                reason,
                detail,
                ticks_lost,
            } = outage;
            format!(
                "the {name} does not know of {ticks_lost} lost ticks from {from} to {to} ({reason}): {detail}"
            )
        };
        self.waiting.drain(..).map(told).collect()
    }
}
