//! GPUs and sessions of an imported history: numbers in place of UUIDs, states of sessions, and all readings in exports.

use gua_probe::clock;
use gua_test::TestHost;
use gua_test::old_history::{self, Shape};
use serde_json::Value;

use crate::without_driver;

/// A home with an imported history of four GPUs and six hours that ended just now.
fn imported() -> TestHost {
    let home = without_driver();
    let shape = Shape {
        gpus: 4,
        ticks: 720,
        interval_seconds: 30,
        process_rows: 4 * 720,
    };
    old_history::write(&home.path("old.db"), &shape, clock::now()).unwrap();
    home.fine("import old.db --db gua.db");
    home
}

#[test]
fn imported_gpus_keep_their_numbers() {
    let home = imported();
    for db in ["gua.db", "old.db"] {
        let report = |line: &str| home.json(&format!("report --db {db} --since 6h --json {line}"));
        let one = report("--gpu 3");
        let gpus = one["gpus"].as_array().unwrap();
        assert_eq!(gpus.len(), 1, "{db}");
        assert_eq!(gpus[0]["gpu_index"], 3, "{db}");
        assert!(one["samples"].as_u64().unwrap() >= 700, "{db}");
        let indexes = |rows: &Value| -> Vec<u64> {
            let rows = rows.as_array().unwrap().iter();
            let mut found: Vec<u64> = rows.map(|row| row["gpu_index"].as_u64().unwrap()).collect();
            found.sort_unstable();
            found
        };
        let all = report("--by gpu");
        assert_eq!(indexes(&all["gpus"]), [0, 1, 2, 3], "{db}");
        assert_eq!(indexes(&all["by"]["rows"]), [0, 1, 2, 3], "{db}");
        assert_eq!(indexes(&all["now"]["gpus"]), [0, 1, 2, 3], "{db}");
        let hours = home.fine(&format!("report --db {db} --since 6h --by hour"));
        assert!(
            hours.contains("#3") && !hours.contains("GPU-0"),
            "{db}: {hours}"
        );
        for chart in ["hours", "sessions", "heat"] {
            let line = format!("plot {chart} --by gpu --db {db} --since 6h --format svg");
            let svg = home.fine(&line);
            assert!(svg.contains("#3"), "{db} {chart}");
            assert!(!svg.contains(">GPU-0"), "{db} {chart}");
        }
        let page = home.fine(&format!("report --db {db} --since 6h --format html"));
        assert!(page.contains("#3 · NVIDIA A100"), "{db}");
    }
}

#[test]
fn imported_sessions_have_the_state_of_their_utilisation() {
    let home = imported();
    let page = home.fine("plot sessions --by gpu --db gua.db --since 6h --format svg");
    assert!(page.contains(", held-unknown 0.0 h"), "{page}");
    assert!(!page.contains("active 0.0 h, idle-held"), "{page}");
    let report = home.json("report --db gua.db --since 6h --json");
    assert_eq!(report["totals"]["held_unknown_hours"], 0.0);
    assert!(report["totals"]["active_hours"].as_f64() > Some(1.0));
}

#[test]
fn temperature_and_power_of_old_rows_are_exported() {
    let home = imported();
    let rows = home.fine("export --db gua.db --what samples --format jsonl");
    let rows = rows
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut count = 0;
    for row in rows {
        let util = row["util_percent"].as_i64().unwrap();
        assert_eq!(row["source"], "imported");
        assert_eq!(row["temperature_celsius"], 35 + util / 2, "{row}");
        assert_eq!(row["power_milliwatts"], 1000 * (60 + 3 * util), "{row}");
        count += 1;
    }
    assert_eq!(count, 4 * 720);
}
