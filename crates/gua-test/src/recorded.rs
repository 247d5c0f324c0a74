//! History files with ticks of one minute, described by who was on which GPU.

use std::path::Path;
use std::time::Duration;

use gua_model::{Gpu, Millijoules, Missing, Outage, Period, Process, Tick};
use gua_store::{History, NewRun, OpenMode, ReadError, RunId, Store, WriterOptions};
use jiff::{SignedDuration, Timestamp};

use crate::{TestHost, samples};

/// A GPU at one tick: its utilisation and its users. With `!` among them, its energy counter cannot be read.
pub type Card<'a> = (u32, &'a [&'a str]);

/// Interval of the ticks.
pub const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// Records one tick a minute from a moment on; `gpus` returns the GPUs of each.
pub fn record<'a>(path: &Path, from: Timestamp, ticks: u32, gpus: impl Fn(u32) -> Vec<Card<'a>>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let interval = MINUTE.unsigned_abs();
    let mut recorder = Recorder::new(path, &WriterOptions::default(), from, interval);
    let mut at = from;
    for number in 0..ticks {
        let gpus = (0..).zip(gpus(number));
        let gpus = gpus.map(|(index, kind)| gpu(index, number, kind)).collect();
        recorder.tick(at, gpus);
        at += MINUTE;
    }
    recorder.store.end_run(recorder.run, at).unwrap();
    recorder.close(at);
}

/// Stores a wrong time as the first sight of every GPU, as versions did whose clock was ahead at the first tick.
pub fn set_first_seen(path: &Path, at: Timestamp) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let values = [at.as_microsecond()];
    let update = "UPDATE card SET first_seen = ?1";
    connection.execute(update, values).unwrap();
}

fn gpu(index: u32, number: u32, (util, people): Card<'_>) -> Gpu {
    let names = people.iter().filter(|name| **name != "!");
    let processes = names.map(|name| process(name, index)).collect();
    Gpu {
        // A hundred watts, all the time.
        energy: match people.contains(&"!") {
            true => Err(Missing::Unsupported),
            false => Ok(Millijoules(1_000_000_000 + u64::from(number) * 6_000_000)),
        },
        ..samples::gpu(index, &format!("GPU-{index}"), util, processes)
    }
}

/// `ada` holds 4000 MB, `ada~` 20 MB, and `?` is a process that cannot be seen.
fn process(name: &str, index: u32) -> Process {
    let (name, memory) = match name.strip_suffix('~') {
        Some(name) => (name, 20),
        None => (name, 4000),
    };
    let uid = match name {
        "root" => 0,
        other => 2000 + other.bytes().map(u32::from).sum::<u32>(),
    };
    let mut process = samples::process(10_000 + uid * 10 + index, samples::user(uid, name), memory);
    if name == "?" {
        process.identity = Err(Missing::Denied);
    }
    process
}

/// Writes ticks to a history file, one by one.
#[derive(Debug)]
pub struct Recorder {
    pub store: Store,
    pub run: RunId,
    interval: Duration,
}

impl Recorder {
    /// Opens or creates the file and begins a collector run.
    pub fn new(
        path: &Path,
        options: &WriterOptions,
        started: Timestamp,
        interval: Duration,
    ) -> Self {
        let mut store = Store::open(path, OpenMode::CreateOrAppend, options).unwrap();
        let run = NewRun {
            started,
            interval,
            host: "lab".to_owned(),
            version: "0".to_owned(),
            boot: None,
        };
        let run = store.begin_run(&run).unwrap();
        Self {
            store,
            run,
            interval,
        }
    }

    pub fn tick(&mut self, at: Timestamp, gpus: Vec<Gpu>) {
        let tick = Tick {
            sample: samples::sample(at, gpus),
            interval: self.interval,
        };
        self.store.record(self.run, &tick).unwrap();
    }

    /// Does all upkeep that is due at `now`, and closes the file.
    pub fn close(mut self, now: Timestamp) {
        while self.store.maintain(now).unwrap().more {}
        self.store.close().unwrap();
    }
}

/// All time.
pub fn always() -> Period {
    Period::new(Timestamp::MIN, Timestamp::MAX)
}

impl TestHost {
    /// All ticks of a history file in the home; none if there is no such file.
    pub fn ticks(&self, name: &str) -> Vec<Tick> {
        let Ok(history) = History::open(&self.path(name)) else {
            return Vec::new();
        };
        let mut ticks = Vec::new();
        let read: Result<(), ReadError> = history.ticks(always(), |tick| {
            ticks.push(tick?.tick);
            Ok(())
        });
        match read {
            // The writer has changed the file meanwhile.
            Err(ReadError::Changed) => self.ticks(name),
            read => {
                read.unwrap();
                ticks
            }
        }
    }

    /// All outages of a history file in the home.
    pub fn outages(&self, name: &str) -> Vec<Outage> {
        let history = History::open(&self.path(name)).unwrap();
        history.outages(always()).unwrap()
    }
}
