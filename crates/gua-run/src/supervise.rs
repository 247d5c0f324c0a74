//! The loop around a job. One thread waits for its end, for signals, for its marks, for the driver and for the next
//! sample's time. The job is started first, and nothing that is done to watch it delays it.

use std::io;
use std::process::Command;
use std::time::Duration;

use gua_model::{Pid, Sample, Thresholds};
use gua_probe::clock;
use gua_probe::clocks::Clocks;
use gua_probe::fault::DriverFault;
use gua_probe::host::HostRoot;
use gua_probe::host::processor::processor_time;
use gua_probe::process::ProcRoot;
use gua_probe::process::family::{Family, FamilyUse};
use gua_probe::reader::{Reader, ReaderOptions, Woken, sleep};
use gua_wire::run::json::Fields;
use gua_wire::run::log::stamp;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rustix::io::Errno;

use crate::job::{End, Job, reap};
use crate::marks::{Mark, Marks, RUN_VARIABLE};
use crate::means::rounded;
use crate::record::Record;
use crate::run_summary::{RunFacts, RunName, RunSummary, counted};
use crate::watch::{Scope, Watch, sample_fields};

/// Delay before the first sample. A job that ends before it is not sampled: reading the driver would take longer than the
/// job.
const FIRST_SAMPLE: Duration = Duration::from_millis(50);

/// Maximum duration of the last sample, after the job has ended.
const LAST_SAMPLE: Duration = Duration::from_millis(150);

/// Maximum duration of the last sample for a long job, for which the delay is negligible: only this sample shows what
/// was used since the previous one.
const LAST_SAMPLE_OF_LONG: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(5);

/// Minimum time without an answer of the driver, at the end of the job, that is noted.
const LONG_SILENCE: Duration = Duration::from_secs(1);

/// Maximum delay before an orphan is reaped. Many that end together are reaped at once.
const REAP_DELAY: Duration = Duration::from_millis(100);

/// Options for watching a job.
#[derive(Debug)]
pub struct Options {
    /// The job. It inherits this process's standard streams.
    pub command: Command,
    pub name: RunName,
    pub interval: Duration,
    pub scope: Scope,
    pub thresholds: Thresholds,
    pub zone: TimeZone,
    pub reader: ReaderOptions,
    pub record: Option<Record>,
    /// Notes for the summary, in addition to those of the run.
    pub notes: Vec<String>,
    /// Note for a scope that names GPUs of which the driver knows none.
    pub unknown_gpus: Option<String>,
}

/// Outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    pub end: End,
    pub started: Timestamp,
    pub ended: Timestamp,
    pub summary: RunSummary,
    record: Option<Record>,
}

impl Outcome {
    /// Adds a note, and writes the summary if the run has a directory.
    pub fn conclude(&mut self, note: Option<String>) {
        self.summary.notes.extend(note);
        if let Some(record) = &self.record {
            let problem = record.summary(&self.summary.to_json());
            self.summary.notes.extend(problem);
        }
    }
}

/// Runs a job and watches it until its first process has ended; [`Outcome::conclude`] writes the summary. `on_first_sample`
/// is called once, if the job lives until its first sample.
pub fn supervise(
    mut options: Options,
    on_first_sample: impl FnOnce(&RunName, Timestamp),
) -> io::Result<Outcome> {
    let marks = Marks::new()?;
    let command = options.command.envs(marks.variables());
    command.env(RUN_VARIABLE, &options.name.id);
    let start = Clocks::read();
    let job = Job::start(command, &marks)?;
    let mut supervisor = Supervisor::new(options, job, marks, start);
    supervisor.log_start();
    supervisor.run(on_first_sample);
    Ok(supervisor.finish())
}

struct Supervisor {
    job: Job,
    marks: Marks,
    options: Options,
    start: Clocks,
    next: Duration,
    reader: Reader,
    /// Time of the open request to the driver, on the monotonic clock.
    requested: Option<Duration>,
    has_scanned: bool,
    /// Time at which orphans are reaped, on the monotonic clock.
    reap_at: Option<Duration>,
    fault: Option<DriverFault>,
    family: Family,
    host: HostRoot,
    watch: Watch,
}

impl Supervisor {
    fn new(options: Options, job: Job, marks: Marks, start: Clocks) -> Self {
        let family = Family::new(ProcRoot::default(), job.pid(), Pid(std::process::id()));
        Self {
            job,
            marks,
            start,
            next: start.monotonic + FIRST_SAMPLE,
            reader: Reader::new(options.reader.clone()),
            requested: None,
            has_scanned: false,
            reap_at: None,
            fault: None,
            family,
            host: HostRoot::real(),
            watch: Watch::new(
                options.scope.clone(),
                options.thresholds,
                options.zone.clone(),
                options.interval,
            ),
            options,
        }
    }

    fn log_start(&mut self) {
        let data = Fields::new()
            .with("id", self.options.name.id.as_str())
            .with("name", self.options.name.name.as_str())
            .with("host", self.options.name.host.as_str())
            .with("pid", self.job.pid().0)
            .with("interval_seconds", self.options.interval.as_secs_f64());
        self.record(Record::begin);
        self.log(self.start.wall, "run_started", &data);
    }

    fn log(&mut self, at: Timestamp, event: &str, data: &Fields) {
        self.record(|record| record.event(at, event, data));
    }

    /// Writes to the files of the run, if it has any.
    fn record(&mut self, write: impl FnOnce(&mut Record)) {
        if let Some(record) = &mut self.options.record {
            write(record);
        }
    }

    fn run(&mut self, on_first_sample: impl FnOnce(&RunName, Timestamp)) {
        let mut on_first_sample = Some(on_first_sample);
        while !self.job.has_ended() {
            let woken = match self.wait() {
                Ok(woken) => woken,
                Err(Errno::INTR) => continue,
                // Without a working poll, only waiting for the job itself is left.
                Err(_) => return,
            };
            let [signal, mark] = woken.others;
            if signal {
                let has_child_event = self.job.forward_signals();
                if self.job.has_ended() {
                    return;
                }
                if has_child_event {
                    // The next sample can be an hour away.
                    self.reap_at.get_or_insert(clock::monotonic() + REAP_DELAY);
                }
                self.job.stop_with_it();
            }
            if mark {
                let marks = self.marks.take();
                self.add_marks(&marks, Clocks::read());
            }
            if woken.errors {
                self.reader.read_errors();
            }
            if self.requested.is_some() && (woken.answer || self.is_overdue()) {
                self.requested = None;
                let answer = self.reader.finish();
                self.add_sample(Some(answer));
            }
            let now = clock::monotonic();
            if self.reap_at.take_if(|reap_at| *reap_at <= now).is_some() {
                self.scan_processes();
            }
            if now >= self.next {
                if let Some(on_first_sample) = on_first_sample.take() {
                    on_first_sample(&self.options.name, self.start.wall);
                }
                // The job may have been stopped for hours: samples that were missed are not made up for.
                self.next = self.next.saturating_add(self.options.interval).max(now);
                self.request();
            }
        }
    }

    fn wait(&self) -> rustix::io::Result<Woken<2>> {
        let waiting = self.reader.waiting().filter(|_| self.requested.is_some());
        let hung = waiting.as_ref().map(|waiting| waiting.until);
        let until = hung.map_or(self.next, |hung| hung.min(self.next));
        let until = self.reap_at.map_or(until, |reap_at| reap_at.min(until));
        sleep(
            [self.job.waiting(), self.marks.waiting()],
            waiting.as_ref(),
            until,
        )
    }

    fn is_overdue(&self) -> bool {
        let waiting = self.reader.waiting();
        waiting.is_some_and(|waiting| waiting.until <= clock::monotonic())
    }

    /// Requests a sample. Without a driver, and while it does not answer, only processes and host are sampled.
    fn request(&mut self) {
        if self.requested.is_some() {
            // The last request is still open, and its answer will serve as well.
            self.add_sample(None);
            return;
        }
        match self.reader.begin() {
            Ok(()) => self.requested = Some(clock::monotonic()),
            Err(fault) => self.add_sample(Some(Err(fault))),
        }
        if let Some(pid) = self.reader.child_pid() {
            self.family.exclude(Pid(pid));
        }
    }

    /// Records everything about one moment.
    fn add_sample(&mut self, answer: Option<Result<Sample, DriverFault>>) {
        let found = self.scan_processes();
        let cores = self.watch.tree(clock::monotonic(), &found);
        let at = clock::now();
        if let Ok(time) = processor_time(&self.host)
            && let Some(line) = self.watch.processors(at, time)
        {
            self.record(|record| record.cpu(&line));
        }
        let lines = match answer {
            Some(Ok(sample)) => self.watch.gpus(&sample, |pid| self.family.has(pid)),
            Some(Err(fault)) => {
                self.note_fault(fault);
                Default::default()
            }
            None => Default::default(),
        };
        self.record(|record| {
            record.gpus(&lines);
            record.sample(at, &sample_fields(&found, cores, lines.log));
        });
    }

    fn scan_processes(&mut self) -> FamilyUse {
        self.has_scanned = true;
        let found = self.family.measure();
        for pid in &found.ended {
            if *pid != self.job.pid() {
                reap(*pid);
                self.family.reap(*pid);
            }
        }
        found
    }

    /// Keeps the first fault. Backing off before a retry is not one.
    fn note_fault(&mut self, fault: DriverFault) {
        if self.fault.is_none() && !matches!(fault, DriverFault::BackingOff { .. }) {
            let data = Fields::new().with("reason", fault.to_string());
            self.log(clock::now(), "driver_unavailable", &data);
            self.fault = Some(fault);
        }
    }

    /// Records marks of the job with this moment as their time.
    fn add_marks(&mut self, marks: &[Mark], moment: Clocks) {
        let at = moment.wall;
        for mark in marks {
            if let Some(ended) = self.watch.mark(mark, at, moment.since_boot) {
                self.record(|record| record.phase(at, &ended));
            }
            match mark {
                Mark::Phase(name) => {
                    let data = Fields::new().with("name", name.as_str());
                    self.log(at, "phase_started", &data);
                }
                Mark::Event { name, data } => self.log(at, name, &fields(data)),
                Mark::Set(values) => self.log(at, "set", &fields(values)),
            }
        }
    }

    /// Ends the run. The job has ended and is not reaped yet, so its resource use can still be read.
    fn finish(mut self) -> Outcome {
        let end = Clocks::read();
        let marks = self.marks.take_last();
        self.add_marks(&marks, end);
        let last = match self.has_scanned || self.requested.is_some() {
            true => self.scan_processes(),
            // The job was too short to be worth a scan of all processes.
            false => self.family.measure_known(),
        };
        self.watch.tree(end.monotonic, &last);
        self.last_sample(end.monotonic);
        self.watch.end(end.since_boot);
        let how = self.job.end().unwrap_or(End::Code(1));
        if let Some(phase) = self.watch.phases.end(end.since_boot) {
            self.record(|record| record.phase(end.wall, &phase));
        }
        let took = end.since_boot.saturating_sub(self.start.since_boot);
        let notes = self.all_notes(end.monotonic);
        let run = RunFacts {
            version: 1,
            id: self.options.name.id.clone(),
            name: self.options.name.name.clone(),
            host: self.options.name.host.clone(),
            started: stamp(self.start.wall),
            ended: stamp(end.wall),
            seconds: rounded(took.as_secs_f64(), 3),
            exit_code: how.shell_code(),
            signal: match how {
                End::Code(_) => None,
                End::Signal(signal) => Some(signal),
            },
            interval_seconds: self.options.interval.as_secs_f64(),
            samples: self.watch.samples,
        };
        let mut summary = RunSummary::new(run, took, &self.watch, &last, notes);
        if let Some(record) = &mut self.options.record {
            let data = Fields::new()
                .with("exit_code", how.shell_code())
                .with("seconds", summary.run.seconds);
            record.event(end.wall, "run_ended", &data);
            summary.notes.extend(record.problems());
        }
        Outcome {
            end: how,
            started: self.start.wall,
            ended: end.wall,
            summary,
            record: self.options.record,
        }
    }

    /// Takes one more sample of the GPUs, for the time since the last: only if the driver has answered before, and answers
    /// at once.
    fn last_sample(&mut self, now: Duration) {
        if self.watch.samples == 0 || self.fault.is_some() {
            return;
        }
        let until = now + last_sample_limit(now.saturating_sub(self.start.monotonic));
        let left = until.saturating_sub(clock::monotonic());
        let answer = self.reader.sample_within(left);
        // Any other fault is an answer to the open request.
        if !matches!(answer, Err(DriverFault::Hung { .. })) {
            self.requested = None;
        }
        if let Ok(sample) = answer {
            self.watch.close(&sample);
        }
    }

    fn all_notes(&mut self, end: Duration) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.options.notes);
        if let Some(fault) = &self.fault {
            let reason = fault.summary();
            notes.push(match self.watch.samples {
                0 => format!("no GPU was read: {reason}"),
                _ => format!("GPUs could not be read for a part of the time: {reason}"),
            });
        }
        let silence = self.requested.map(|asked| end.saturating_sub(asked));
        if let Some(silence) = silence.filter(|silence| *silence >= LONG_SILENCE) {
            let seconds = silence.as_secs_f64();
            notes.push(match self.watch.samples {
                0 => format!("no GPU was read: the driver did not answer for {seconds:.0} s"),
                _ => format!("the driver did not answer for the last {seconds:.0} s"),
            });
        }
        let garbled = self.marks.garbled;
        notes.extend(counted(
            garbled,
            "mark of the job is invalid",
            "marks of the job are invalid",
        ));
        if self.marks.has_unread() {
            notes.push("marks of the job came too fast; the last ones are lost".to_owned());
        }
        if self.watch.is_without_given_gpus() {
            notes.extend(self.options.unknown_gpus.take());
        }
        notes
    }
}

/// Maximum duration of the last sample, by the duration of the job.
fn last_sample_limit(took: Duration) -> Duration {
    match took < LONG {
        true => LAST_SAMPLE,
        false => LAST_SAMPLE_OF_LONG,
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
    fn the_last_sample_of_a_long_job_may_take_longer() {
        let seconds = |seconds| last_sample_limit(Duration::from_secs(seconds));
        assert_eq!((seconds(0), seconds(9)), (LAST_SAMPLE, LAST_SAMPLE_OF_LONG));
        assert!(LAST_SAMPLE_OF_LONG * 10 <= LONG);
    }
}
