//! A simulated runtime for the loop: its clock, its driver, its disk, and a diary of what happens.

use std::sync::{Arc, Mutex};

use gua_model::{Driver, Missing, Problem, Thresholds};
use jiff::{SignedDuration, Timestamp};

use super::super::*;
use crate::captured_log::CapturedLog;
use crate::sink::SinkError;

/// Everything that was logged, stored and reported, each with its time in seconds.
pub(super) type Diary = Arc<Mutex<Vec<String>>>;

pub(super) const START: Duration = Duration::from_secs(1000);

#[derive(Clone, Copy)]
pub(super) enum Event {
    Stop,
    Reload(u64),
    Sleep(u64),
    Set(i64),
    /// The process is frozen for this many seconds.
    Freeze(u64),
}

/// Simulated response of the driver to a read; the number is the duration in milliseconds.
#[derive(Clone, Copy)]
pub(super) enum Act {
    Reads(u64),
    Hangs(u64),
    Refuses,
    BacksOff,
    HasProblem,
}

pub(super) struct Stage {
    now: Duration,
    slept: Duration,
    set: SignedDuration,
    events: Vec<(Duration, Event)>,
    acts: Vec<Act>,
    asked: usize,
    pending: Option<(Duration, Result<Sample, DriverFault>)>,
    next_interval: Arc<Mutex<u64>>,
    clock: Arc<Mutex<Duration>>,
}

impl Stage {
    fn pass_to(&mut self, now: Duration) {
        self.now = now;
        *self.clock.lock().unwrap() = now - START;
    }
}

impl Runtime for Stage {
    fn clocks(&self) -> Clocks {
        let since_boot = self.now + self.slept;
        let passed = SignedDuration::try_from(since_boot).unwrap() + self.set;
        Clocks {
            wall: Timestamp::UNIX_EPOCH + passed,
            since_boot,
            monotonic: self.now,
        }
    }

    fn start_read(&mut self) {
        let clocks = self.clocks();
        let act = self.acts.get(self.asked).or(self.acts.last()).unwrap();
        self.asked += 1;
        let hung = DriverFault::Hung {
            deadline: Duration::from_secs(10),
        };
        let refused = DriverFault::Init {
            code: 9,
            text: "no driver".to_owned(),
        };
        let (takes, answer) = match *act {
            Act::Reads(takes) => (takes, Ok(sample(&clocks))),
            Act::Hangs(takes) => (takes, Err(hung)),
            Act::Refuses => (0, Err(refused)),
            Act::BacksOff => {
                let retry_in = Duration::from_secs(1);
                let last = Box::new(hung);
                (0, Err(DriverFault::BackingOff { retry_in, last }))
            }
            Act::HasProblem => {
                let mut sample = sample(&clocks);
                sample.problems.push(Problem {
                    gpu: None,
                    index: Some(0),
                    call: "nvmlDeviceGetPowerUsage".to_owned(),
                    code: Some(999),
                    why: Missing::Failed,
                    text: "unknown".to_owned(),
                });
                (0, Ok(sample))
            }
        };
        self.pending = Some((self.now + Duration::from_millis(takes), answer));
    }

    fn wait(&mut self, until: Duration) -> Wake {
        let event_at = self.events.first().map(|(at, _)| *at);
        let answer_at = self.pending.as_ref().map(|(at, _)| *at);
        let first = [event_at, answer_at].into_iter().flatten().min();
        let Some(first) = first.filter(|first| *first <= until) else {
            assert!(until < Duration::MAX, "it would sleep for ever");
            assert!(until > self.now, "it would spin");
            self.pass_to(until);
            return Wake::Due;
        };
        self.pass_to(self.now.max(first));
        if answer_at == Some(first) {
            return Wake::Read(self.pending.take().unwrap().1);
        }
        match self.events.remove(0).1 {
            Event::Stop => Wake::Stop,
            Event::Reload(interval) => {
                *self.next_interval.lock().unwrap() = interval;
                Wake::Reload
            }
            Event::Sleep(seconds) => {
                self.slept += Duration::from_secs(seconds);
                Wake::Due
            }
            Event::Set(seconds) => {
                self.set += SignedDuration::from_secs(seconds);
                Wake::Due
            }
            Event::Freeze(seconds) => {
                let now = self.now + Duration::from_secs(seconds);
                self.pass_to(now);
                Wake::Due
            }
        }
    }
}

pub(super) fn sample(clocks: &Clocks) -> Sample {
    Sample {
        at: clocks.wall,
        since_boot: clocks.since_boot,
        boot: Err(Missing::Unsupported),
        driver: Driver {
            version: Err(Missing::Unsupported),
            cuda: Err(Missing::Unsupported),
        },
        gpus: Vec::new(),
        problems: Vec::new(),
    }
}

pub(super) struct Listener {
    diary: Diary,
    clock: Arc<Mutex<Duration>>,
    next_interval: Arc<Mutex<u64>>,
    is_quiet: bool,
}

impl Listener {
    fn write(&self, text: &str) {
        let now = self.clock.lock().unwrap().as_secs_f64();
        self.diary.lock().unwrap().push(format!("{now} {text}"));
    }
}

impl Observer for Listener {
    fn ticked(&mut self, number: u64, _: &Tick) {
        if !self.is_quiet {
            self.write(&format!("tick {number}"));
        }
    }
    fn ready(&mut self) {
        self.write("ready");
    }
    fn alive(&mut self) {
        self.write("alive");
    }
    fn reload(&mut self) -> Result<Options, String> {
        match *self.next_interval.lock().unwrap() {
            0 => Err("no interval".to_owned()),
            seconds => Ok(options(seconds)),
        }
    }
    fn reloaded(&mut self) {}
    fn stopping(&mut self, ticks: u64) {
        self.write(&format!("stopping after {ticks}"));
    }
}

/// A history that fails during a range of seconds.
#[derive(Debug)]
pub(super) struct Disk {
    diary: Diary,
    fails: std::ops::Range<u64>,
    clock: Arc<Mutex<Duration>>,
}

impl Disk {
    fn check(&self) -> Result<(), SinkError> {
        if self.fails.contains(&self.clock.lock().unwrap().as_secs()) {
            return Err(SinkError {
                reason: GapReason::DiskFull,
                message: "no space".to_owned(),
            });
        }
        Ok(())
    }
}

impl Sink for Disk {
    fn name(&self) -> &str {
        "history"
    }
    fn deliver(&mut self, _: &Tick) -> Result<(), SinkError> {
        self.check()
    }
    fn outage(&mut self, outage: &Outage) -> Result<(), SinkError> {
        self.check()?;
        self.diary.lock().unwrap().push(described(outage));
        Ok(())
    }
}

fn described(outage: &Outage) -> String {
    let begin = SignedDuration::try_from(START).unwrap();
    let second = |at: Timestamp| at.as_duration().as_secs() - begin.as_secs();
    format!(
        "outage {} {}..{} lost {}",
        outage.reason,
        second(outage.from),
        second(outage.to),
        outage.ticks_lost
    )
}

/// A sink that takes only ticks that the history has stored, as the metrics do.
#[derive(Debug)]
pub(super) struct Follower(Diary);

impl Sink for Follower {
    fn name(&self) -> &str {
        "follower"
    }
    fn deliver(&mut self, _: &Tick) -> Result<(), SinkError> {
        self.0.lock().unwrap().push("follower: tick".to_owned());
        Ok(())
    }
    fn outage(&mut self, outage: &Outage) -> Result<(), SinkError> {
        let line = format!("follower: {}", described(outage));
        self.0.lock().unwrap().push(line);
        Ok(())
    }
}

/// A sink that takes every tick, as the daily CSV does.
#[derive(Debug)]
pub(super) struct Independent(Diary);

impl Sink for Independent {
    fn name(&self) -> &str {
        "independent"
    }
    fn follows_history(&self) -> bool {
        false
    }
    fn deliver(&mut self, _: &Tick) -> Result<(), SinkError> {
        self.0.lock().unwrap().push("independent: tick".to_owned());
        Ok(())
    }
}

pub(super) fn options(seconds: u64) -> Options {
    Options {
        interval: Duration::from_secs(seconds),
        thresholds: Thresholds::default(),
        keep_raw: Duration::from_secs(86_400),
    }
}

pub(super) struct Play {
    pub(super) interval: u64,
    pub(super) acts: Vec<Act>,
    pub(super) events: Vec<(u64, Event)>,
    pub(super) disk_full: std::ops::Range<u64>,
    pub(super) heartbeat: Option<u64>,
    pub(super) is_quiet: bool,
    /// Whether there are two more sinks: one that follows the history, and one that does not.
    pub(super) is_followed: bool,
}

impl Default for Play {
    fn default() -> Self {
        Self {
            interval: 30,
            acts: vec![Act::Reads(0)],
            events: vec![(100, Event::Stop)],
            disk_full: 0..0,
            heartbeat: None,
            is_quiet: false,
            is_followed: false,
        }
    }
}

#[track_caller]
pub(super) fn check(play: Play, expected: &[&str]) -> Summary {
    let diary = Diary::default();
    let clock = Arc::new(Mutex::new(Duration::ZERO));
    let next_interval = Arc::new(Mutex::new(play.interval));
    let stage = Stage {
        now: START,
        slept: Duration::ZERO,
        set: SignedDuration::ZERO,
        events: play
            .events
            .iter()
            .map(|(at, event)| (START + Duration::from_secs(*at), *event))
            .collect(),
        acts: play.acts,
        asked: 0,
        pending: None,
        next_interval: Arc::clone(&next_interval),
        clock: Arc::clone(&clock),
    };
    let listener = Listener {
        diary: Arc::clone(&diary),
        clock: Arc::clone(&clock),
        next_interval,
        is_quiet: play.is_quiet,
    };
    let log = {
        let (diary, clock) = (Arc::clone(&diary), Arc::clone(&clock));
        move |line| {
            let now = clock.lock().unwrap().as_secs_f64();
            diary.lock().unwrap().push(format!("{now} {line}"));
        }
    };
    let disk = Disk {
        diary: Arc::clone(&diary),
        fails: play.disk_full,
        clock,
    };
    let _captured = CapturedLog::with(log);
    let mut collector = Collector::new(stage, listener, options(play.interval))
        .with_sink(Box::new(disk))
        .with_heartbeat(play.heartbeat.map(Duration::from_secs));
    if play.is_followed {
        collector = collector
            .with_sink(Box::new(Follower(Arc::clone(&diary))))
            .with_sink(Box::new(Independent(Arc::clone(&diary))));
    }
    let summary = collector.run();
    assert_eq!(*diary.lock().unwrap(), expected);
    summary
}
