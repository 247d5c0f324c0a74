//! History files with ticks of one minute, described by who was on which GPU.

use std::path::Path;
use std::time::Duration;

use gua_model::{
    BootId, Bytes, Driver, Gpu, Identity, Millijoules, Missing, Outage, Percent, Period, Pid,
    Process, ProcessKey, ProcessKind, Sample, StartTicks, Tick, Uid, User, Workload,
};
use gua_store::{History, NewRun, OpenMode, ReadError, Store, WriterOptions};
use jiff::{SignedDuration, Timestamp};

use crate::TestHost;

/// A GPU at one tick: its utilisation and its users. With `!` among them, its energy counter cannot be read.
pub type Card<'a> = (u32, &'a [&'a str]);

/// Interval of the ticks.
pub const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// Records one tick a minute from a moment on; `cards` returns the GPUs of each.
pub fn record<'a>(path: &Path, from: Timestamp, ticks: u32, cards: impl Fn(u32) -> Vec<Card<'a>>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut store = Store::open(path, OpenMode::CreateOrAppend, &WriterOptions::default()).unwrap();
    let interval = Duration::from_secs(60);
    let run = NewRun {
        started: from,
        interval,
        host: "lab".to_owned(),
        version: "0".to_owned(),
        boot: None,
    };
    let run = store.begin_run(&run).unwrap();
    let mut at = from;
    for number in 0..ticks {
        let gpus = (0..).zip(cards(number));
        let gpus = gpus.map(|(index, card)| gpu(index, number, card)).collect();
        let sample = Sample {
            at,
            since_boot: Duration::from_secs(u64::from(number) * 60),
            boot: Ok(BootId(1)),
            driver: Driver {
                version: Ok("550".to_owned()),
                cuda: Err(Missing::Unsupported),
            },
            gpus,
            problems: Vec::new(),
        };
        store.record(run, &Tick { sample, interval }).unwrap();
        at += MINUTE;
    }
    store.end_run(run, at).unwrap();
    while store.maintain(at).unwrap().more {}
    store.close().unwrap();
}

fn gpu(index: u32, number: u32, (util, people): Card<'_>) -> Gpu {
    let uuid = format!("GPU-{index}").parse().unwrap();
    Gpu {
        util: Ok(Percent::new(util).unwrap()),
        // A hundred watts, all the time.
        energy: match people.contains(&"!") {
            true => Err(Missing::Unsupported),
            false => Ok(Millijoules(1_000_000_000 + u64::from(number) * 6_000_000)),
        },
        compute_list: Ok(()),
        graphics_list: Ok(()),
        processes: people
            .iter()
            .filter(|name| **name != "!")
            .map(|name| process(name, index))
            .collect(),
        ..Gpu::without_readings(uuid, index, Missing::Unsupported)
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
    let user = User {
        uid: Uid(uid),
        name: Some(name.to_owned()),
    };
    let pid = Pid(10_000 + uid * 10 + index);
    Process {
        pid,
        kind: ProcessKind::Compute,
        memory: Ok(Bytes::from_mb(memory)),
        sm_util: Err(Missing::Unsupported),
        identity: if name == "?" {
            Err(Missing::Denied)
        } else {
            Ok(Identity {
                key: ProcessKey {
                    boot: BootId(1),
                    pid,
                    start: StartTicks(u64::from(pid.0)),
                },
                login: Ok(Some(user.clone())),
                own: Ok(user),
                workload: Workload::default(),
                comm: Ok("python".to_owned()),
            })
        },
    }
}

/// All time.
#[must_use]
pub fn always() -> Period {
    Period::new(Timestamp::MIN, Timestamp::MAX)
}

impl TestHost {
    /// All ticks of a history file in the home; none if there is no such file.
    #[must_use]
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
    #[must_use]
    pub fn outages(&self, name: &str) -> Vec<Outage> {
        let history = History::open(&self.path(name)).unwrap();
        history.outages(always()).unwrap()
    }
}
