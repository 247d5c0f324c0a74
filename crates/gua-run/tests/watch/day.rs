//! A day of samples, one every two seconds on eight GPUs, and a month of a log: memory use does not grow.

use std::time::Duration;

use gua_model::{
    Bytes, Driver, Gpu, Millijoules, Milliwatts, Missing, Percent, Pid, Process, ProcessKind,
    Sample, Thresholds,
};
use gua_probe::host::processor::ProcessorTime;
use gua_probe::process::family::FamilyUse;
use gua_run::{Fields, Mark, RunLog, Scope, Watch, sample_fields};
use jiff::Timestamp;
use jiff::tz::TimeZone;

const SAMPLES: u64 = 43_200;

/// Anonymous memory of this process, without its program and libraries.
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.unwrap().trim().trim_end_matches(" kB");
    number.parse().unwrap()
}

fn sample(number: u64) -> Sample {
    let at = Timestamp::from_second(1_790_000_000 + i64::try_from(number * 2).unwrap()).unwrap();
    let gpu = |index: u32| {
        let uuid = format!("GPU-{index:08}").parse().unwrap();
        let process = |pid: u32| Process {
            pid: Pid(pid),
            kind: ProcessKind::Compute,
            memory: Ok(Bytes::from_mb(1000 + number % 100)),
            sm_util: Ok(Percent::new(50)),
            identity: Err(Missing::Denied),
        };
        Gpu {
            name: Ok("NVIDIA A100".to_owned()),
            util: Ok(Percent::new(u32::try_from(number % 101).unwrap()).unwrap()),
            memory_used: Ok(Bytes::from_mb(2000 + number % 1000)),
            power: Ok(Milliwatts(200_000)),
            energy: Ok(Millijoules(number * 400_000)),
            compute_list: Ok(()),
            graphics_list: Ok(()),
            processes: vec![
                process(100),
                process(u32::try_from(number % 30_000).unwrap() + 200),
            ],
            ..Gpu::without_readings(uuid, index, Missing::Unsupported)
        }
    };
    Sample {
        at,
        // Every second sample is late and leaves a gap after the one before it.
        since_boot: Duration::from_millis(number * 2000 + number % 2 * 20),
        boot: Err(Missing::Failed),
        driver: Driver {
            version: Err(Missing::Failed),
            cuda: Err(Missing::Failed),
        },
        gpus: (0..8).map(gpu).collect(),
        problems: Vec::new(),
    }
}

#[test]
fn a_day_of_samples_stays_below_ten_megabytes() {
    let interval = Duration::from_secs(2);
    let mut watch = Watch::new(Scope::All, Thresholds::default(), TimeZone::UTC, interval);
    let mut before = 0;
    for number in 0..SAMPLES {
        if number == 100 {
            before = resident_kb();
        }
        let now = Duration::from_secs(number * 2);
        let sample = sample(number);
        let lines = watch.gpus(&sample, |_| true);
        assert_eq!(lines.metrics.len(), 8);
        let found = FamilyUse {
            processes: 4,
            threads: 40,
            processor: now / 2,
            resident: Bytes::from_mb(500),
            storage: Err(Missing::Denied),
            ended: Vec::new(),
        };
        let cores = watch.tree(now, &found);
        let line = sample_fields(&found, cores, lines.log).to_json();
        assert!(line.len() < 4096, "{line}");
        let time = ProcessorTime {
            usr: number * 10,
            idle: number * 50,
            total: number * 100,
        };
        watch.processors(sample.at, time);
        watch.mark(&Mark::Phase(format!("step {number}")), sample.at, now);
    }
    let grown = resident_kb().saturating_sub(before);
    assert!(
        grown < 2 * 1024,
        "a day took {grown} KiB more than the first samples"
    );
    let whole = resident_kb();
    assert!(
        whole < 10 * 1024,
        "{whole} KiB with the test program around it"
    );
}

#[test]
fn a_month_of_a_log_file_is_not_kept_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = RunLog::in_file(&folder.path().join("run.jsonl")).unwrap();
    let data = Fields::new().with("note", "x".repeat(100));
    let mut before = 0;
    for line in 0..200_000 {
        if line == 100 {
            before = resident_kb();
        }
        log.event(Timestamp::UNIX_EPOCH, "step", &data);
    }
    let grown = resident_kb().saturating_sub(before);
    assert!(grown < 1024, "200,000 lines took {grown} KiB");
    assert_eq!(log.len(), 200_000);
    assert!(log.file().is_some_and(|file| file.lost() == 0));
}
