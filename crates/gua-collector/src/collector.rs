//! The loop itself: ask, deliver, sleep, until a signal says otherwise.

use std::fmt;
use std::time::Duration;

use gua_model::{GapReason, Outage, Sample, Tick};
use gua_probe::fault::DriverFault;
use jiff::Timestamp;

use crate::clocks::{Clocks, NOTICEABLE};
use crate::observer::{Observer, Options};
use crate::open_outage::OpenOutage;
use crate::problem_log::ProblemLog;
use crate::runtime::{Runtime, Wake};
use crate::schedule::{Overrun, Schedule, Turn};
use crate::sink::Sink;
use crate::sink_state::SinkState;

/// Collects from a runtime into sinks, in front of an observer.
pub struct Collector<W, A> {
    runtime: W,
    observer: A,
    options: Options,
    sinks: Vec<SinkState>,
    /// How often the observer wants to hear that the loop is alive.
    heartbeat: Option<Duration>,
    next_beat: Option<Duration>,
    /// The tick to come.
    number: u64,
    /// When the last tick was asked for.
    last_asked: Option<Clocks>,
    driver: Option<OpenOutage>,
    /// The trouble that the observer knows of.
    told: Option<(Timestamp, GapReason)>,
    problem_log: ProblemLog,
    /// Ticks in a row that overran.
    overruns: u64,
    lost: u64,
    is_ready: bool,
}

/// What a run of the loop came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Ticks that were begun, read or not.
    pub ticks: u64,
    /// Ticks that were due and are in no history.
    pub lost: u64,
}

/// A tick that waits for its answer.
struct Asked {
    number: u64,
    at: Clocks,
}

impl<W: fmt::Debug, A> fmt::Debug for Collector<W, A> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Collector")
            .field("runtime", &self.runtime)
            .field("options", &self.options)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl<W: Runtime, A: Observer> Collector<W, A> {
    #[must_use]
    pub fn new(runtime: W, observer: A, options: Options) -> Self {
        Self {
            runtime,
            observer,
            options,
            sinks: Vec::new(),
            heartbeat: None,
            next_beat: None,
            number: 0,
            last_asked: None,
            driver: None,
            told: None,
            problem_log: ProblemLog::default(),
            overruns: 0,
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
        self
    }

    /// Collects until it is told to stop.
    pub fn run(mut self) -> Summary {
        let start = self.runtime.clocks().monotonic;
        let mut schedule = Schedule::new(self.options.interval, start);
        self.next_beat = self.heartbeat.map(|_| start);
        let mut asked: Option<Asked> = None;
        loop {
            let now = self.runtime.clocks();
            let mut until = self.beat(now.monotonic);
            if asked.is_none() {
                match schedule.begin(now.monotonic) {
                    Turn::Tick => asked = Some(self.ask(now)),
                    Turn::Late(missed) => {
                        self.stood_still(now, missed);
                        asked = Some(self.ask(now));
                    }
                    Turn::Wait(due) => {
                        self.runtime.expect(due, self.options.interval);
                        until = until.min(due);
                    }
                }
            }
            match self.runtime.wait(until) {
                Wake::Due => {}
                Wake::Stop => break,
                Wake::Reload => self.reload(&mut schedule),
                Wake::Answer(answer) => {
                    if let Some(asked) = asked.take() {
                        self.take(&asked, answer);
                        self.tell_trouble();
                        let overrun = schedule.end(self.runtime.clocks().monotonic);
                        self.judge(asked.number, overrun);
                    }
                }
            }
        }
        self.finish()
    }

    /// Says that we are alive where that is due; returns when it is due next.
    fn beat(&mut self, now: Duration) -> Duration {
        let (Some(period), Some(next)) = (self.heartbeat, self.next_beat) else {
            return Duration::MAX;
        };
        if now < next {
            return next;
        }
        self.observer.alive();
        let next = now.saturating_add(period);
        self.next_beat = Some(next);
        next
    }

    fn ask(&mut self, now: Clocks) -> Asked {
        if let Some(before) = self.last_asked.replace(now) {
            for outage in now.outages_since(&before, self.options.interval) {
                self.observer.note(&outage.detail);
                self.count(outage.ticks_lost);
                self.keep(&outage);
            }
        }
        self.runtime.ask();
        let number = self.number;
        self.number += 1;
        Asked { number, at: now }
    }

    /// Nothing that the loop does between two ticks takes long: this process was stopped, frozen or starved.
    fn stood_still(&mut self, now: Clocks, missed: Overrun) {
        // Less than this a busy machine does to intervals that are as short.
        if missed.late < NOTICEABLE {
            self.judge(self.number, Some(missed));
            return;
        }
        self.count(missed.skipped);
        let seconds = missed.late.as_secs_f64();
        let detail = format!("the collector stood still for {seconds:.1} s");
        self.observer.note(&detail);
        if let Some(trouble) = &mut self.driver {
            trouble.add(missed.skipped);
            return;
        }
        self.keep(&Outage {
            from: now.wall.checked_sub(missed.late).unwrap_or(now.wall),
            to: now.wall,
            reason: GapReason::CollectorDown,
            detail,
            ticks_lost: missed.skipped,
        });
    }

    fn take(&mut self, asked: &Asked, answer: Result<Sample, DriverFault>) {
        match answer {
            Ok(sample) => self.deliver(asked.number, sample),
            Err(fault) => self.fail(asked, &fault),
        }
    }

    /// Says what costs ticks, where that is news: the driver before the history, which needs a tick to be in trouble.
    fn tell_trouble(&mut self) {
        let of_history = || self.sinks.first().and_then(SinkState::trouble);
        let trouble = self.driver.as_ref().or_else(of_history);
        let news = trouble.map(|trouble| (trouble.from, trouble.reason));
        if news != self.told {
            self.told = news;
            self.observer.outage(trouble);
        }
    }

    fn deliver(&mut self, number: u64, sample: Sample) {
        if let Some(trouble) = self.driver.take() {
            let lost = trouble.ticks_lost;
            self.observer.note(&format!(
                "the driver answers again at tick {number}; {lost} ticks were lost"
            ));
            self.keep(&trouble.close(sample.at));
        }
        for note in self.problem_log.hear(&sample) {
            self.observer.note(&note);
        }
        let tick = Tick {
            sample,
            interval: self.options.interval,
        };
        let mut is_stored = true;
        for (place, outlet) in self.sinks.iter_mut().enumerate() {
            if !is_stored && outlet.sink.follows_history() {
                continue;
            }
            let delivered = outlet.deliver(number, &tick);
            for note in &delivered.notes {
                self.observer.note(note);
            }
            if place == 0 && !delivered.stored {
                self.lost += 1;
                is_stored = false;
            }
            if place == 0 && delivered.stored && !self.is_ready {
                self.is_ready = true;
                self.observer.ready();
            }
        }
        self.observer.ticked(number, &tick);
    }

    fn fail(&mut self, asked: &Asked, fault: &DriverFault) {
        for outlet in &mut self.sinks {
            outlet.sink.driver_failed(asked.at.wall);
        }
        let (reason, fault) = cause(fault);
        // It may be sick in another way now, and history is to know both.
        if let Some(old) = self.driver.take_if(|old| old.reason != reason) {
            self.keep(&old.close(asked.at.wall));
        }
        if self.driver.is_none() {
            self.observer
                .note(&format!("tick {} failed: {fault}", asked.number));
        }
        let detail = || OpenOutage::new(asked.at.wall, reason, fault.to_string());
        self.driver.get_or_insert_with(detail).add(1);
        self.lost += 1;
    }

    /// What a late tick means. While the driver or a sink is in trouble, that is what made it late.
    fn judge(&mut self, number: u64, overrun: Option<Overrun>) {
        let Some(overrun) = overrun else {
            if self.overruns > 1 {
                let late = self.overruns;
                self.observer
                    .note(&format!("on schedule again after {late} late ticks"));
            }
            self.overruns = 0;
            return;
        };
        self.count(overrun.skipped);
        if let Some(trouble) = &mut self.driver {
            trouble.add(overrun.skipped);
            return;
        }
        for outlet in &mut self.sinks {
            outlet.skipped(overrun.skipped);
        }
        self.overruns += 1;
        if self.overruns == 1 {
            let seconds = overrun.late.as_secs_f64();
            self.observer
                .note(&format!("tick {number} overran by {seconds:.3} s"));
        }
    }

    fn reload(&mut self, schedule: &mut Schedule) {
        match self.observer.reload() {
            Ok(options) => {
                if options.interval != self.options.interval {
                    schedule.change(options.interval, self.runtime.clocks().monotonic);
                }
                self.options = options;
                for outlet in &mut self.sinks {
                    outlet.sink.configure(&options);
                }
                self.observer.note("settings were read again");
            }
            Err(problem) => self.observer.note(&format!(
                "settings were not read again, the old ones stand: {problem}"
            )),
        }
        self.observer.reloaded();
    }

    fn count(&mut self, ticks: u32) {
        self.lost += u64::from(ticks);
    }

    fn keep(&mut self, outage: &Outage) {
        for outlet in &mut self.sinks {
            outlet.keep(outage.clone());
        }
    }

    fn finish(mut self) -> Summary {
        self.observer.stopping(self.number);
        let now = self.runtime.clocks().wall;
        if let Some(trouble) = self.driver.take() {
            self.keep(&trouble.close(now));
        }
        for outlet in &mut self.sinks {
            for note in outlet.finish(now) {
                self.observer.note(&note);
            }
        }
        Summary {
            ticks: self.number,
            lost: self.lost,
        }
    }
}

/// What history calls a fault, and the fault itself where the reader only waits after it.
fn cause(fault: &DriverFault) -> (GapReason, &DriverFault) {
    match fault {
        DriverFault::BackingOff { last, .. } => cause(last),
        DriverFault::Hung { .. } => (GapReason::DriverHung, fault),
        _ => (GapReason::DriverUnavailable, fault),
    }
}

#[cfg(test)]
mod tests;
