//! Flags of `gua report`, and files that it must leave unchanged.

use crate::without_driver;
use gua_test::TestHost;
use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

/// A home directory with a history of sixty ticks that ended just now.
fn home() -> TestHost {
    let home = without_driver();
    home.fine("demo --db demo.db --ticks 60");
    home
}

/// Every file below a directory, with a hash of its bytes.
fn files(directory: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => {
                let mut print = std::hash::DefaultHasher::new();
                std::fs::read(&path).unwrap().hash(&mut print);
                found.insert(path, print.finish());
            }
        }
    }
    found
}

#[test]
fn korean_follows_the_locale_unless_a_language_is_given() {
    let check = |locale: &[(&str, &str)], flag: &str, is_korean: bool| {
        let mut home = without_driver();
        for (name, value) in locale {
            home.set(name, *value);
        }
        home.fine("demo --db demo.db --ticks 2 --interval 1ms");
        let report = home.fine(&format!("report --db demo.db {flag}"));
        assert_eq!(
            report.contains("요약"),
            is_korean,
            "{locale:?} {flag}: {report}"
        );
        assert_eq!(
            report.contains("§1 Headline"),
            !is_korean,
            "{locale:?} {flag}"
        );
    };
    check(&[("LC_ALL", "ko_KR.UTF-8")], "", true);
    check(&[("LC_ALL", "ko_KR.UTF-8")], "--lang en", false);
    check(&[("LC_ALL", ""), ("LANG", "ko_KR.UTF-8")], "", true);
    check(&[("LC_ALL", "C.UTF-8"), ("LANG", "ko_KR.UTF-8")], "", false);
    check(&[("LC_ALL", "kok_IN")], "", false);
    check(&[("LC_ALL", "C.UTF-8")], "--lang ko", true);
}

#[test]
fn the_korean_report_counts_gpus_over_the_window_of_its_mean() {
    let home = without_driver();
    let shape = gua_test::old_history::Shape {
        gpus: 3,
        ticks: 100,
        interval_seconds: 30,
        process_rows: 0,
    };
    let end = gua_probe::clock::now() - jiff::SignedDuration::from_secs(60);
    let path = home.path("old.db");
    gua_test::old_history::write(&path, &shape, end).unwrap();
    // In the last tick one of them is missing.
    let last = "DELETE FROM gpu_sample WHERE gpu_index = 2 AND ts = (SELECT max(ts) FROM gpu_sample); \
                UPDATE gpu_sample SET util_pct = 0";
    gua_test::old_history::change(&path, last).unwrap();
    let report = home.fine("report --db old.db --since 1d --lang ko");
    assert!(
        report.contains("GPU 3장 중 평균 3.0장이 쉬었고"),
        "{report}"
    );
}

#[test]
fn usage_errors_exit_with_2_and_change_nothing() {
    let home = home();
    std::fs::write(home.path("text.db"), "no history\n").unwrap();
    std::fs::write(home.path("empty.db"), "").unwrap();
    std::fs::create_dir(home.path("dir.db")).unwrap();
    let before = files(home.directory());
    for (words, sentence) in [
        (
            "--since 1y",
            "`1y` is not a duration; write it like 30s, 1h, 200ms",
        ),
        ("--since 30", "`30` is not a duration"),
        ("--until tomorrow", "--until: `tomorrow` is not a duration"),
        ("--since 1h --until 2h", "the window ends"),
        ("--interval 1w", "30s, 1h, 200ms"),
        ("--tz Mars/Olympus", "no time zone is called `Mars/Olympus`"),
        (
            "--user nobody",
            "no user `nobody` in this history; it has alice, bob",
        ),
        ("--gpu GPU-", "several GPUs begin with `GPU-`: 0 (GPU-0)"),
        ("--since -1h", "`-1h` is not a duration"),
        ("--gpu 9", "no GPU `9`; this host has 0 (GPU-0)"),
        (
            "--active-util 101",
            "--active-util: expected a whole number from 1 to 100",
        ),
        ("--width 0", "0 is not in 1..=1000"),
        ("--by moon", "invalid value 'moon'"),
        ("--db absent.db", "there is no history at `absent.db`"),
        ("--db text.db", "text.db is not a database, not a history"),
        ("--db empty.db", "empty.db is an empty file, not a history"),
        ("--db dir.db", "dir.db is a directory, not a history"),
    ] {
        let db = if words.contains("--db") {
            ""
        } else {
            "--db demo.db"
        };
        let output = home.gua(&format!("report {db} {words}"));
        let stderr = output.stderr;
        assert_eq!(output.code, 2, "{words}: {stderr}");
        assert!(stderr.contains(sentence), "{words}: {stderr}");
        assert!(output.stdout.is_empty(), "{words}");
    }
    assert_eq!(files(home.directory()), before);
}

#[test]
fn a_user_filter_keeps_only_that_user() {
    let home = home();
    let alice = home.fine("report --db demo.db --since 5m --user alice");
    assert!(alice.contains("(48 samples, "), "{alice}");
    let own = alice.split("§9 All GPUs").next().unwrap();
    assert!(!own.contains("bob"), "{alice}");
    let second = home.fine("report --db demo.db --since 5m --gpu 1");
    assert!(second.contains("idle-held    ▒  100.0%"), "{second}");
    assert!(!second.contains("GPU-0"), "{second}");
    let same = home.fine("report --db demo.db --since 5m --gpu GPU-1");
    assert_eq!(numbers(&second), numbers(&same));
}

/// Lines with shares; the others mention the current time.
fn numbers(report: &str) -> Vec<&str> {
    report
        .lines()
        .filter(|line| line.contains(" samples)"))
        .collect()
}

#[test]
fn every_table_has_the_same_hours_in_text_json_and_csv() {
    let home = home();
    let first: serde_json::Value =
        serde_json::from_str(&home.fine("report --db demo.db --json")).unwrap();
    let until = first["made_at"].as_str().unwrap();
    for by in ["user", "gpu", "day", "hour", "month", "state"] {
        let words =
            format!("report --db demo.db --since 2020-01-01 --until {until} --top 100 --by {by}");
        let csv = home.fine(&format!("{words} --csv"));
        let json: serde_json::Value =
            serde_json::from_str(&home.fine(&format!("{words} --json"))).unwrap();
        let mut lines = csv.lines();
        let keys: Vec<&str> = lines.next().unwrap().split(',').collect();
        let rows = json["by"]["rows"].as_array().unwrap();
        assert_eq!(lines.clone().count(), rows.len(), "{by}\n{csv}");
        for (line, row) in lines.zip(rows) {
            for (key, cell) in keys.iter().zip(line.split(',')) {
                let value = &row[*key];
                let same = match value {
                    serde_json::Value::String(text) => text == cell,
                    serde_json::Value::Null => cell.is_empty(),
                    // JSON writes a small number with an exponent.
                    number => cell.parse().ok() == number.as_f64(),
                };
                assert!(same, "{by} {key}: {cell} in CSV, {value} in JSON");
            }
        }
        assert!(!home.fine(&words).is_empty());
    }
}

#[test]
fn an_explicit_window_is_shown_in_its_time_zone() {
    let home = without_driver();
    home.fine("demo --db demo.db --ticks 60");
    let report = home
        .fine("report --db demo.db --since 2020-01-01 --until 2020-02-01T12:00 --tz Asia/Seoul");
    assert!(
        report.contains("Window: 2020-01-01 00:00 to 2020-02-01 12:00"),
        "{report}"
    );
    assert!(
        report.contains("§5 Time-of-day heatmap (Asia/Seoul)"),
        "{report}"
    );
    assert!(report.contains("(no samples in window)"), "{report}");
    let all = home.fine("report --db demo.db --since 999999999d");
    assert!(all.contains("(180 samples)"), "{all}");
}

#[test]
fn a_read_only_copy_is_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = home();
    let place = home.path("copy");
    std::fs::create_dir(&place).unwrap();
    std::fs::copy(home.path("demo.db"), place.join("demo.db")).unwrap();
    std::fs::set_permissions(
        place.join("demo.db"),
        std::fs::Permissions::from_mode(0o444),
    )
    .unwrap();
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o555)).unwrap();
    let before = files(&place);
    let report = home.fine("report --db copy/demo.db --since 5m");
    assert!(report.contains("(180 samples)"), "{report}");
    assert_eq!(files(&place), before);
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_old_name_reports_too() {
    let home = home();
    let link = home.path("gpu-usage-audit");
    std::os::unix::fs::symlink(crate::GUA, &link).unwrap();
    let run = |words: &str| {
        let output = std::process::Command::new(&link)
            .env_clear()
            .env("HOME", home.directory())
            .env("TZ", "UTC")
            .env("GUA_TEST_SYSTEM_CONFIG", "/nonexistent")
            .current_dir(home.directory())
            .args(words.split_whitespace())
            .output();
        output.unwrap()
    };
    let report = run("report --db demo.db --sin 5m");
    assert!(String::from_utf8_lossy(&report.stdout).contains("(180 samples)"));
    let missing = run("report --db absent.db");
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).starts_with("gpu-usage-audit report: "));
    assert!(run("demo --ticks 1").status.success());
}

/// Every key of an object and of its members. Keys that name a user or a GPU are not part of the schema.
fn keys(value: &serde_json::Value, found: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Object(object) => {
            for (key, value) in object {
                found.insert(key.clone());
                keys(value, found);
            }
        }
        serde_json::Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn every_key_of_the_json_is_documented() {
    let home = home();
    let json = home.fine("report --db demo.db --since 1d --by day --json");
    let mut found = std::collections::BTreeSet::new();
    keys(&serde_json::from_str(&json).unwrap(), &mut found);
    let documented = include_str!("../../../../docs/report.md");
    let missing: Vec<_> = found
        .iter()
        .filter(|key| !documented.contains(&format!("`{key}`")) && *key != "day")
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(found.len() > 60);
}

#[test]
fn a_window_in_the_past_is_reported_as_of_its_last_tick() {
    let home = without_driver();
    home.fine("demo --db demo.db --ticks 720 --interval 60s");
    let report = home.fine("report --db demo.db --since 6h --until 2h");
    assert!(report.contains("(bare, driver 560.35.05-fake)"), "{report}");
    assert!(report.contains("§7 Idle at the last tick (2)"), "{report}");
    assert!(
        !report.contains("kill "),
        "the pid of hours ago may have been reused\n{report}"
    );
    assert!(report.contains("§9 All GPUs at the last tick"), "{report}");
    let past = report.split("§8 Past waste").nth(1).unwrap_or_default();
    assert!(
        !past.contains("bob"),
        "a process that still runs is not gone\n{report}"
    );
}

#[test]
fn gpu_totals_are_not_attributed_to_one_user() {
    let home = home();
    let json = home.fine("report --db demo.db --since 5m --user alice --json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["samples"], 48);
    assert_eq!(json["totals"]["truly_idle_hours"], 0.0);
    assert_eq!(json["totals"]["active_share"], serde_json::Value::Null);
    assert_eq!(
        json["equivalent_gpus"]["idle_held"],
        serde_json::Value::Null
    );
    assert_eq!(json["states"], serde_json::Value::Null);
    let cells = json["heatmap"]["held_share"].as_array().unwrap();
    let cells = cells.iter().flat_map(|day| day.as_array().unwrap());
    let most = cells
        .filter_map(serde_json::Value::as_f64)
        .fold(0.0, f64::max);
    assert!(most < 0.34, "she held a part of one of three gpus: {most}");
    let refused = home.gua("report --db demo.db --user alice --by state");
    assert_eq!(refused.code, 2);
}

#[test]
fn a_holder_without_a_name_is_reported_too() {
    let home = home();
    let report = home.fine("report --db demo.db --since 5m");
    let holders = report
        .split("§7 ")
        .nth(1)
        .unwrap()
        .split("§9")
        .next()
        .unwrap();
    assert!(
        holders.contains("bob") && holders.contains("? (9999"),
        "{report}"
    );
}

#[test]
fn a_demo_does_not_write_into_a_collectors_history() {
    let home = home();
    let db = home.path("demo.db");
    let real = gua_store::Store::open(
        &db,
        gua_store::OpenMode::Append,
        &gua_store::WriterOptions::default(),
    );
    let mut store = real.unwrap();
    let run = gua_store::NewRun {
        started: gua_probe::clock::now(),
        interval: std::time::Duration::from_secs(30),
        host: "node1".to_owned(),
        version: "0".to_owned(),
        boot: None,
    };
    store.begin_run(&run).unwrap();
    store.close().unwrap();
    let output = home.gua("demo --db demo.db");
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("was recorded by a collector"));
}
