//! Days of gpu_stats in our history: what they say counts, what they do not say stays unknown.

use serde_json::Value;

use crate::host::Host;

const HEADER: &str = "timestamp,user,pid,gpu,usage\n";
/// Midnight in UTC.
const DAY: i64 = 1_793_404_800;

/// Ada on the first card for an hour, busy for its first half; then nobody.
fn a_day() -> String {
    let mut text = HEADER.to_owned();
    for look in 0..12 {
        let at = DAY + look * 300;
        let usage = if look < 6 { 90 } else { 0 };
        text.push_str(&format!("{at},ada,4711,0,{usage}\n"));
    }
    for look in 12..24 {
        text.push_str(&format!("{},-,-,-,0\n", DAY + look * 300));
    }
    text
}

fn report(host: &Host, rest: &str) -> Value {
    let said = host.fine(&format!(
        "report --since 2026-10-30 --until 2026-11-02 --json {rest}"
    ));
    serde_json::from_str(&said).unwrap()
}

/// The rows of `--by` as (name, held hours, idle-held hours).
fn people(host: &Host) -> Vec<(String, f64, f64)> {
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
fn an_hour_of_gpu_stats_is_an_hour_of_its_user_and_twice_imported_is_once_counted() {
    let host = Host::new("");
    host.write("gpu_stats/20261031_gpu_stats.csv", &a_day());
    let said = host.fine("import --gpu-stats gpu_stats");
    assert!(
        said.starts_with("imported 12 rows of 1 day from gpu_stats into "),
        "{said}"
    );
    assert!(said.contains("\n  each stands for 5m\n"), "{said}");
    assert!(
        said.contains("nobody was on any card: 12; they name no card"),
        "{said}"
    );
    let expected = [("ada".to_owned(), 1.0, 0.5)];
    assert_eq!(people(&host), expected);

    let again = host.fine("import --gpu-stats gpu_stats");
    assert!(again.starts_with("imported 0 rows of 1 day"), "{again}");
    assert!(again.contains("(12 were here already)"), "{again}");
    // A copy of the file is the same file.
    host.write("copy/20261031_gpu_stats.csv", &a_day());
    host.fine("import --gpu-stats copy/20261031_gpu_stats.csv");
    assert_eq!(people(&host), expected);

    // The card is known by its number alone, and its idle time is not made up.
    let report = report(&host, "");
    let cards = report["gpus"].as_array().unwrap();
    assert_eq!(cards.len(), 1, "{report}");
    assert_eq!(cards[0]["gpu_uuid"], "gpu_stats-0", "{report}");
    assert_eq!(cards[0]["gpu_name"], Value::Null);
    // One session, not one for each look.
    assert!(
        host.fine("report --since 2026-10-30 --until 2026-11-02 --user ada")
            .contains("ada")
    );
}

#[test]
fn a_day_that_grows_is_imported_on_and_half_a_line_waits_until_it_is_whole() {
    let host = Host::new("");
    let file = "gpu_stats/20261031_gpu_stats.csv";
    let whole = format!("{HEADER}{DAY},ada,7,0,95\n{},ada,7,0,90\n", DAY + 300);
    let half = whole.strip_suffix("0\n").unwrap();
    host.write(file, half);
    let ended = host.gua("import --gpu-stats gpu_stats");
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stdout.starts_with("imported 1 rows"), "{ended:?}");
    assert!(
        ended
            .stderr
            .contains("20261031_gpu_stats.csv:3: skipped: the last line has no end"),
        "{ended:?}"
    );
    host.write(file, &whole);
    let said = host.fine("import --gpu-stats gpu_stats");
    assert!(
        said.starts_with("imported 1 rows") && said.contains("(1 were here already)"),
        "{said}"
    );
    // A day before it, and a broken line in a day after it, are no matter.
    host.write(
        "gpu_stats/20261030_gpu_stats.csv",
        &format!("{HEADER}{},bob,8,1,50\n", DAY - 300),
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

#[test]
fn what_is_no_day_of_gpu_stats_is_refused_before_a_history_is_made() {
    let host = Host::new("");
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
            "there is no day of gpu_stats in empty",
        ),
        (
            "import --gpu-stats other",
            1,
            "its first line is not `timestamp,user,pid,gpu,usage`",
        ),
        ("import --gpu-stats other --interval 0s", 1, ""),
        ("import", 2, "required"),
    ] {
        let ended = host.gua(line);
        assert_eq!(ended.code, code, "{line}: {ended:?}");
        assert!(ended.stderr.contains(words), "{line}: {ended:?}");
    }
    assert!(!host.path(".gua/gua.db").exists());
}
