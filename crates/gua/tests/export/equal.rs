//! One window in all outputs: CSV, JSON lines, Parquet, plots and the report give the same hours and the same energy,
//! and agree on which values are missing.

use crate::without_driver;
use gua_test::TestHost;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use jiff::Timestamp;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

use super::{home, window};
use gua_test::recorded::{MINUTE, record};

/// Amounts by column, for each GPU or user. An unmeasured amount is `None`, not zero.
type Amounts = BTreeMap<String, Sums>;
type Sums = BTreeMap<&'static str, Option<f64>>;

const STATES: [&str; 4] = [
    "active_hours",
    "idle_held_hours",
    "held_unknown_hours",
    "truly_idle_hours",
];
const GPU_COLUMNS: [&str; 5] = [STATES[0], STATES[1], STATES[2], STATES[3], "energy_kwh"];
const HELD: [&str; 2] = ["held_hours", "idle_held_hours"];
const USER_COLUMNS: [&str; 4] = [HELD[0], HELD[1], "charged_hours", "energy_kwh"];

/// Adds rows up by the values of `key`; a missing key is `unknown`. A sum is `None` if all its parts are.
fn added(
    rows: &[Value],
    key: &str,
    columns: &[&'static str],
    amount: impl Fn(&Value, &str) -> Option<f64>,
) -> Amounts {
    let mut amounts = Amounts::new();
    for row in rows {
        let name = row[key].as_str().unwrap_or("unknown").to_owned();
        let sums = amounts.entry(name).or_default();
        for column in columns {
            let sum = sums.entry(column).or_default();
            let parts = sum.iter().copied().chain(amount(row, column));
            *sum = parts.reduce(|one, other| one + other);
        }
    }
    amounts
}

/// Sums of an exported table, whose columns have whole units.
fn sums(rows: &[Value], key: &str, columns: &[&'static str]) -> Amounts {
    added(rows, key, columns, |row, column| {
        let exported = match column.strip_suffix("_hours") {
            Some(column) => format!("{column}_us"),
            None => "energy_millijoules".to_owned(),
        };
        let number = match &row[exported.as_str()] {
            Value::String(text) => Some(text.parse().unwrap()),
            Value::Null => None,
            value => Some(value.as_f64().unwrap()),
        };
        // An hour has as many microseconds as a kilowatt-hour has millijoules.
        number.map(|number: f64| number / 3.6e9)
    })
}

/// Sums of the rows of a report or a plot, which have hours and kilowatt-hours. No row lacks a column.
fn displayed_sums(rows: &Value, key: &str, columns: &[&'static str]) -> Amounts {
    added(rows.as_array().unwrap(), key, columns, |row, column| {
        let found = row.get(column);
        let found = found.unwrap_or_else(|| panic!("{column} in {row}"));
        (!found.is_null()).then(|| found.as_f64().unwrap())
    })
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

/// Compares amounts. A name that only one side has must have zero amounts; a name on both sides has the same known
/// columns.
#[track_caller]
fn assert_equal(one: &Amounts, other: &Amounts, what: &str) {
    for name in one.keys().chain(other.keys()) {
        let (Some(mine), Some(theirs)) = (one.get(name), other.get(name)) else {
            let only = one.get(name).or_else(|| other.get(name)).unwrap();
            let nothing = only.values().all(|amount| amount.unwrap_or(0.0) == 0.0);
            assert!(nothing, "{what}: {name} {only:?} on one side only");
            continue;
        };
        assert!(mine.keys().eq(theirs.keys()), "{what}: {mine:?} {theirs:?}");
        for (column, amount) in mine {
            let is_equal = match (amount, theirs[column]) {
                // Reports round to six decimals, once per row.
                (Some(amount), Some(theirs)) => (amount - theirs).abs() < 1e-5,
                (amount, theirs) => *amount == theirs,
            };
            let theirs = theirs[column];
            assert!(
                is_equal,
                "{what}: {name} {column} {amount:?} and {theirs:?}"
            );
        }
    }
}

/// Rows of a table in every format.
fn forms(home: &TestHost, what: &str, window: &str) -> [(&'static str, Vec<Value>); 3] {
    let ask = |more: &str| home.fine(&format!("export --what {what} {window} {more}"));
    let csv = of_csv(&ask("--format csv"));
    let json = of_json_lines(&ask("--format jsonl"));
    ask("-o table.parquet --overwrite");
    let parquet = of_parquet(&home.path("table.parquet"));
    assert_eq!(csv.len(), json.len(), "{what} {window}");
    assert_eq!(csv.len(), parquet.len(), "{what} {window}");
    [("CSV", csv), ("JSON lines", json), ("Parquet", parquet)]
}

/// Compares every format of one window of a history, which `window` names, with its report.
fn check(home: &TestHost, window: &str) -> (Amounts, Amounts) {
    let ask = |line: &str| -> Value {
        serde_json::from_str(&home.fine(&format!("{line} {window}"))).unwrap()
    };
    let report = ask("report --json");
    let gpus = displayed_sums(&report["gpus"], "gpu_uuid", &GPU_COLUMNS);
    let users = displayed_sums(&report["users"], "user", &USER_COLUMNS);
    let drawn = displayed_sums(&report["gpus"], "gpu_uuid", &STATES);
    let held = displayed_sums(&report["users"], "user", &HELD);
    for what in ["samples", "totals"] {
        for (form, rows) in forms(home, what, window) {
            let found = sums(&rows, "gpu_uuid", &GPU_COLUMNS);
            assert_equal(&found, &gpus, &format!("{what} as {form}, {window}"));
        }
    }
    for (form, rows) in forms(home, "user-totals", window) {
        assert_equal(
            &sums(&rows, "user", &USER_COLUMNS),
            &users,
            &format!("user-totals as {form}, {window}"),
        );
    }
    // Numbers of the plots, summed over time.
    let plot = |chart: &str| ask(&format!("plot {chart} --format json"));
    let by_gpu = plot("hours --by gpu");
    assert_equal(
        &displayed_sums(&by_gpu["rows"], "gpu_uuid", &STATES),
        &drawn,
        "plot hours --by gpu",
    );
    let by_user = plot("hours --by user");
    assert_equal(
        &displayed_sums(&by_user["rows"], "user", &HELD),
        &held,
        "plot hours --by user",
    );
    let over_time = plot("--by user --per hour");
    assert_equal(
        &displayed_sums(&over_time["rows"], "user", &HELD),
        &held,
        "plot --by user --per hour",
    );
    for chart in [
        "states",
        "quiet",
        "--by gpu --per day",
        "--by gpu --per weekday-hour",
    ] {
        let rows = plot(chart)["rows"].clone();
        for state in STATES {
            let parts = rows.as_array().unwrap().iter();
            let all: f64 = parts.filter_map(|row| row[state].as_f64()).sum();
            let expected = report["totals"][state].as_f64().unwrap();
            assert!(
                (all - expected).abs() < 1e-4,
                "plot {chart}: {state} {all} of {expected}"
            );
        }
    }
    // The weekly heat map matches the report cell by cell; its week begins on Monday.
    let heat = plot("heat");
    let cells = heat["rows"].as_array().unwrap();
    for (place, cell) in cells.iter().enumerate() {
        let (day, hour) = ((place / 24 + 1) % 7, place % 24);
        assert_eq!(
            cell["active_share"],
            report["heatmap"]["active_share"][day][hour]
        );
    }
    (gpus, users)
}

#[test]
fn every_format_has_the_hours_of_the_report_for_one_window() {
    let (home, until) = home();
    // The longest window reaches into the imported rows; the shortest cuts a tick and a quarter hour.
    for minutes in [240, 100, 37] {
        let window = window(until, minutes);
        let (gpus, users) = check(&home, &format!("--db both.db {window}"));
        let is_active = |gpu: &Sums| gpu["active_hours"] > Some(0.1);
        assert!(gpus.values().any(is_active), "{gpus:?}");
        assert!(users.values().any(|user| user["charged_hours"] > Some(0.1)));
    }
}

/// Ada's GPU counts energy, the one that she shares with bob only sometimes, and eve's never.
#[test]
fn every_format_has_exactly_the_energy_that_the_report_has() {
    let home = without_driver();
    let from: Timestamp = "2026-10-05T08:00:00Z".parse().unwrap();
    record(&home.path("counted.db"), from, 180, |tick| {
        let shared: &[&str] = match tick / 50 % 2 {
            0 => &["ada", "bob"],
            _ => &["bob", "!"],
        };
        vec![(90, &["ada"]), (0, shared), (50, &["eve", "!"])]
    });
    for minutes in [180, 100, 37] {
        let window = window(from + 170 * MINUTE, minutes);
        let (gpus, users) = check(&home, &format!("--db counted.db {window}"));
        let known = |amounts: &Amounts| -> Vec<bool> {
            let is_known = |sums: &Sums| sums["energy_kwh"].is_some();
            amounts.values().map(is_known).collect()
        };
        assert_eq!(known(&gpus), [true, true, false], "{gpus:?}");
        assert_eq!(known(&users), [true, true, false], "{users:?}");
    }
}

#[test]
fn samples_totals_and_sessions_of_the_whole_history_agree() {
    let (home, until) = home();
    let window = window(until, 600);
    let rows = |what: &str| {
        of_json_lines(&home.fine(&format!(
            "export --db both.db --what {what} {window} --format jsonl"
        )))
    };
    let samples = rows("samples");
    let ticks: u64 = rows("totals")
        .iter()
        .map(|row| row["ticks"].as_u64().unwrap())
        .sum();
    assert_eq!(samples.len() as u64, ticks);
    let imported = |row: &&Value| row["source"] == "imported";
    // The number of old ticks before our first depends on how long it took to create the two.
    let imported = samples.iter().filter(imported).count();
    assert!(
        imported % 3 == 0 && (3 * 370..=3 * 390).contains(&imported),
        "{imported}"
    );
    let own: Vec<Value> = rows("sessions")
        .into_iter()
        .filter(|row| row["source"] == "gua")
        .collect();
    // Each session of ours lies within the time of one user on one GPU, and the demo has no other holders.
    let held: f64 = own
        .iter()
        .map(|row| row["observed_us"].as_f64().unwrap())
        .sum();
    let people: Vec<Value> = rows("user-totals")
        .into_iter()
        .filter(|row| row["source"] == "gua" && !row["user"].is_null())
        .collect();
    let session_total: f64 = people
        .iter()
        .map(|row| row["held_us"].as_f64().unwrap())
        .sum();
    // Sessions are not clipped, and the window can cut the last tick of both open ones.
    assert!(
        (held - session_total).abs() < 2.0 * 30e6,
        "{held} and {session_total}"
    );
}

#[test]
fn the_statement_of_a_month_has_the_hours_of_the_report_and_of_the_exports() {
    let (home, until) = home();
    let month = until.strftime("%Y-%m").to_string();
    let line = format!("statement --db both.db --month {month} --tz UTC --format json");
    let statement: Value = serde_json::from_str(&home.fine(&line)).unwrap();
    // The last tick of the demo covers time that has passed, so every command sees the same data.
    let window = format!("--since {month}-01 --tz UTC");
    let line = format!("report --db both.db --json {window}");
    let report: Value = serde_json::from_str(&home.fine(&line)).unwrap();
    let users = displayed_sums(&report["users"], "user", &USER_COLUMNS);
    let mut pages = displayed_sums(&statement["people"], "user", &USER_COLUMNS);
    // No user has a page for hours without a known owner.
    if let Some(unknown) = users.get("unknown") {
        pages.insert("unknown".to_owned(), unknown.clone());
    }
    assert_equal(&pages, &users, "statement");
    let rows = of_json_lines(&home.fine(&format!(
        "export --db both.db --what user-totals {window} --format jsonl"
    )));
    assert_equal(
        &sums(&rows, "user", &USER_COLUMNS),
        &users,
        "user-totals of the month",
    );
}
