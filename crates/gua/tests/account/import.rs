//! Import of gpu_stats CSV files into the history. Values that the files lack stay unknown.

use serde_json::Value;

use crate::host;
use gua_test::recorded::record;
use gua_test::{TestHost, wait_for};

const HEADER: &str = "timestamp,user,pid,gpu,usage\n";
/// Midnight UTC of the imported day, in Unix seconds.
const DAY: i64 = 1_793_404_800;

/// One CSV day: ada holds the first GPU for an hour and is busy for the first half; then no process.
fn a_day() -> String {
    let mut text = HEADER.to_owned();
    for row in 0..12 {
        let at = DAY + row * 300;
        let usage = if row < 6 { 90 } else { 0 };
        text.push_str(&format!("{at},ada,4711,0,{usage}\n"));
    }
    for row in 12..24 {
        text.push_str(&format!("{},-,-,-,0\n", DAY + row * 300));
    }
    text
}

fn report(host: &TestHost, rest: &str) -> Value {
    let output = host.fine(&format!(
        "report --since 2026-10-30 --until 2026-11-02 --json {rest}"
    ));
    serde_json::from_str(&output).unwrap()
}

/// The rows of `--by` as (name, held hours, idle-held hours).
fn people(host: &TestHost) -> Vec<(String, f64, f64)> {
    let csv = host.fine("report --since 2026-10-30 --until 2026-11-02 --by user --csv");
    let mut lines = csv.lines();
    let keys: Vec<&str> = lines.next().unwrap().split(',').collect();
    let place = |key: &str| keys.iter().position(|known| *known == key).unwrap();
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let number = |key: &str| cells[place(key)].parse().unwrap_or(f64::NAN);
            (
                cells[place("user")].to_owned(),
                number("held_hours"),
                number("idle_held_hours"),
            )
        })
        .collect()
}

#[test]
fn an_imported_hour_counts_for_its_user_and_importing_twice_counts_once() {
    let host = host("");
    host.write("gpu_stats/20261031_gpu_stats.csv", a_day());
    let output = host.fine("import --gpu-stats gpu_stats");
    assert!(
        output.starts_with("imported 12 rows of 1 day from gpu_stats into "),
        "{output}"
    );
    assert!(output.contains("\n  interval of each: 5m\n"), "{output}");
    assert!(
        output.contains("rows without any process: 12; they name no GPU"),
        "{output}"
    );
    let expected = [("ada".to_owned(), 1.0, 0.5)];
    assert_eq!(people(&host), expected);

    let again = host.fine("import --gpu-stats gpu_stats");
    assert!(again.starts_with("imported 0 rows of 1 day"), "{again}");
    assert!(again.contains("(12 were imported before)"), "{again}");
    // A copy with another name has the same content and is recognised.
    host.write("copy/20261031_gpu_stats.csv", a_day());
    host.fine("import --gpu-stats copy/20261031_gpu_stats.csv");
    assert_eq!(people(&host), expected);

    // gpu_stats records only the index of a GPU, and the import does not invent idle time.
    let report = report(&host, "");
    let gpus = report["gpus"].as_array().unwrap();
    assert_eq!(gpus.len(), 1, "{report}");
    assert_eq!(gpus[0]["gpu_uuid"], "gpu_stats-0", "{report}");
    assert_eq!(gpus[0]["gpu_name"], Value::Null);
    // Consecutive samples make one session, not one each.
    assert!(
        host.fine("report --since 2026-10-30 --until 2026-11-02 --user ada")
            .contains("ada")
    );
}

#[test]
fn a_growing_day_is_imported_incrementally_and_a_partial_line_waits() {
    let host = host("");
    let file = "gpu_stats/20261031_gpu_stats.csv";
    let whole = format!("{HEADER}{DAY},ada,7,0,95\n{},ada,7,0,90\n", DAY + 300);
    let half = whole.strip_suffix("0\n").unwrap();
    host.write(file, half);
    let ended = host.gua("import --gpu-stats gpu_stats");
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.starts_with("imported 1 row "), "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("20261031_gpu_stats.csv:3: skipped: the last line has no newline"),
        "{ended:?}"
    );
    host.write(file, &whole);
    let output = host.fine("import --gpu-stats gpu_stats");
    assert!(
        output.starts_with("imported 1 row ") && output.contains("(1 was imported before)"),
        "{output}"
    );
    // Neither an earlier day nor a broken line in a later day affects the import.
    host.write(
        "gpu_stats/20261030_gpu_stats.csv",
        format!("{HEADER}{},bob,8,1,50\n", DAY - 300),
    );
    let broken = format!(
        "{HEADER}{},ada,7\n{},ada,7,1,40\n",
        DAY + 86_400,
        DAY + 86_700
    );
    host.write("gpu_stats/20261101_gpu_stats.csv", &broken);
    let ended = host.gua("import --gpu-stats gpu_stats");
    assert!(
        ended.stdout.starts_with("imported 2 rows of 3 days"),
        "{ended:?}"
    );
    assert!(
        ended
            .stderr
            .contains("20261101_gpu_stats.csv:2: skipped: it has 3 fields"),
        "{ended:?}"
    );
    let names: Vec<String> = people(&host).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["ada", "bob"]);
}

/// CSV rows of ada on the first GPU, one per sample in the period.
fn rows_of_ada(from: i64, to: i64) -> String {
    let rows = (from..to).step_by(300);
    let rows = rows.map(|at| format!("{at},ada,4711,0,90\n"));
    format!("{HEADER}{}", rows.collect::<String>())
}

#[test]
fn hours_that_our_own_collector_observed_are_not_counted_again() {
    let host = host("");
    // Our own collector covers the second of three hours; gpu_stats covers all of them.
    let own = jiff::Timestamp::from_second(DAY + 3600).unwrap();
    record(&host.path(".gua/gua.db"), own, 60, |_| vec![(90, &["ada"])]);
    host.write(
        "gpu_stats/20261031_gpu_stats.csv",
        rows_of_ada(DAY, DAY + 3 * 3600),
    );
    let in_part = "imported rows do not record sharing or energy: they are charged";
    let page = || host.fine("report --since 2026-10-30 --until 2026-11-02");
    assert!(!page().contains(in_part), "{}", page());
    let left_out = "\n  left out 12 rows of 1 day: the history already covers these times";
    let output = host.fine("import --gpu-stats gpu_stats");
    assert!(output.starts_with("imported 24 rows of 1 day"), "{output}");
    assert!(output.contains(left_out), "{output}");
    let expected = [("ada".to_owned(), 3.0, 0.0)];
    assert_eq!(people(&host), expected);
    assert!(page().contains(in_part), "{}", page());
    // Importing again changes nothing, also after the file has grown.
    let again = host.fine("import --gpu-stats gpu_stats");
    assert!(again.starts_with("imported 0 rows of 1 day"), "{again}");
    assert!(again.contains("(24 were imported before)"), "{again}");
    assert!(again.contains(left_out), "{again}");
    host.write(
        "gpu_stats/20261031_gpu_stats.csv",
        rows_of_ada(DAY, DAY + 4 * 3600),
    );
    let grown = host.fine("import --gpu-stats gpu_stats");
    assert!(grown.starts_with("imported 12 rows of 1 day"), "{grown}");
    assert_eq!(people(&host), [("ada".to_owned(), 4.0, 0.0)]);
    // A row that overlaps observed time would count in part; it is skipped instead.
    host.write(
        "more/20261030_gpu_stats.csv",
        format!("{HEADER}{},bob,9,1,90\n", DAY + 3600 - 299),
    );
    let output = host.fine("import --gpu-stats more");
    assert!(output.contains("\n  left out 1 row of 1 day"), "{output}");
    assert_eq!(people(&host).len(), 1);
}

#[test]
fn a_csv_written_by_our_own_daemon_is_already_in_its_history() {
    let pid = std::process::id();
    let host = host(&format!(
        "[[gpu]]\nuuid = \"GPU-a\"\nutil = 50\n[[gpu.process]]\npid = {pid}\nmemory_mib = 512\n"
    ));
    let mut daemon = host.foreground("daemon --foreground --interval 50ms --csv-dir days");
    wait_for("a row and ticks", || {
        let is_there = host.path("days").exists() && host.ticks(".gua/gua.db").len() >= 3;
        is_there.then_some(())
    });
    daemon.stop();
    let output = host.fine("import --gpu-stats days");
    assert!(output.starts_with("imported 0 rows of 1 day"), "{output}");
    assert!(output.contains("\n  left out "), "{output}");
}

#[test]
fn hours_recorded_by_gpu_usage_audit_are_not_counted_again() {
    let host = host("");
    host.fine("demo --db long.db --interval 30s --ticks 240");
    host.fine("export --db long.db --format gpu-usage-audit -o old.db");
    host.fine("import old.db");
    let hour_ago = gua_probe::clock::now().as_second() - 3600;
    host.write(
        "gpu_stats/20261031_gpu_stats.csv",
        rows_of_ada(hour_ago, hour_ago + 1500),
    );
    let output = host.fine("import --gpu-stats gpu_stats");
    assert!(output.starts_with("imported 0 rows of 1 day"), "{output}");
    assert!(output.contains("\n  left out 5 rows of 1 day"), "{output}");
}

#[test]
fn another_interval_is_refused_unless_the_day_is_reimported() {
    let host = host("");
    host.write("gpu_stats/20261031_gpu_stats.csv", a_day());
    host.fine("import --gpu-stats gpu_stats --interval 10m");
    let ten = [("ada".to_owned(), 2.0, 1.0)];
    assert_eq!(people(&host), ten);
    let ended = host.gua("import --gpu-stats gpu_stats --interval 5m");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("its rows were imported with an interval of 10m, not 5m\nhint: "),
        "{ended:?}"
    );
    assert!(ended.stderr.contains("--replace"), "{ended:?}");
    assert_eq!(people(&host), ten);
    // Without --interval, a known day keeps the interval of its import and a new day gets the default.
    host.write(
        "gpu_stats/20261101_gpu_stats.csv",
        rows_of_ada(DAY + 86_400, DAY + 90_000),
    );
    let output = host.fine("import --gpu-stats gpu_stats");
    assert!(
        output.contains("\n  interval of each: 5m (1 day), 10m (1 day)\n"),
        "{output}"
    );
    assert_eq!(people(&host), [("ada".to_owned(), 3.0, 1.0)]);
    let output = host.fine("import --gpu-stats gpu_stats --interval 5m --replace");
    assert!(output.starts_with("imported 24 rows of 2 days"), "{output}");
    assert!(output.contains("\n  interval of each: 5m\n"), "{output}");
    assert_eq!(people(&host), [("ada".to_owned(), 2.0, 0.5)]);
    // A file with changed rows is not one that has grown.
    host.write(
        "gpu_stats/20261031_gpu_stats.csv",
        a_day().replacen(",90\n", ",0\n", 3).replacen(
            &format!("{},ada", DAY + 300),
            &format!("{},eve", DAY + 300),
            1,
        ),
    );
    let ended = host.gua("import --gpu-stats gpu_stats");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stderr.contains("have been changed or deleted") && ended.stderr.contains("--replace"),
        "{ended:?}"
    );
    host.fine("import --gpu-stats gpu_stats --replace");
    assert_eq!(people(&host).len(), 2);
}

#[test]
fn a_repaired_first_line_does_not_make_a_second_day() {
    let host = host("");
    let file = "gpu_stats/20261031_gpu_stats.csv";
    let first = format!("{DAY},ada,4711,0,90\n");
    host.write(file, a_day().replacen(&first, "broken\n", 1));
    host.fine("import --gpu-stats gpu_stats");
    let held = || people(&host)[0].1;
    assert!((held() - 11.0 / 12.0).abs() < 1e-3, "{}", held());
    host.write(file, a_day());
    let ended = host.gua("import --gpu-stats gpu_stats");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stderr.contains("have been changed or deleted") && ended.stderr.contains("--replace"),
        "{ended:?}"
    );
    host.fine("import --gpu-stats gpu_stats --replace");
    assert_eq!(people(&host), [("ada".to_owned(), 1.0, 0.5)]);
    // A copy of it is recognised as the same day.
    host.write("copy/20261031_gpu_stats.csv", a_day());
    host.fine("import --gpu-stats copy");
    assert_eq!(people(&host), [("ada".to_owned(), 1.0, 0.5)]);
}

#[test]
fn gpu_stats_gpus_are_ordered_by_index() {
    let host = host("");
    let rows = (0..12).map(|gpu| format!("{DAY},ada,{},{gpu},90\n", 100 + gpu));
    let text = format!("{HEADER}{}", rows.collect::<String>());
    host.write("gpu_stats/20261031_gpu_stats.csv", &text);
    host.fine("import --gpu-stats gpu_stats");
    let report = report(&host, "");
    let gpus = report["gpus"].as_array().unwrap().iter();
    let gpus: Vec<&str> = gpus.map(|gpu| gpu["gpu_uuid"].as_str().unwrap()).collect();
    let expected: Vec<String> = (0..12).map(|gpu| format!("gpu_stats-{gpu}")).collect();
    assert_eq!(gpus, expected);
}

#[test]
fn a_file_that_is_not_gpu_stats_csv_is_refused_before_a_history_is_created() {
    let host = host("");
    host.write("empty/notes.txt", "");
    host.write("other/20261031_gpu_stats.csv", "a,b\n1,2\n");
    for (line, code, words) in [
        (
            "import --gpu-stats nowhere",
            2,
            "there is nothing at nowhere",
        ),
        (
            "import --gpu-stats empty",
            2,
            "there are no gpu_stats files in empty",
        ),
        (
            "import --gpu-stats other",
            1,
            "its first line is not `timestamp,user,pid,gpu,usage`",
        ),
        ("import --gpu-stats other --interval 0s", 2, "--interval"),
        ("import", 2, "required"),
    ] {
        let ended = host.gua(line);
        assert_eq!(ended.code, code, "{line}: {ended:?}");
        assert!(ended.stderr.contains(words), "{line}: {ended:?}");
    }
    assert!(!host.path(".gua/gua.db").exists());
}
