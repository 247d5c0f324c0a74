//! `gua run`, `gua report` and `gua export` agree on the same hour: one script of samples goes to a watched run and to
//! a history, and all three give the same states, held time and energy.

use std::time::Duration;

use gua_model::{
    BootId, Bytes, Driver, Gpu, Identity, Millijoules, Milliwatts, Missing, Percent, Pid, Process,
    ProcessKey, ProcessKind, Sample, StartTicks, State, Thresholds, Tick, Uid, User, Workload,
};
use gua_run::{GpuSummary, Scope, Watch};
use gua_store::{NewRun, OpenMode, Store, WriterOptions};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use gua_test::TestHost;

use super::{Jobs as _, host};

const BEGIN: i64 = 1_780_002_000;
const INTERVAL: Duration = Duration::from_secs(30);

/// Time between samples, in milliseconds: on time, early, late, and with samples that were missed.
const PAUSES: [u64; 11] = [
    30_000, 30_004, 29_996, 31_000, 30_000, 45_500, 30_000, 61_000, 30_000, 12_000, 200_000,
];
/// Samples in about one hour.
const SAMPLES: u64 = 74;

fn elapsed(number: u64) -> Duration {
    let pauses = PAUSES.iter().cycle().take(usize::try_from(number).unwrap());
    Duration::from_millis(pauses.sum())
}

fn sample(number: u64) -> Sample {
    let since_boot = elapsed(number);
    let begin = Timestamp::from_second(BEGIN).unwrap();
    let millis = u64::try_from(since_boot.as_millis()).unwrap();
    Sample {
        at: begin + since_boot,
        since_boot,
        boot: Ok(BootId(1)),
        driver: Driver {
            version: Ok("580".to_owned()),
            cuda: Err(Missing::Unsupported),
        },
        gpus: vec![
            // Busy, idle and held, then free; the energy counter is reset once.
            gpu(
                0,
                if number.is_multiple_of(3) { 80 } else { 0 },
                Ok(Millijoules((millis * 250) % 500_000_000)),
                (number % 10 < 8).then_some(5),
            ),
            // Never used, shared for a part, with a counter that fails so often that power covers more of the time.
            gpu(
                1,
                0,
                match number % 7 {
                    0 => Err(Missing::Failed),
                    _ => Ok(Millijoules(millis * 60)),
                },
                number.is_multiple_of(2).then_some(50),
            ),
        ],
        problems: Vec::new(),
    }
}

fn gpu(index: u32, util: u32, energy: Result<Millijoules, Missing>, process: Option<u32>) -> Gpu {
    let uuid = format!("GPU-{index}").parse().unwrap();
    Gpu {
        util: Ok(Percent::new(util).unwrap()),
        memory_used: Ok(Bytes::from_mb(4000)),
        energy,
        // More than the counters count: an estimate in place of counted energy would not agree.
        power: Ok(Milliwatts(900_000)),
        compute_list: Ok(()),
        graphics_list: Ok(()),
        processes: process.into_iter().map(holder).collect(),
        ..Gpu::without_readings(uuid, index, Missing::Unsupported)
    }
}

fn holder(pid: u32) -> Process {
    let user = User {
        uid: Uid(2000),
        name: Some("ada".to_owned()),
    };
    Process {
        pid: Pid(pid),
        kind: ProcessKind::Compute,
        memory: Ok(Bytes::from_mb(4000)),
        sm_util: Ok(None),
        identity: Ok(Identity {
            key: ProcessKey {
                boot: BootId(1),
                pid: Pid(pid),
                start: StartTicks(u64::from(pid)),
            },
            login: Ok(Some(user.clone())),
            claimed_login: None,
            own: Ok(user),
            workload: Workload::default(),
            comm: Ok("python".to_owned()),
        }),
    }
}

fn watched() -> Vec<GpuSummary> {
    let mut watch = Watch::new(Scope::All, Thresholds::default(), TimeZone::UTC, INTERVAL);
    for number in 0..SAMPLES {
        watch.gpus(&sample(number), |pid| pid == Pid(5));
    }
    watch.end(elapsed(SAMPLES));
    watch.gpu_summaries()
}

fn recorded(host: &TestHost) -> Timestamp {
    let begin = Timestamp::from_second(BEGIN).unwrap();
    let options = WriterOptions::default();
    let mut store = Store::open(&host.path("a.db"), OpenMode::CreateOrAppend, &options).unwrap();
    let run = NewRun {
        started: begin,
        interval: INTERVAL,
        host: "lab".to_owned(),
        version: "0".to_owned(),
        boot: None,
    };
    let run = store.begin_run(&run).unwrap();
    for number in 0..SAMPLES {
        let tick = Tick {
            sample: sample(number),
            interval: INTERVAL,
        };
        store.record(run, &tick).unwrap();
    }
    let end = begin + elapsed(SAMPLES);
    store.end_run(run, end).unwrap();
    while store.maintain(end).unwrap().more {}
    store.close().unwrap();
    end
}

/// Seconds and joules of a GPU that all three commands give.
#[derive(Clone, Debug, Default, PartialEq)]
struct Amounts {
    active: f64,
    idle_held: f64,
    truly_idle: f64,
    joules: f64,
    /// Only set for a report, which gives it for all GPUs together.
    energy_seconds: Option<f64>,
}

impl Amounts {
    fn of_run(gpu: &GpuSummary) -> Self {
        let state = |state| gpu.states_seconds.get(&state).copied().unwrap_or(0.0);
        assert_eq!(gpu.energy_from, Some("counter"));
        Self {
            active: state(State::Active) + state(State::Ghost),
            idle_held: state(State::IdleHeld),
            truly_idle: state(State::TrulyIdle),
            joules: gpu.energy_joules.unwrap(),
            energy_seconds: gpu.energy_seconds,
        }
    }

    /// Sums of exported quarter hours, whose columns have whole microseconds and millijoules.
    fn of_export(rows: &str, uuid: &str) -> Self {
        let rows = rows
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let rows: Vec<Value> = rows.filter(|row| row["gpu_uuid"] == uuid).collect();
        let sum = |column: &str, unit: f64| {
            let values = rows.iter().filter_map(|row| row[column].as_f64());
            values.sum::<f64>() / unit
        };
        Self {
            active: sum("active_us", 1e6),
            idle_held: sum("idle_held_us", 1e6),
            truly_idle: sum("truly_idle_us", 1e6),
            joules: sum("energy_millijoules", 1e3),
            energy_seconds: Some(sum("energy_known_us", 1e6)),
        }
    }

    fn of_report(report: &Value, uuid: &str) -> Self {
        let rows = report["gpus"].as_array().unwrap();
        let row = rows.iter().find(|row| row["gpu_uuid"] == uuid).unwrap();
        let number = |key: &str, unit: f64| row[key].as_f64().unwrap() * unit;
        Self {
            active: number("active_hours", 3600.0),
            idle_held: number("idle_held_hours", 3600.0),
            truly_idle: number("truly_idle_hours", 3600.0),
            joules: number("energy_kwh", 3.6e6),
            energy_seconds: None,
        }
    }

    /// Compares with the precision of the coarser of the two.
    #[track_caller]
    fn check(&self, other: &Self, seconds: f64, joules: f64) {
        let is_near = |one: f64, other: f64, tolerance: f64| (one - other).abs() <= tolerance;
        let energy_seconds = self.energy_seconds.zip(other.energy_seconds);
        assert!(
            is_near(self.active, other.active, seconds)
                && is_near(self.idle_held, other.idle_held, seconds)
                && is_near(self.truly_idle, other.truly_idle, seconds)
                && energy_seconds.is_none_or(|(one, other)| is_near(one, other, seconds))
                && is_near(self.joules, other.joules, joules),
            "{self:?} {other:?}"
        );
    }
}

#[test]
fn a_run_a_report_and_an_export_agree_on_the_same_hour() {
    let host = host("");
    let end = recorded(&host);
    let run = watched();
    let moment = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    let begin = Timestamp::from_second(BEGIN).unwrap();
    let until = end + Duration::from_secs(1);
    let window = format!(
        "--db a.db --since {} --until {} --tz UTC",
        moment(begin),
        moment(until)
    );
    let exported = host.fine(&format!("export --what totals {window} --format jsonl"));
    let report = host.json(&format!("report --json {window}"));
    for (gpu, uuid) in run.iter().zip(["GPU-0", "GPU-1"]) {
        let own = Amounts::of_run(gpu);
        assert!(gpu.gap_seconds > 600.0, "the script has gaps: {gpu:?}");
        let exported = Amounts::of_export(&exported, uuid);
        // summary.json has milliseconds and tenths of a joule, a report millionths of an hour and of a kilowatt-hour.
        own.check(&exported, 0.002, 0.06);
        exported.check(&Amounts::of_report(&report, uuid), 0.002, 1.81);
        let states = own.active + own.idle_held + own.truly_idle;
        assert!((states - gpu.observed_seconds).abs() < 0.01, "{gpu:?}");
    }
    let counted = run[1].energy_seconds.unwrap();
    assert!(counted < 0.9 * run[1].observed_seconds, "the counter fails");
    assert!(run[1].energy_estimate_seconds.unwrap() > counted);
    // On GPU 1 there is only another user's process: the shared time is the time that its owner holds the GPU.
    let people = host.fine(&format!(
        "export --what user-totals {window} --format jsonl"
    ));
    let rows = people
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let rows: Vec<Value> = rows
        .filter(|row: &Value| row["gpu_uuid"] == "GPU-1")
        .collect();
    let held: f64 = rows
        .iter()
        .map(|row| row["held_us"].as_f64().unwrap())
        .sum();
    let shared = run[1].shared_seconds.unwrap();
    assert!(
        shared > 600.0 && (held / 1e6 - shared).abs() < 0.01,
        "{held} {shared}"
    );
}

/// The driver's power is three times the rate of its counter, so that an estimate would be seen.
#[test]
fn the_program_keeps_the_energy_of_a_counter_that_stops() {
    let host = host("[[gpu]]\nuuid = \"GPU-0\"\nutil = 60\npower_w = 300\nenergy_mj = 5000\n");
    let script = "sed -i 's/= 5000/= 9000/' nvml-sim.toml; sleep 1; \
                  sed -i 's/energy_mj = 9000/energy_mj = \"unsupported\"/' nvml-sim.toml; sleep 1";
    let ended = host.run_job("--out out --interval 50ms --gpus all", script);
    assert_eq!(ended.code, 0, "{ended:?}");
    let gpu = &host.summary()["gpus"][0];
    assert_eq!(gpu["energy_from"], "counter", "{gpu:#}");
    let number = |key: &str| gpu[key].as_f64().unwrap();
    assert!(number("energy_joules") <= 4.0, "{gpu:#}");
    let partial = number("observed_seconds") - number("energy_seconds");
    assert!(partial > 0.5, "{gpu:#}");
    let estimate = 300.0 * number("energy_estimate_seconds");
    assert!(
        (number("energy_estimate_joules") - estimate).abs() < 1.0,
        "{gpu:#}"
    );
}
