//! The loop in a played world: time passes only when it sleeps or the driver takes its time.

use std::cell::RefCell;
use std::rc::Rc;

use gua_model::{Driver, Missing, Problem, Thresholds};
use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::sink::SinkError;

/// Everything that was said, stored and sent, each with its time in seconds.
type Diary = Rc<RefCell<Vec<String>>>;

const START: Duration = Duration::from_secs(1000);

#[derive(Clone, Copy)]
enum Event {
    Stop,
    Reload(u64),
    Sleep(u64),
    Set(i64),
    /// The process stands still for so many seconds.
    Freeze(u64),
}

/// How the driver answers a tick: after how many milliseconds, and what.
#[derive(Clone, Copy)]
enum Act {
    Reads(u64),
    Hangs(u64),
    Refuses,
    Waits,
    Complains,
}

struct Stage {
    now: Duration,
    slept: Duration,
    set: SignedDuration,
    events: Vec<(Duration, Event)>,
    acts: Vec<Act>,
    asked: usize,
    pending: Option<(Duration, Result<Sample, DriverFault>)>,
    next_interval: Rc<RefCell<u64>>,
    clock: Rc<RefCell<Duration>>,
}

impl Stage {
    fn pass_to(&mut self, now: Duration) {
        self.now = now;
        *self.clock.borrow_mut() = now - START;
    }
}

impl World for Stage {
    fn clocks(&self) -> Clocks {
        let since_boot = self.now + self.slept;
        let passed = SignedDuration::try_from(since_boot).unwrap() + self.set;
        Clocks {
            wall: Timestamp::UNIX_EPOCH + passed,
            since_boot,
            monotonic: self.now,
        }
    }

    fn ask(&mut self) {
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
            Act::Waits => {
                let retry_in = Duration::from_secs(1);
                let last = Box::new(hung);
                (0, Err(DriverFault::BackingOff { retry_in, last }))
            }
            Act::Complains => {
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
            return Wake::Answer(self.pending.take().unwrap().1);
        }
        match self.events.remove(0).1 {
            Event::Stop => Wake::Stop,
            Event::Reload(interval) => {
                *self.next_interval.borrow_mut() = interval;
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

fn sample(clocks: &Clocks) -> Sample {
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

struct Listener {
    diary: Diary,
    clock: Rc<RefCell<Duration>>,
    next_interval: Rc<RefCell<u64>>,
    is_quiet: bool,
}

impl Listener {
    fn write(&self, text: &str) {
        let now = self.clock.borrow().as_secs_f64();
        self.diary.borrow_mut().push(format!("{now} {text}"));
    }
}

impl Attendant for Listener {
    fn ticked(&mut self, number: u64, _: &Tick) {
        if !self.is_quiet {
            self.write(&format!("tick {number}"));
        }
    }
    fn note(&mut self, text: &str) {
        self.write(text);
    }
    fn ready(&mut self) {
        self.write("ready");
    }
    fn alive(&mut self) {
        self.write("alive");
    }
    fn reload(&mut self) -> Result<Options, String> {
        match *self.next_interval.borrow() {
            0 => Err("no interval".to_owned()),
            seconds => Ok(options(seconds)),
        }
    }
    fn reloaded(&mut self) {}
    fn stopping(&mut self, ticks: u64) {
        self.write(&format!("stopping after {ticks}"));
    }
}

/// Fails from one second to another.
struct Disk {
    diary: Diary,
    fails: std::ops::Range<u64>,
    clock: Rc<RefCell<Duration>>,
}

impl Disk {
    fn check(&self) -> Result<(), SinkError> {
        if self.fails.contains(&self.clock.borrow().as_secs()) {
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
        let begin = SignedDuration::try_from(START).unwrap();
        let second = |at: Timestamp| at.as_duration().as_secs() - begin.as_secs();
        self.diary.borrow_mut().push(format!(
            "outage {} {}..{} lost {}",
            outage.reason,
            second(outage.from),
            second(outage.to),
            outage.ticks_lost
        ));
        Ok(())
    }
}

fn options(seconds: u64) -> Options {
    Options {
        interval: Duration::from_secs(seconds),
        thresholds: Thresholds::default(),
        keep_raw: Duration::from_secs(86_400),
    }
}

struct Play {
    interval: u64,
    acts: Vec<Act>,
    events: Vec<(u64, Event)>,
    disk_full: std::ops::Range<u64>,
    heartbeat: Option<u64>,
    is_quiet: bool,
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
        }
    }
}

#[track_caller]
fn check(play: Play, expected: &[&str]) -> Summary {
    let diary = Diary::default();
    let clock = Rc::new(RefCell::new(Duration::ZERO));
    let next_interval = Rc::new(RefCell::new(play.interval));
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
        next_interval: Rc::clone(&next_interval),
        clock: Rc::clone(&clock),
    };
    let listener = Listener {
        diary: Rc::clone(&diary),
        clock: Rc::clone(&clock),
        next_interval,
        is_quiet: play.is_quiet,
    };
    let disk = Disk {
        diary: Rc::clone(&diary),
        fails: play.disk_full,
        clock,
    };
    let summary = Collector::new(stage, listener, options(play.interval))
        .with_sink(Box::new(disk))
        .with_heartbeat(play.heartbeat.map(Duration::from_secs))
        .run();
    assert_eq!(*diary.borrow(), expected);
    summary
}

#[test]
fn ticks_come_on_schedule_and_a_signal_ends_them() {
    let summary = check(
        Play::default(),
        &[
            "0 ready",
            "0 tick 0",
            "30 tick 1",
            "60 tick 2",
            "90 tick 3",
            "100 stopping after 4",
        ],
    );
    assert_eq!(summary, Summary { ticks: 4, lost: 0 });
}

#[test]
fn a_hung_driver_is_told_twice_and_its_ticks_are_counted() {
    // Asked at 30 it hangs until 40; at 60 and 90 the reader is left alone; at 120 it answers.
    let summary = check(
        Play {
            acts: vec![
                Act::Reads(0),
                Act::Hangs(10_000),
                Act::Waits,
                Act::Waits,
                Act::Reads(0),
            ],
            events: vec![(130, Event::Stop)],
            ..Play::default()
        },
        &[
            "0 ready",
            "0 tick 0",
            "40 tick 1 failed: the driver did not answer within 10 s",
            "120 the driver answers again at tick 4; 3 ticks were lost",
            "outage driver-hung 30..120 lost 3",
            "120 tick 4",
            "130 stopping after 5",
        ],
    );
    assert_eq!(summary, Summary { ticks: 5, lost: 3 });
}

#[test]
fn ticks_that_fall_out_while_the_driver_hangs_are_lost_to_it() {
    // Every second; asked at 1, answered at 11: the ones due at 2 to 10 fell out.
    check(
        Play {
            interval: 1,
            acts: vec![Act::Reads(0), Act::Hangs(10_000), Act::Reads(0)],
            events: vec![(12, Event::Stop)],
            ..Play::default()
        },
        &[
            "0 ready",
            "0 tick 0",
            "11 tick 1 failed: the driver did not answer within 10 s",
            "11 the driver answers again at tick 2; 10 ticks were lost",
            "outage driver-hung 1..11 lost 10",
            "11 tick 2",
            "12 stopping after 3",
        ],
    );
}

#[test]
fn a_driver_sick_in_two_ways_leaves_two_outages() {
    check(
        Play {
            acts: vec![Act::Refuses, Act::Hangs(1000), Act::Reads(0)],
            events: vec![(61, Event::Stop)],
            ..Play::default()
        },
        &[
            "0 tick 0 failed: NVML initialization failed: the NVIDIA kernel driver is not loaded. \
             Detail: no driver (NVML code 9)",
            "31 tick 1 failed: the driver did not answer within 10 s",
            "60 the driver answers again at tick 2; 1 ticks were lost",
            "outage driver-unavailable 0..30 lost 1",
            "outage driver-hung 30..60 lost 1",
            "60 ready",
            "60 tick 2",
            "61 stopping after 3",
        ],
    );
}

#[test]
fn an_outage_that_goes_on_is_written_when_the_loop_ends() {
    check(
        Play {
            acts: vec![Act::Reads(0), Act::Hangs(10_000), Act::Waits],
            ..Play::default()
        },
        &[
            "0 ready",
            "0 tick 0",
            "40 tick 1 failed: the driver did not answer within 10 s",
            "100 stopping after 4",
            "outage driver-hung 30..100 lost 3",
        ],
    );
}

#[test]
fn a_stop_is_heard_while_the_driver_hangs() {
    check(
        Play {
            acts: vec![Act::Hangs(1_000_000)],
            events: vec![(5, Event::Stop)],
            ..Play::default()
        },
        &["5 stopping after 1"],
    );
}

#[test]
fn a_full_disk_costs_ticks_and_never_the_loop() {
    let summary = check(
        Play {
            disk_full: 30..80,
            ..Play::default()
        },
        &[
            "0 ready",
            "0 tick 0",
            "30 tick 1 is lost to the history: no space",
            "30 tick 1",
            "60 tick 2",
            "outage disk-full 30..90 lost 2",
            "90 history takes ticks again at tick 3; 2 were lost",
            "90 tick 3",
            "100 stopping after 4",
        ],
    );
    assert_eq!(summary, Summary { ticks: 4, lost: 2 });
}

#[test]
fn an_outage_that_finds_no_room_until_the_end_is_told_to_the_log() {
    let summary = check(
        Play {
            disk_full: 30..200,
            is_quiet: true,
            ..Play::default()
        },
        &[
            "0 ready",
            "30 tick 1 is lost to the history: no space",
            "100 stopping after 4",
            "100 the history does not know of 3 lost ticks from 1970-01-01T00:17:10Z to 1970-01-01T00:18:20Z \
             (disk-full): no space",
        ],
    );
    assert_eq!(summary, Summary { ticks: 4, lost: 3 });
}

#[test]
fn a_driver_outage_during_a_full_disk_is_kept_until_it_can_be_written() {
    check(
        Play {
            acts: vec![Act::Reads(0), Act::Refuses, Act::Reads(0), Act::Reads(0)],
            disk_full: 30..80,
            is_quiet: true,
            ..Play::default()
        },
        &[
            "0 ready",
            "30 tick 1 failed: NVML initialization failed: the NVIDIA kernel driver is not loaded. \
             Detail: no driver (NVML code 9)",
            "60 the driver answers again at tick 2; 1 ticks were lost",
            "60 tick 2 is lost to the history: no space",
            "outage driver-unavailable 30..60 lost 1",
            "outage disk-full 60..90 lost 1",
            "90 history takes ticks again at tick 3; 1 were lost",
            "100 stopping after 4",
        ],
    );
}

#[test]
fn a_slow_driver_overruns_once_in_the_log_and_makes_no_burst() {
    let summary = check(
        Play {
            interval: 1,
            acts: vec![
                Act::Reads(0),
                Act::Reads(2500),
                Act::Reads(1500),
                Act::Reads(0),
            ],
            events: vec![(7, Event::Stop)],
            ..Play::default()
        },
        &[
            "0 ready",
            "0 tick 0",
            "3.5 tick 1",
            "3.5 tick 1 overran by 1.500 s",
            "5 tick 2",
            "5 tick 3",
            "5 on schedule again after 2 late ticks",
            "6 tick 4",
            "7 stopping after 5",
        ],
    );
    assert_eq!(summary.lost, 1, "the one due at 3 fell out");
}

#[test]
fn the_heart_beats_while_the_driver_hangs() {
    check(
        Play {
            acts: vec![Act::Hangs(25_000)],
            events: vec![(26, Event::Stop)],
            heartbeat: Some(10),
            ..Play::default()
        },
        &[
            "0 alive",
            "10 alive",
            "20 alive",
            "25 tick 0 failed: the driver did not answer within 10 s",
            "26 stopping after 1",
            "outage driver-hung 0..26 lost 1",
        ],
    );
}

#[test]
fn a_reload_changes_the_interval_and_a_bad_one_changes_nothing() {
    check(
        Play {
            events: vec![
                (5, Event::Reload(10)),
                (15, Event::Reload(0)),
                (25, Event::Stop),
            ],
            ..Play::default()
        },
        &[
            "0 ready",
            "0 tick 0",
            "5 settings were read again",
            "10 tick 1",
            "15 settings were not read again, the old ones stand: no interval",
            "20 tick 2",
            "25 stopping after 3",
        ],
    );
}

#[test]
fn a_sleeping_machine_and_a_clock_that_is_set_are_told() {
    check(
        Play {
            events: vec![
                (10, Event::Sleep(600)),
                (40, Event::Set(3600)),
                (70, Event::Set(-7200)),
                (100, Event::Stop),
            ],
            is_quiet: true,
            ..Play::default()
        },
        &[
            "0 ready",
            "30 the machine slept for 600 s",
            "outage suspended 0..630 lost 20",
            "60 the clock was set forward by 3600.0 s",
            "outage clock-set 660..4260 lost 0",
            "90 the clock was set back by 7200.0 s",
            "outage clock-set -2910..-2910 lost 0",
            "100 stopping after 4",
        ],
    );
}

#[test]
fn a_process_that_stood_still_leaves_a_gap_and_no_burst() {
    let summary = check(
        Play {
            interval: 1,
            events: vec![(1, Event::Freeze(5)), (8, Event::Stop)],
            ..Play::default()
        },
        &[
            "0 ready",
            "0 tick 0",
            "6 the collector stood still for 5.0 s",
            "outage collector-down 1..6 lost 5",
            "6 tick 1",
            "7 tick 2",
            "8 stopping after 3",
        ],
    );
    assert_eq!(summary, Summary { ticks: 3, lost: 5 });
}

#[test]
fn a_problem_of_one_card_is_told_when_it_begins_and_when_it_ends() {
    check(
        Play {
            acts: vec![Act::Reads(0), Act::Complains, Act::Complains, Act::Reads(0)],
            is_quiet: true,
            ..Play::default()
        },
        &[
            "0 ready",
            "30 reading unavailable: gpu 0: nvmlDeviceGetPowerUsage: unknown (999)",
            "90 over after 2 ticks: gpu 0: nvmlDeviceGetPowerUsage: unknown (999)",
            "100 stopping after 4",
        ],
    );
}
