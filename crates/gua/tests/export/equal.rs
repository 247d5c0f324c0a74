//! One window, all faces: CSV, JSON lines, Parquet, the plots' numbers and the report say the same hours.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

use crate::{home, printed, window};

/// Hours by column, of each card or person.
type Hours = BTreeMap<String, BTreeMap<&'static str, f64>>;

const STATES: [&str; 3] = ["active", "idle_held", "truly_idle"];
const HELD: [&str; 2] = ["held", "idle_held"];

/// Sums of `<column>_us` by the values of `key`; those whom nobody knows are unknown.
fn sums(rows: &[Value], key: &str, columns: &[&'static str]) -> Hours {
    let mut hours = Hours::new();
    for row in rows {
        let name = row[key].as_str().unwrap_or("unknown").to_owned();
        for column in columns {
            let micros = match &row[format!("{column}_us")] {
                Value::String(text) => text.parse().unwrap(),
                value => value.as_f64().unwrap_or(0.0),
            };
            *hours
                .entry(name.clone())
                .or_default()
                .entry(column)
                .or_default() += micros / 3.6e9;
        }
    }
    hours
}

/// The same of a report's or a plot's rows, which have hours.
fn told(rows: &Value, key: &str, columns: &[&'static str]) -> Hours {
    let mut hours = Hours::new();
    for row in rows.as_array().unwrap() {
        let name = row[key].as_str().unwrap().to_owned();
        for column in columns {
            let amount = row[format!("{column}_hours")].as_f64().unwrap_or(0.0);
            *hours
                .entry(name.clone())
                .or_default()
                .entry(column)
                .or_default() += amount;
        }
    }
    hours
}

fn of_csv(text: &str) -> Vec<Value> {
    let mut lines = text.lines();
    let keys: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row = |line: &str| {
        let cells = keys.iter().zip(line.split(','));
        let cell = |(key, cell): (&&str, &str)| {
            let value = if cell.is_empty() {
                Value::Null
            } else {
                Value::from(cell)
            };
            ((*key).to_owned(), value)
        };
        Value::Object(cells.map(cell).collect())
    };
    lines.map(row).collect()
}

fn of_json_lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn of_parquet(path: &Path) -> Vec<Value> {
    let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = file.get_row_iter(None).unwrap();
    let cell = |(name, field): (&String, &Field)| {
        let value = match field {
            Field::Null => Value::Null,
            Field::Str(text) => Value::from(text.as_str()),
            Field::Long(number) | Field::TimestampMicros(number) => Value::from(*number),
            Field::Double(number) => Value::from(*number),
            Field::Bool(is) => Value::from(*is),
            other => panic!("{other} is of no type that we write"),
        };
        (name.clone(), value)
    };
    rows.map(|row| Value::Object(row.unwrap().get_column_iter().map(cell).collect()))
        .collect()
}

fn assert_equal(one: &Hours, other: &Hours, what: &str) {
    let names: Vec<_> = one.keys().chain(other.keys()).collect();
    for name in names {
        let nothing = BTreeMap::new();
        let (mine, theirs) = (
            one.get(name).unwrap_or(&nothing),
            other.get(name).unwrap_or(&nothing),
        );
        for column in STATES.iter().chain(&HELD) {
            let amount =
                |hours: &BTreeMap<&'static str, f64>| hours.get(column).copied().unwrap_or(0.0);
            let (mine, theirs) = (amount(mine), amount(theirs));
            // Reports round to six decimals, once a row.
            assert!(
                (mine - theirs).abs() < 1e-5,
                "{what}: {name} {column} {mine} and {theirs}"
            );
        }
    }
}

/// The rows of a table in every form.
fn forms(home: &Path, what: &str, window: &str) -> [(&'static str, Vec<Value>); 3] {
    let ask = |more: &str| {
        printed(
            home,
            &format!("export --db both.db --what {what} {window} {more}"),
        )
    };
    let csv = of_csv(&ask("--format csv"));
    let json = of_json_lines(&ask("--format jsonl"));
    ask("-o table.parquet --overwrite");
    let parquet = of_parquet(&home.join("table.parquet"));
    assert_eq!(csv.len(), json.len(), "{what} {window}");
    assert_eq!(csv.len(), parquet.len(), "{what} {window}");
    [("CSV", csv), ("JSON lines", json), ("Parquet", parquet)]
}

#[test]
fn every_form_has_the_hours_of_the_report_for_one_window() {
    let (home, until) = home();
    let home = home.path();
    // The longest reaches into the imported rows, the shortest cuts a tick and a quarter hour.
    for minutes in [240, 100, 37] {
        let window = window(until, minutes);
        let ask = |line: &str| -> Value {
            serde_json::from_str(&printed(home, &format!("{line} --db both.db {window}"))).unwrap()
        };
        let report = ask("report --json");
        let gpus = told(&report["gpus"], "gpu_uuid", &STATES);
        let users = told(&report["users"], "user", &HELD);
        assert!(gpus.values().any(|gpu| gpu["active"] > 0.1), "{gpus:?}");
        for what in ["samples", "totals"] {
            for (form, rows) in forms(home, what, &window) {
                let found = sums(&rows, "gpu_uuid", &STATES);
                assert_equal(&found, &gpus, &format!("{what} as {form}, {window}"));
            }
        }
        for (form, rows) in forms(home, "user-totals", &window) {
            assert_equal(
                &sums(&rows, "user", &HELD),
                &users,
                &format!("user-totals as {form}, {window}"),
            );
        }
        // What the plots draw, summed over time.
        let plot = |chart: &str| ask(&format!("plot {chart} --format json"));
        let by_gpu = plot("hours --by gpu");
        assert_equal(
            &told(&by_gpu["rows"], "gpu_uuid", &STATES),
            &gpus,
            "plot hours --by gpu",
        );
        let by_user = plot("hours --by user");
        assert_equal(
            &told(&by_user["rows"], "user", &HELD),
            &users,
            "plot hours --by user",
        );
        let over_time = plot("--by user --per hour");
        assert_equal(
            &told(&over_time["rows"], "user", &HELD),
            &users,
            "plot --by user --per hour",
        );
        for chart in [
            "states",
            "quiet",
            "--by gpu --per day",
            "--by gpu --per weekday-hour",
        ] {
            let rows = plot(chart)["rows"].clone();
            let mut all: BTreeMap<&str, f64> = BTreeMap::new();
            for row in rows.as_array().unwrap() {
                for state in STATES {
                    *all.entry(state).or_default() +=
                        row[format!("{state}_hours")].as_f64().unwrap_or(0.0);
                }
            }
            for state in STATES {
                let expected = report["totals"][format!("{state}_hours")].as_f64().unwrap();
                assert!(
                    (all[state] - expected).abs() < 1e-4,
                    "plot {chart}: {state} {} of {expected}",
                    all[state]
                );
            }
        }
        // The heat map of the week is the report's, cell by cell; its week begins on Monday.
        let heat = plot("heat");
        let cells = heat["rows"].as_array().unwrap();
        for (place, cell) in cells.iter().enumerate() {
            let (day, hour) = ((place / 24 + 1) % 7, place % 24);
            assert_eq!(
                cell["active_share"],
                report["heatmap"]["active_share"][day][hour]
            );
        }
    }
}

#[test]
fn samples_totals_and_sessions_of_the_whole_history_agree() {
    let (home, until) = home();
    let home = home.path();
    let window = window(until, 600);
    let rows = |what: &str| {
        of_json_lines(&printed(
            home,
            &format!("export --db both.db --what {what} {window} --format jsonl"),
        ))
    };
    let samples = rows("samples");
    let ticks: u64 = rows("totals")
        .iter()
        .map(|row| row["ticks"].as_u64().unwrap())
        .sum();
    assert_eq!(samples.len() as u64, ticks);
    let imported = |row: &&Value| row["source"] == "imported";
    // How many old ticks lie before the first of ours depends on how long it took to make the two.
    let imported = samples.iter().filter(imported).count();
    assert!(
        imported % 3 == 0 && (3 * 370..=3 * 390).contains(&imported),
        "{imported}"
    );
    let own: Vec<Value> = rows("sessions")
        .into_iter()
        .filter(|row| row["source"] == "gua")
        .collect();
    // Each session of ours lies in the time of one user on one card, and the demo has no other holders than those.
    let held: f64 = own
        .iter()
        .map(|row| row["observed_us"].as_f64().unwrap())
        .sum();
    let people: Vec<Value> = rows("user-totals")
        .into_iter()
        .filter(|row| row["source"] == "gua" && !row["user"].is_null())
        .collect();
    let told: f64 = people
        .iter()
        .map(|row| row["held_us"].as_f64().unwrap())
        .sum();
    // Sessions are whole, and the window may cut the last tick of both that are open.
    assert!((held - told).abs() < 2.0 * 30e6, "{held} and {told}");
}

#[test]
fn the_statement_of_a_month_has_the_hours_of_the_report_and_of_the_exports() {
    let (home, until) = home();
    let home = home.path();
    let month = until.strftime("%Y-%m").to_string();
    let line = format!("statement --db both.db --month {month} --tz UTC --format json");
    let statement: Value = serde_json::from_str(&printed(home, &line)).unwrap();
    // The last tick of the demo stands for time that is over, so all of them see the same however late they ask.
    let window = format!("--since {month}-01 --tz UTC");
    let line = format!("report --db both.db --json {window}");
    let report: Value = serde_json::from_str(&printed(home, &line)).unwrap();
    let users = told(&report["users"], "user", &HELD);
    let mut pages = told(&statement["people"], "user", &HELD);
    // Nobody has a page for what nobody is known to have held.
    pages.insert("unknown".to_owned(), users["unknown"].clone());
    assert_equal(&pages, &users, "statement");
    let rows = of_json_lines(&printed(
        home,
        &format!("export --db both.db --what user-totals {window} --format jsonl"),
    ));
    assert_equal(
        &sums(&rows, "user", &HELD),
        &users,
        "user-totals of the month",
    );
}
