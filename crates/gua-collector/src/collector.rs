//! The loop: read, deliver, sleep, until a signal stops it.

use std::time::Duration;

use gua_model::failure_log::OpenFaults;
use gua_model::{GapReason, Outage, Problem, Sample, Tick};
use gua_probe::clocks::{Clocks, NOTICEABLE};
use gua_probe::fault::DriverFault;
use jiff::Timestamp;
use tracing::{error, info, warn};

use crate::observer::{Observer, Options};
use crate::open_outage::OpenOutage;
use crate::runtime::{Runtime, Wake};
use crate::schedule::{Overrun, Schedule, Turn};
use crate::sink::{Progress, Sink};
use crate::sink_state::{Delivery, SinkState};

/// Collects ticks from a runtime into sinks and reports to an observer.
#[derive(Debug)]
pub struct Collector<R, O> {
    runtime: R,
    observer: O,
    options: Options,
    sinks: Vec<SinkState>,
    /// Period of the observer's heartbeat.
    heartbeat: Option<Duration>,
    /// Never without a heartbeat.
    next_beat: Duration,
    /// Number of the next tick.
    number: u64,
    /// Start of the last read.
    last_read: Option<Clocks>,
    /// The outage of the driver.
    driver: Option<OpenOutage>,
    /// Start and reason of the outage that the observer knows.
    reported: Option<(Timestamp, GapReason)>,
    problems: OpenFaults<Problem>,
    /// Number of consecutive late ticks.
    late_ticks: u64,
    lost: u64,
    is_ready: bool,
}

/// Counts of one run of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Ticks that were started, whether or not they were read.
    pub ticks: u64,
    /// Ticks that were due and are not in the history.
    pub lost: u64,
}

impl<R: Runtime, O: Observer> Collector<R, O> {
    pub fn new(runtime: R, observer: O, options: Options) -> Self {
        Self {
            runtime,
            observer,
            options,
            sinks: Vec::new(),
            heartbeat: None,
            next_beat: Duration::MAX,
            number: 0,
            last_read: None,
            driver: None,
            reported: None,
            problems: OpenFaults::new(Problem::is_same),
            late_ticks: 0,
            lost: 0,
            is_ready: false,
        }
    }

    /// Adds a sink. The first one is the history: a tick that it does not take counts as lost.
    #[must_use]
    pub fn with_sink(mut self, sink: Box<dyn Sink>) -> Self {
        self.sinks.push(SinkState::new(sink));
        self
    }

    #[must_use]
    pub fn with_heartbeat(mut self, period: Option<Duration>) -> Self {
        self.heartbeat = period;
        self.next_beat = period.map_or(Duration::MAX, |_| Duration::ZERO);
        self
    }

    /// Collects until a stop is requested.
    pub fn run(mut self) -> Summary {
        let start = self.runtime.clocks().monotonic;
        let mut schedule = Schedule::new(self.options.interval, start);
        // The number and the start of a tick whose read has not finished.
        let mut pending: Option<(u64, Clocks)> = None;
        loop {
            let now = self.runtime.clocks();
            let mut until = self.beat(now.monotonic);
            if pending.is_none() {
                match schedule.begin(now.monotonic) {
                    Turn::Tick => pending = Some(self.start_tick(now)),
                    Turn::Late(missed) => {
                        self.stalled(now, missed);
                        pending = Some(self.start_tick(now));
                    }
                    Turn::Wait(due) => until = until.min(due),
                }
            }
            match self.runtime.wait(until) {
                Wake::Due => {}
                Wake::Stop => break,
                Wake::Reload => self.reload(&mut schedule),
                Wake::Read(result) => {
                    if let Some((number, at)) = pending.take() {
                        match result {
                            Ok(sample) => self.deliver(number, sample),
                            Err(fault) => self.fail(number, at.wall, &fault),
                        }
                        self.report_outage();
                        let ended = self.runtime.clocks().monotonic;
                        let overrun = schedule.end(ended);
                        self.judge(number, overrun);
                        self.report_progress(ended.saturating_sub(at.monotonic));
                    }
                }
            }
        }
        self.finish()
    }

    /// Sends the heartbeat if it is due; returns when the next one is due.
    fn beat(&mut self, now: Duration) -> Duration {
        if let Some(period) = self.heartbeat.filter(|_| now >= self.next_beat) {
            self.observer.alive();
            self.next_beat = now.saturating_add(period);
        }
        self.next_beat
    }

    fn start_tick(&mut self, now: Clocks) -> (u64, Clocks) {
        if let Some(before) = self.last_read.replace(now) {
            for outage in now.outages_since(&before, self.options.interval) {
                let ticks_lost = outage.ticks_lost;
                warn!(error = outage.detail, ticks_lost, "time discontinuity");
                self.lost += u64::from(ticks_lost);
                self.record(&outage);
            }
        }
        self.runtime.start_read();
        let number = self.number;
        self.number += 1;
        (number, now)
    }

    /// Handles a tick that starts whole intervals late. Nothing in the loop takes that long between two ticks, so the
    /// process was stopped, frozen or starved.
    fn stalled(&mut self, now: Clocks, missed: Overrun) {
        // A busy machine delays short intervals by less than this.
        if missed.late < NOTICEABLE {
            self.judge(self.number, Some(missed));
            return;
        }
        let ticks_lost = missed.skipped;
        self.lost += u64::from(ticks_lost);
        let seconds = missed.late.as_secs_f64();
        let detail = format!("the collector stalled for {seconds:.1} s");
        warn!(error = detail, ticks_lost, "time not observed");
        if let Some(outage) = &mut self.driver {
            outage.add(ticks_lost);
            return;
        }
        self.record(&Outage {
            from: now.wall.checked_sub(missed.late).unwrap_or(now.wall),
            to: now.wall,
            reason: GapReason::CollectorDown,
            detail,
            ticks_lost,
        });
    }

    /// Reports the current outage to the observer when it changes. The driver's comes first: without a sample, no sink
    /// can fail.
    fn report_outage(&mut self) {
        let history = self.sinks.first();
        let of_history = || history.and_then(|state| state.outage.as_ref());
        let outage = self.driver.as_ref().or_else(of_history);
        let current = outage.map(|outage| (outage.from, outage.reason));
        if current != self.reported {
            self.reported = current;
            self.observer.outage(outage);
        }
    }

    fn report_progress(&mut self, took: Duration) {
        let progress = Progress {
            interval: self.options.interval,
            ticks: self.number,
            lost: self.lost,
            took,
            outage: self.reported.map(|(_, reason)| reason),
        };
        for state in &mut self.sinks {
            state.sink.ticked(&progress);
        }
    }

    fn deliver(&mut self, number: u64, sample: Sample) {
        if let Some(outage) = self.driver.take() {
            let ticks_lost = outage.ticks_lost;
            info!(tick = number, ticks_lost, "driver responds again");
            self.record(&outage.close(sample.at));
        }
        self.problems
            .update(&sample.problems, |problem, ticks| match ticks {
                Some(ticks) => info!(ticks, error = %problem, "reading available again"),
                None => warn!(error = %problem, "reading unavailable"),
            });
        let tick = Tick {
            sample,
            interval: self.options.interval,
        };
        let mut of_history: Option<Delivery> = None;
        for state in &mut self.sinks {
            if let Some(stored) = &of_history
                && state.sink.follows_history()
            {
                // To a sink that follows the history, the outages of the history are its own.
                if let Some(outage) = &stored.ended {
                    state.queue(outage.clone());
                }
                if !stored.is_taken {
                    continue;
                }
            }
            let delivery = state.deliver(number, &tick);
            if of_history.is_some() {
                continue;
            }
            if !delivery.is_taken {
                self.lost += 1;
            } else if !self.is_ready {
                self.is_ready = true;
                self.observer.ready();
            }
            of_history = Some(delivery);
        }
        self.observer.ticked(number, &tick);
    }

    fn fail(&mut self, number: u64, at: Timestamp, fault: &DriverFault) {
        for state in &mut self.sinks {
            state.sink.driver_failed(at);
        }
        let (reason, fault) = cause(fault);
        // The driver may fail in another way now; the history records both.
        if let Some(old) = self.driver.take_if(|old| old.reason != reason) {
            self.record(&old.close(at));
        }
        if self.driver.is_none() {
            let line = format!("tick {number} failed: {fault}");
            error!(tick = number, error = %fault, line, "driver read failed");
        }
        self.driver
            .get_or_insert_with(|| OpenOutage::new(at, reason, fault.to_string()))
            .add(1);
        self.lost += 1;
    }

    /// Counts a late tick. While the driver or a sink fails, that failure is what made it late.
    fn judge(&mut self, number: u64, overrun: Option<Overrun>) {
        let Some(overrun) = overrun else {
            if self.late_ticks > 1 {
                info!(late_ticks = self.late_ticks, "on schedule again");
            }
            self.late_ticks = 0;
            return;
        };
        self.lost += u64::from(overrun.skipped);
        if let Some(outage) = &mut self.driver {
            outage.add(overrun.skipped);
            return;
        }
        for state in &mut self.sinks {
            state.skipped(overrun.skipped);
        }
        self.late_ticks += 1;
        if self.late_ticks == 1 {
            let seconds = overrun.late.as_secs_f64();
            let line = format!("tick {number} overran by {seconds:.3} s");
            warn!(tick = number, seconds, line, "tick overran its interval");
        }
    }

    fn reload(&mut self, schedule: &mut Schedule) {
        match self.observer.reload() {
            Ok(options) => {
                if options.interval != self.options.interval {
                    schedule.change(options.interval, self.runtime.clocks().monotonic);
                }
                self.options = options;
                for state in &mut self.sinks {
                    state.sink.configure(&options);
                }
                info!("settings reloaded");
            }
            Err(error) => warn!(
                error,
                "settings not reloaded; the previous ones stay in force"
            ),
        }
        self.observer.reloaded();
    }

    fn record(&mut self, outage: &Outage) {
        for state in &mut self.sinks {
            state.queue(outage.clone());
        }
    }

    fn finish(mut self) -> Summary {
        self.observer.stopping(self.number);
        let now = self.runtime.clocks().wall;
        if let Some(outage) = self.driver.take() {
            self.record(&outage.close(now));
        }
        for state in self.sinks {
            state.finish(now);
        }
        Summary {
            ticks: self.number,
            lost: self.lost,
        }
    }
}

/// Returns the gap reason of a fault. While the reader backs off, the fault that caused it counts.
fn cause(fault: &DriverFault) -> (GapReason, &DriverFault) {
    match fault {
        DriverFault::BackingOff { last, .. } => cause(last),
        DriverFault::Hung { .. } => (GapReason::DriverHung, fault),
        _ => (GapReason::DriverUnavailable, fault),
    }
}

#[cfg(test)]
mod tests;
