//! The loop around a job: one thread waits for its end, for signals, for what it says, for the driver and for the time of
//! the next look. The job is started first; nothing that is done for watching it holds it up.

use std::io;
use std::time::Duration;

use gua_model::{Pid, Sample, Thresholds};
use gua_probe::clock;
use gua_probe::fault::DriverFault;
use gua_probe::host::HostRoot;
use gua_probe::host::processor::processor_time;
use gua_probe::process::ProcRoot;
use gua_probe::process::family::{Family, FamilyUse};
use gua_probe::reader::{Awaited, Reader, ReaderOptions, Waiting, Woken, sleep};
use gua_wire::run::json::Fields;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rustix::io::Errno;

use crate::digest::{RunName, RunSummary, RunTime, counted};
use crate::job::{End, Job, JobCommand, reap};
use crate::marks::{Mark, Marks, RUN_VARIABLE};
use crate::record::Record;
use crate::watch::{Scope, Watch, sample_fields};

/// A job that ends before this is not looked at: reading the driver would take longer than the job.
const FIRST_LOOK: Duration = Duration::from_millis(50);

/// How long the last look may take, once the job has ended.
const LAST_LOOK: Duration = Duration::from_millis(150);

/// And how long after a job beside which that is little: what it used since the look before is known from this one alone.
const LAST_LOOK_OF_LONG: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(5);

/// A driver that has not answered for this long when the job ends is told of.
const LONG_SILENCE: Duration = Duration::from_secs(1);

/// How long after its end an orphan is reaped at the latest: many that end together are found by one look.
const REAP_DELAY: Duration = Duration::from_millis(100);

/// How a job is watched.
#[derive(Debug)]
pub struct Options {
    pub command: JobCommand,
    pub name: RunName,
    pub interval: Duration,
    pub scope: Scope,
    pub thresholds: Thresholds,
    pub zone: TimeZone,
    pub reader: ReaderOptions,
    pub record: Option<Record>,
    /// Said in the summary beside what is found.
    pub notes: Vec<String>,
    /// Said where the scope names cards and the driver knows none of them.
    pub unknown_cards: Option<String>,
}

/// What became of it.
#[derive(Debug)]
pub struct Outcome {
    pub end: End,
    pub started: Timestamp,
    pub ended: Timestamp,
    pub summary: RunSummary,
    record: Option<Record>,
}

impl Outcome {
    /// Writes the summary where the run has a directory, with what else is to be said in it.
    pub fn conclude(&mut self, note: Option<String>) {
        self.summary.notes.extend(note);
        if let Some(record) = &mut self.record {
            record.summary(&self.summary.to_json());
            self.summary.notes.extend(record.summary_trouble());
        }
    }
}

/// Why the job did not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the job")]
pub struct StartError(#[source] pub io::Error);

/// Runs the job and watches it until its first process has ended; [`Outcome::conclude`] writes the summary. `told` is called once, when the job has lived long enough
/// to be looked at.
pub fn attend(
    options: Options,
    told: impl FnOnce(&RunName, Timestamp),
) -> Result<Outcome, StartError> {
    let marks = Marks::new().map_err(StartError)?;
    let mut command = options.command.clone();
    let variables = marks.variables().into_iter();
    command
        .variables
        .extend(variables.map(|(name, value)| (name.to_owned(), value.into())));
    command
        .variables
        .push((RUN_VARIABLE.to_owned(), options.name.id.clone().into()));
    let start = Moment::now();
    let job = Job::start(&command, &marks).map_err(StartError)?;
    let mut attendance = Attendance::new(options, job, marks, start);
    attendance.announce();
    attendance.run(told);
    Ok(attendance.finish())
}

/// One moment on the three clocks: the wall's, the one of samples, which goes on while the machine sleeps, and the one of
/// schedules, which does not.
#[derive(Clone, Copy)]
struct Moment {
    at: Timestamp,
    since_boot: Duration,
    monotonic: Duration,
}

impl Moment {
    fn now() -> Self {
        Self {
            at: clock::now(),
            since_boot: clock::since_boot(),
            monotonic: clock::monotonic(),
        }
    }
}

struct Attendance {
    job: Job,
    marks: Marks,
    name: RunName,
    interval: Duration,
    start: Moment,
    next: Duration,
    reader: Reader,
    /// When the driver was asked what it has not answered yet, on the monotonic clock.
    asked: Option<Duration>,
    has_looked: bool,
    /// When orphans are to be reaped, on the monotonic clock.
    reap_at: Option<Duration>,
    fault: Option<DriverFault>,
    family: Family,
    host: HostRoot,
    watch: Watch,
    record: Option<Record>,
    notes: Vec<String>,
    unknown_cards: Option<String>,
}

impl Attendance {
    fn new(options: Options, job: Job, marks: Marks, start: Moment) -> Self {
        let family = Family::new(ProcRoot::default(), job.pid(), Pid(std::process::id()));
        Self {
            job,
            marks,
            name: options.name,
            interval: options.interval,
            start,
            next: start.monotonic + FIRST_LOOK,
            reader: Reader::new(options.reader),
            asked: None,
            has_looked: false,
            reap_at: None,
            fault: None,
            family,
            host: HostRoot::real(),
            watch: Watch::new(
                options.scope,
                options.thresholds,
                options.zone,
                options.interval,
            ),
            record: options.record,
            notes: options.notes,
            unknown_cards: options.unknown_cards,
        }
    }

    fn announce(&mut self) {
        let data = Fields::new()
            .with("id", self.name.id.as_str())
            .with("name", self.name.name.as_str())
            .with("host", self.name.host.as_str())
            .with("pid", self.job.pid().0)
            .with("interval_seconds", self.interval.as_secs_f64());
        if let Some(record) = &mut self.record {
            record.begin();
            record.event(self.start.at, "run_started", &data);
        }
    }

    fn run(&mut self, told: impl FnOnce(&RunName, Timestamp)) {
        let mut told = Some(told);
        while !self.job.has_ended() {
            let heard = match self.wait() {
                Ok(heard) => heard,
                Err(Errno::INTR) => continue,
                // Without a way to wait there is nothing left but the job itself.
                Err(_) => return,
            };
            let [signal, mark] = heard.others;
            if signal {
                let heard = self.job.attend();
                if self.job.has_ended() {
                    return;
                }
                if heard.is_of_children {
                    // The next look can be an hour away.
                    self.reap_at.get_or_insert(clock::monotonic() + REAP_DELAY);
                }
                self.job.stop_with_it();
            }
            if mark {
                let marks = self.marks.take();
                self.take_down(&marks, Moment::now());
            }
            if heard.words {
                self.reader.hear();
            }
            if self.asked.is_some() && (heard.answer || self.is_overdue()) {
                self.take_answer();
            }
            let now = clock::monotonic();
            if self.reap_at.take_if(|reap_at| *reap_at <= now).is_some() {
                self.look_at_processes();
            }
            if now >= self.next {
                if let Some(told) = told.take() {
                    told(&self.name, self.start.at);
                }
                // A job may have been stopped for hours: there is no catching up.
                self.next = self.next.saturating_add(self.interval).max(now);
                self.ask();
            }
        }
    }

    fn wait(&self) -> rustix::io::Result<Woken<2>> {
        let waiting = self.reader.waiting().filter(|_| self.asked.is_some());
        let until = match waiting.as_ref().map(|waiting| waiting.what) {
            Some(Awaited::Answer { until }) => until.min(self.next),
            _ => self.next,
        };
        let until = self.reap_at.map_or(until, |reap_at| reap_at.min(until));
        sleep(
            [self.job.waiting(), self.marks.waiting()],
            waiting.as_ref(),
            until,
        )
    }

    fn is_overdue(&self) -> bool {
        let waiting = self.reader.waiting();
        waiting.is_some_and(|waiting| {
            matches!(waiting.what, Awaited::Answer { until } if until <= clock::monotonic())
        })
    }

    /// Begins a look. Without a driver, and while it does not answer, the processes and the host are looked at alone.
    fn ask(&mut self) {
        if self.asked.is_some() {
            // The last question is still open, and its answer will be as good as any.
            self.look(None);
            return;
        }
        match self.reader.begin() {
            Ok(()) => self.asked = Some(clock::monotonic()),
            Err(fault) => self.look(Some(Err(fault))),
        }
        if let Some(pid) = self.reader.child_pid() {
            self.family.exclude(Pid(pid));
        }
    }

    fn take_answer(&mut self) {
        self.asked = None;
        let answer = self.reader.finish();
        self.look(Some(answer));
    }

    /// Takes down everything of one moment.
    fn look(&mut self, answer: Option<Result<Sample, DriverFault>>) {
        let found = self.look_at_processes();
        let cores = self.watch.tree(clock::monotonic(), &found);
        let at = clock::now();
        if let Ok(time) = processor_time(&self.host)
            && let Some(line) = self.watch.processors(at, time)
            && let Some(record) = &mut self.record
        {
            record.cpu(&line);
        }
        let lines = match answer {
            Some(Ok(sample)) => self.watch.cards(&sample, |pid| self.family.has(pid)),
            Some(Err(fault)) => {
                self.complain(fault);
                Default::default()
            }
            None => Default::default(),
        };
        if let Some(record) = &mut self.record {
            record.cards(&lines);
            record.sample(at, &sample_fields(&found, cores, lines.told));
        }
    }

    fn look_at_processes(&mut self) -> FamilyUse {
        self.has_looked = true;
        let found = self.family.look();
        for pid in &found.ended {
            if *pid != self.job.pid() {
                reap(*pid);
                self.family.reap(*pid);
            }
        }
        found
    }

    /// The first reason is kept; that we wait before we try again is none.
    fn complain(&mut self, fault: DriverFault) {
        if self.fault.is_none() && !matches!(fault, DriverFault::BackingOff { .. }) {
            if let Some(record) = &mut self.record {
                let data = Fields::new().with("reason", fault.to_string());
                record.event(clock::now(), "driver_unavailable", &data);
            }
            self.fault = Some(fault);
        }
    }

    /// What the job said, as said at this moment.
    fn take_down(&mut self, marks: &[Mark], moment: Moment) {
        let at = moment.at;
        for mark in marks {
            let ended = self.watch.mark(mark, at, moment.since_boot);
            let Some(record) = &mut self.record else {
                continue;
            };
            if let Some(ended) = &ended {
                record.phase(at, ended);
            }
            match mark {
                Mark::Phase(name) => {
                    let data = Fields::new().with("name", name.as_str());
                    record.event(at, "phase_started", &data);
                }
                Mark::Event { name, data } => record.event(at, name, &fields(data)),
                Mark::Set(values) => record.event(at, "set", &fields(values)),
            }
        }
    }

    /// The job has ended and is not reaped yet: what it has used can still be read.
    fn finish(mut self) -> Outcome {
        let end = Moment::now();
        let marks = self.marks.take_last();
        self.take_down(&marks, end);
        let last = match self.has_looked || self.asked.is_some() {
            true => self.look_at_processes(),
            // Too short a job to go through the processes of the host for it.
            false => self.family.look_at_known(),
        };
        self.watch.tree(end.monotonic, &last);
        self.last_look(end.monotonic);
        self.watch.end(end.since_boot);
        let how = self.job.end().unwrap_or(End::Code(1));
        if let Some(phase) = self.watch.end_phase(end.since_boot)
            && let Some(record) = &mut self.record
        {
            record.phase(end.at, &phase);
        }
        let time = RunTime {
            started: self.start.at,
            ended: end.at,
            took: end.since_boot.saturating_sub(self.start.since_boot),
            interval: self.interval,
        };
        let notes = self.all_notes(end.monotonic);
        let mut summary = RunSummary::new(&self.name, time, how, &self.watch, &last, notes);
        if let Some(record) = &mut self.record {
            let data = Fields::new()
                .with("exit_code", how.shell_code())
                .with("seconds", summary.run.seconds);
            record.event(end.at, "run_ended", &data);
            summary.notes.extend(record.trouble());
        }
        Outcome {
            end: how,
            started: self.start.at,
            ended: end.at,
            summary,
            record: self.record,
        }
    }

    /// One more look at the cards, for the time since the last: only where the driver has answered before, and answers at
    /// once.
    fn last_look(&mut self, now: Duration) {
        if self.watch.samples == 0 || self.fault.is_some() {
            return;
        }
        if self.asked.is_none() && self.reader.begin().is_err() {
            return;
        }
        let until = now + last_look_after(now.saturating_sub(self.start.monotonic));
        loop {
            let Some(waiting) = self.reader.waiting() else {
                return;
            };
            let answer_alone = Waiting {
                errors: None,
                ..waiting
            };
            match sleep([], Some(&answer_alone), until) {
                Ok(Woken { answer: true, .. }) => break,
                Err(Errno::INTR) => {}
                _ => return,
            }
        }
        self.asked = None;
        if let Ok(sample) = self.reader.finish() {
            self.watch.close(&sample);
        }
    }

    fn all_notes(&mut self, end: Duration) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.notes);
        if let Some(fault) = &self.fault {
            let said = fault.to_string();
            // What the loader has to say stands in the log.
            let said = said.split(". Detail:").next().unwrap_or(&said);
            notes.push(match self.watch.samples {
                0 => format!("no card was read: {said}"),
                _ => format!("cards could not be read all the time: {said}"),
            });
        }
        let silence = self.asked.map(|asked| end.saturating_sub(asked));
        if let Some(silence) = silence.filter(|silence| *silence >= LONG_SILENCE) {
            let seconds = silence.as_secs_f64();
            notes.push(match self.watch.samples {
                0 => format!("no card was read: the driver did not answer for {seconds:.0} s"),
                _ => format!("the driver did not answer for the last {seconds:.0} s"),
            });
        }
        let garbled = self.marks.garbled();
        notes.extend(counted(
            garbled,
            "mark of the job meant nothing",
            "marks of the job meant nothing",
        ));
        if self.marks.is_left() {
            notes.push("marks of the job came too fast, and the last ones are lost".to_owned());
        }
        if self.watch.is_without_given_cards() {
            notes.extend(self.unknown_cards.take());
        }
        notes
    }
}

/// How long the last look may take after a job that took so long.
fn last_look_after(took: Duration) -> Duration {
    match took < LONG {
        true => LAST_LOOK,
        false => LAST_LOOK_OF_LONG,
    }
}

fn fields(map: &serde_json::Map<String, serde_json::Value>) -> Fields {
    map.iter().fold(Fields::new(), |fields, (name, value)| {
        fields.with(name, value.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_look_is_waited_for_longer_where_that_is_little_beside_the_job() {
        let seconds = |seconds| last_look_after(Duration::from_secs(seconds));
        assert_eq!((seconds(0), seconds(9)), (LAST_LOOK, LAST_LOOK_OF_LONG));
        assert!(LAST_LOOK_OF_LONG * 10 <= LONG);
    }
}
