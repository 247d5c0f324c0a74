//! A day of looks, one every two seconds, at eight cards, and a month of a log: what is kept of them does not grow.

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

const LOOKS: u64 = 43_200;

/// Memory that is this process's own; its program and its libraries are files.
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.unwrap().trim().trim_end_matches(" kB");
    number.parse().unwrap()
}

fn sample(look: u64) -> Sample {
    let at = Timestamp::from_second(1_790_000_000 + i64::try_from(look * 2).unwrap()).unwrap();
    let card = |index: u32| {
        let uuid = format!("GPU-{index:08}").parse().unwrap();
        let process = |pid: u32| Process {
            pid: Pid(pid),
            kind: ProcessKind::Compute,
            memory: Ok(Bytes::from_mb(1000 + look % 100)),
            sm_util: Ok(Percent::new(50)),
            identity: Err(Missing::Denied),
        };
        Gpu {
            name: Ok("NVIDIA A100".to_owned()),
            util: Ok(Percent::new(u32::try_from(look % 101).unwrap()).unwrap()),
            memory_used: Ok(Bytes::from_mb(2000 + look % 1000)),
            power: Ok(Milliwatts(200_000)),
            energy: Ok(Millijoules(look * 400_000)),
            compute_list: Ok(()),
            graphics_list: Ok(()),
            processes: vec![
                process(100),
                process(u32::try_from(look % 30_000).unwrap() + 200),
            ],
            ..Gpu::without_readings(uuid, index, Missing::Unsupported)
        }
    };
    Sample {
        at,
        // Every second one is late, and leaves a hole behind the one before it.
        since_boot: Duration::from_millis(look * 2000 + look % 2 * 20),
        boot: Err(Missing::Failed),
        driver: Driver {
            version: Err(Missing::Failed),
            cuda: Err(Missing::Failed),
        },
        gpus: (0..8).map(card).collect(),
        problems: Vec::new(),
    }
}

#[test]
fn a_day_of_looks_stays_below_ten_megabytes() {
    let interval = Duration::from_secs(2);
    let mut watch = Watch::new(Scope::All, Thresholds::default(), TimeZone::UTC, interval);
    let mut before = 0;
    for look in 0..LOOKS {
        if look == 100 {
            before = resident_kb();
        }
        let now = Duration::from_secs(look * 2);
        let sample = sample(look);
        let lines = watch.gpus(&sample, |_| true);
        assert_eq!(lines.gpu.len(), 8);
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
            usr: look * 10,
            idle: look * 50,
            total: look * 100,
        };
        watch.processors(sample.at, time);
        watch.mark(&Mark::Phase(format!("step {look}")), sample.at, now);
    }
    let grown = resident_kb().saturating_sub(before);
    assert!(
        grown < 2 * 1024,
        "a day took {grown} KiB more than the first looks"
    );
    let whole = resident_kb();
    assert!(
        whole < 10 * 1024,
        "{whole} KiB with the test program around it"
    );
}

#[test]
fn a_month_of_a_log_that_is_in_a_file_is_not_in_memory_too() {
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
