//! One answer to "is this GPU free?": `gua list`, `gua available`, `gua report` and a board agree, and a report and a statement
//! count its hours by the same state.

use gua_test::{Sleeper, TestHost, wait_for, wait_until};
use serde_json::Value;

use crate::board::served::{Served, free_here, free_on_board};
use crate::host;

/// A GPU for each case: what is played on it, its state, and whether it is free.
struct Case {
    uuid: &'static str,
    scenario: &'static str,
    state: &'static str,
    is_free: bool,
}

/// Nothing is listed on the first four; `PID` is a process of the user who runs the test.
const CASES: [Case; 9] = [
    case("GPU-0-empty", "", "truly-idle", true),
    case(
        "GPU-1-full",
        "memory_total_mib = 80000\nmemory_used_mib = 60000\n",
        "truly-idle",
        false,
    ),
    // Faults name GPUs by their place; they are in `FAULTS`.
    case("GPU-2-memory-unreadable", "", "truly-idle", false),
    case("GPU-3-processes-unreadable", "", "unobserved", false),
    case("GPU-4-small", PROCESS_OF_50_MB, "truly-idle", true),
    case("GPU-5-held", PROCESS_OF_900_MB, "idle-held", false),
    case(
        "GPU-6-nameless",
        "[[gpu.process]]\npid = 0\nmemory_mib = 1\n",
        "idle-held",
        false,
    ),
    case("GPU-7-ghost", "util = 90\n", "ghost", false),
    case(
        "GPU-8-working",
        "util = 90\n[[gpu.process]]\npid = PID\nmemory_mib = 50\n",
        "active",
        false,
    ),
];

const PROCESS_OF_50_MB: &str = "[[gpu.process]]\npid = PID\nmemory_mib = 50\n";
const PROCESS_OF_900_MB: &str = "[[gpu.process]]\npid = PID\nmemory_mib = 900\n";

const FAULTS: &str = r#"
[[fault]]
function = "nvmlDeviceGetMemoryInfo*"
gpu = 2
code = "UNKNOWN"
[[fault]]
function = "nvmlDeviceGetComputeRunningProcesses*"
gpu = 3
code = "NO_PERMISSION"
"#;

const fn case(
    uuid: &'static str,
    scenario: &'static str,
    state: &'static str,
    is_free: bool,
) -> Case {
    Case {
        uuid,
        scenario,
        state,
        is_free,
    }
}

fn json(host: &TestHost, line: &str) -> Value {
    serde_json::from_str(&host.fine(line)).unwrap()
}

/// UUIDs of the rows that fit, in order.
fn uuids(rows: &Value, key: &str, fits: impl Fn(&Value) -> bool) -> Vec<String> {
    let rows = rows.as_array().unwrap().iter().filter(|row| fits(row));
    let mut found: Vec<String> = rows
        .map(|row| row[key].as_str().unwrap().to_owned())
        .collect();
    found.sort();
    found
}

#[test]
fn every_surface_has_the_same_answer_to_is_it_free() {
    let sleeper = Sleeper::new();
    let gpus = CASES.map(|case| format!("[[gpu]]\nuuid = \"{}\"\n{}", case.uuid, case.scenario));
    let scenario = gpus.concat().replace("PID", &sleeper.pid().to_string()) + FAULTS;
    let board = Served::start();
    let host = board.enrol(host(&scenario), "lab");
    let free: Vec<&str> = CASES
        .iter()
        .filter(|case| case.is_free)
        .map(|case| case.uuid)
        .collect();

    let list = json(&host, "list --json");
    assert_eq!(
        uuids(&list["gpus"], "uuid", |gpu| gpu["status"] == "free"),
        free,
        "list"
    );
    assert_eq!(free_here(&host), free, "available");
    host.gua("sync-once");
    assert_eq!(free_on_board(&board), free, "board");

    let mut daemon = host.foreground("daemon --foreground --interval 200ms");
    let held = |report: &Value| report["users"][0]["held_hours"].as_f64();
    wait_for("hours of the user in the history", || {
        let report = host.gua("report --since 1h --json");
        let report: Value = serde_json::from_str(&report.stdout).ok()?;
        held(&report).filter(|hours| *hours > 0.001)
    });
    daemon.stop();
    // Hours grow until the last tick has covered its interval.
    wait_until("the end of the last tick", || {
        let hours = || held(&json(&host, "report --since 1h --json"));
        hours() == hours()
    });
    let report = json(&host, "report --since 1h --json");
    let now = &report["now"]["gpus"];
    assert_eq!(
        uuids(now, "gpu_uuid", |gpu| gpu["free"] == true),
        free,
        "report"
    );
    for case in &CASES {
        let states = [(&list["gpus"], "uuid", "state"), (now, "gpu_uuid", "state")];
        for (rows, key, state) in states {
            let of_gpu = |gpu: &Value| gpu[key] == case.uuid && gpu[state] == case.state;
            assert_eq!(uuids(rows, key, of_gpu), [case.uuid], "{}", case.state);
        }
    }
    check_hours(&host);
}

/// The hours of the state that was shown: the process of 50 MB holds a GPU that counts as truly idle, is not charged, and does
/// not use it.
fn check_hours(host: &TestHost) {
    let hours = |row: &Value, key: &str| row[key].as_f64().unwrap();
    let gpus = json(host, "report --since 1h --by gpu --json");
    let gpus = gpus["gpus"].as_array().unwrap();
    let gpu = |uuid: &str| gpus.iter().find(|gpu| gpu["gpu_uuid"] == uuid).unwrap();
    for case in &CASES {
        let row = gpu(case.uuid);
        let in_state = match case.state {
            "truly-idle" => hours(row, "truly_idle_hours"),
            "idle-held" => hours(row, "idle_held_hours"),
            "unobserved" => hours(row, "gap_hours"),
            _ => hours(row, "active_hours"),
        };
        assert!(in_state > 0.0, "{}: {row}", case.uuid);
    }
    let report = json(host, "report --since 1h --json");
    let at = report["now"]["at"].as_str().unwrap();
    let statement = json(
        host,
        &format!("statement --month {} --tz UTC --json", &at[..7]),
    );
    let person = |name: &Value| {
        let people = statement["people"].as_array().unwrap();
        people
            .iter()
            .find(|row| row["user"] == *name)
            .unwrap()
            .clone()
    };
    let users = report["users"].as_array().unwrap();
    let user = users.iter().find(|row| row["user"] != "unknown").unwrap();
    let person = person(&user["user"]);
    let about = |one: f64, other: f64| (one - other).abs() < 2e-6;
    let (small, held, working) = (
        hours(gpu("GPU-4-small"), "truly_idle_hours"),
        hours(gpu("GPU-5-held"), "idle_held_hours"),
        hours(gpu("GPU-8-working"), "active_hours"),
    );
    for (key, expected) in [
        ("held_hours", small + held + working),
        ("used_hours", working),
        ("idle_held_hours", held),
        ("held_free_hours", small),
        ("charged_hours", held + working),
    ] {
        let found = hours(&person, key);
        assert!(about(found, expected), "{key}: {found} {expected} {person}");
    }
}
