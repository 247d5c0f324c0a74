//! GPUs in MIG mode: every surface has the same rows for a parent and its instances, and counts the instances once.

use std::collections::{BTreeMap, BTreeSet};

use gua_test::{Sleeper, TestHost, wait_until};
use serde_json::Value;

use crate::host;

/// A held GPU, a free one, and one divided into a free and a held instance.
const SCENARIO: &str = "[[gpu]]\nuuid = \"GPU-a\"\nutil = 97\n[[gpu.process]]\npid = PID\nmemory_mib = 9000\n\
    [[gpu]]\nuuid = \"GPU-b\"\n\
    [[gpu]]\nuuid = \"GPU-c\"\n[[gpu.mig]]\nuuid = \"MIG-1\"\nprofile = \"3g.40gb\"\n\
    [[gpu.mig]]\nuuid = \"MIG-2\"\nprofile = \"2g.20gb\"\n[[gpu.mig.process]]\npid = PID\nmemory_mib = 600\n";

/// Every row, and the rows that count: the instances in the place of their parent.
const ROWS: [&str; 5] = ["GPU-a", "GPU-b", "GPU-c", "MIG-1", "MIG-2"];
const COUNTED: [&str; 4] = ["GPU-a", "GPU-b", "MIG-1", "MIG-2"];
const FREE: [&str; 2] = ["GPU-b", "MIG-1"];

/// The values of a key in an array of objects, in order. A row that is there twice is an error.
#[track_caller]
fn each(rows: &Value, key: &str, fits: impl Fn(&Value) -> bool) -> Vec<String> {
    let rows = rows.as_array().unwrap().iter().filter(|row| fits(row));
    let found: Vec<String> = rows
        .map(|row| row[key].as_str().unwrap().to_owned())
        .collect();
    let once: BTreeSet<&String> = found.iter().collect();
    assert_eq!(once.len(), found.len(), "{found:?}");
    found
}

/// Number of lines of a CSV for each value in a column.
fn lines_by(csv: &str, column: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in super::formats::lines(csv) {
        *counts.entry(line[column].clone()).or_default() += 1;
    }
    counts
}

fn names(counts: &BTreeMap<String, usize>) -> Vec<&str> {
    counts.keys().map(String::as_str).collect()
}

/// A host with a few ticks of history.
fn recorded(sleeper: &Sleeper) -> TestHost {
    let host = host(&SCENARIO.replace("PID", &sleeper.pid().to_string()));
    let mut daemon = host.foreground("daemon --foreground --interval 100ms");
    wait_until("three ticks", || daemon.stdout().lines().count() >= 3);
    daemon.stop();
    host
}

#[test]
fn every_surface_has_the_same_rows_and_counts() {
    let sleeper = Sleeper::new();
    let host = recorded(&sleeper);
    let list = host.json("list --json");
    assert_eq!(each(&list["gpus"], "uuid", |_| true), ROWS, "list");
    let counts = |gpu: &Value| gpu["state"].is_string();
    assert_eq!(each(&list["gpus"], "uuid", counts), COUNTED, "list");
    let is_free = |gpu: &Value| gpu["status"] == "free";
    assert_eq!(each(&list["gpus"], "uuid", is_free), FREE, "list");
    assert_eq!(names(&lines_by(&host.fine("list --csv"), "uuid")), ROWS);
    let free = host.fine("available --uuid --limit 0 --free-for 0s");
    assert_eq!(free.trim().split(',').collect::<Vec<_>>(), FREE);
    let sample = host.json("doctor --sample");
    assert_eq!(each(&sample["gpus"], "uuid", |_| true), ROWS, "sample");
    let counts = |gpu: &Value| gpu["counts_as_capacity"] == true;
    assert_eq!(each(&sample["gpus"], "uuid", counts), COUNTED, "sample");

    let report = host.json("report --since 1h --json");
    assert_eq!(each(&report["gpus"], "gpu_uuid", |_| true), ROWS, "report");
    let now = &report["now"]["gpus"];
    assert_eq!(each(now, "gpu_uuid", |_| true), COUNTED, "report, now");
    let is_free = |gpu: &Value| gpu["free"] == true;
    assert_eq!(each(now, "gpu_uuid", is_free), FREE, "report, now");
    for line in [
        "report --since 1h --by gpu --csv",
        "plot hours --since 1h --by gpu --format csv",
    ] {
        assert_eq!(
            names(&lines_by(&host.fine(line), "gpu_uuid")),
            ROWS,
            "{line}"
        );
    }
    let samples = lines_by(&host.fine("export --what samples"), "gpu_uuid");
    assert_eq!(names(&samples), ROWS, "export");
    assert_eq!(
        samples.values().sum::<usize>() as u64,
        report["samples"].as_u64().unwrap(),
        "every sample of the report is a row of the export"
    );
    let totals = lines_by(&host.fine("export --what totals"), "gpu_uuid");
    assert_eq!(names(&totals), ROWS, "export of totals");
    for gpu in report["gpus"].as_array().unwrap() {
        let exported = samples[gpu["gpu_uuid"].as_str().unwrap()] as u64;
        assert_eq!(gpu["samples"].as_u64(), Some(exported), "{gpu}");
    }
}

#[test]
fn texts_give_an_instance_its_own_number() {
    let sleeper = Sleeper::new();
    let host = recorded(&sleeper);
    let numbers = ["0", "1", "2", "2:1", "2:2"];
    let list = host.fine("list");
    let shown = list
        .lines()
        .skip(1)
        .map(|line| line.split(' ').next().unwrap());
    assert_eq!(shown.collect::<Vec<_>>(), numbers, "{list}");
    let top = host.fine("top --once");
    assert!(top.contains("1 active  2 free  1 other"), "{top}");
    let first = |line: &str| {
        line.split(' ')
            .next()
            .unwrap()
            .trim_start_matches('└')
            .to_owned()
    };
    let shown: Vec<String> = top.lines().map(first).collect();
    for number in numbers {
        assert!(shown.iter().any(|shown| shown == number), "{number}: {top}");
    }
    let report = host.fine("report --since 1h");
    let (_, now) = report.split_once("§9 ").unwrap();
    assert!(now.contains("\n  2:1  free"), "{now}");
    assert!(now.contains("\n  2:2  held-unknown"), "{now}");
    assert!(now.contains("\n  free: 1, 2:1\n"), "{now}");
}
