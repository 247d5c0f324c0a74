//! One report in four formats: for every window and table, text, JSON, CSV and HTML have the same sums.

use crate::without_driver;
use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::Value;

/// Sums by column.
type Sums = BTreeMap<String, f64>;

fn can_be_added(key: &str) -> bool {
    key.ends_with("hours") || key == "energy_kwh" || key == "samples"
}

fn of_csv(csv: &str) -> Sums {
    let mut lines = csv.lines();
    let keys: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mut sums = Sums::new();
    for line in lines {
        for (key, cell) in keys.iter().zip(line.split(',')) {
            add(&mut sums, key, cell.parse().ok());
        }
    }
    sums
}

fn of_json(json: &str) -> Sums {
    let json: Value = serde_json::from_str(json).unwrap();
    let mut sums = Sums::new();
    for row in json["by"]["rows"].as_array().unwrap() {
        for (key, cell) in row.as_object().unwrap() {
            add(&mut sums, key, cell.as_f64());
        }
    }
    sums
}

/// Sums of the exact values in the page, and sums of the displayed ones.
fn of_html(page: &str) -> (Sums, Sums) {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(page, options).unwrap();
    let table = document
        .descendants()
        .find(|node| node.attribute("id") == Some("by-table"))
        .unwrap();
    let keys: Vec<&str> = table
        .descendants()
        .filter_map(|node| node.attribute("data-key"))
        .collect();
    let (mut exact, mut shown) = (Sums::new(), Sums::new());
    let rows = table.descendants().filter(|node| node.has_tag_name("tr"));
    for row in rows {
        let cells: Vec<Node<'_, '_>> = row
            .children()
            .filter(|cell| cell.has_tag_name("td"))
            .collect();
        for (key, cell) in keys.iter().zip(cells) {
            add(
                &mut exact,
                key,
                cell.attribute("data-value")
                    .and_then(|value| value.parse().ok()),
            );
            add(
                &mut shown,
                key,
                cell.text().and_then(|text| text.parse().ok()),
            );
        }
    }
    (exact, shown)
}

/// Sums of the lines of each table. Users and GPUs that have their own columns are in separate tables, each with the
/// hour first, and the GPU tables after the one for all GPUs.
fn of_text(text: &str, keys: &[&str]) -> Sums {
    let starts = |key: &&str, start: &str| key.starts_with(start);
    let all: Vec<&str> = keys
        .iter()
        .copied()
        .filter(|key| !key.contains(' '))
        .collect();
    let people = keys.iter().filter(|key| starts(key, "held_hours "));
    let people: Vec<&str> = keys.iter().take(1).chain(people).copied().collect();
    let mut sums = of_lines(text, &all);
    if people.len() > 1 {
        sums.extend(of_lines(text, &people));
    }
    sums
}

/// Sums of a table's lines, whose columns are at least two blanks apart and in the order of the CSV.
fn of_lines(text: &str, keys: &[&str]) -> Sums {
    let fields = |line: &str| -> Vec<String> {
        let parts = line.trim().split("  ").map(str::trim);
        parts
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let rows = text
        .lines()
        .map(fields)
        .filter(|fields| fields.len() == keys.len());
    let mut sums = Sums::new();
    for row in rows.skip(1) {
        for (key, cell) in keys.iter().zip(&row) {
            add(&mut sums, key, cell.parse().ok());
        }
    }
    sums
}

fn add(sums: &mut Sums, key: &str, value: Option<f64>) {
    if let Some(value) = value.filter(|_| can_be_added(key)) {
        *sums.entry(key.to_owned()).or_default() += value;
    }
}

fn assert_equal(one: &Sums, other: &Sums, within: f64, what: &str) {
    for (key, value) in one {
        let Some(found) = other.get(key) else {
            // A page leaves out an empty column.
            assert!(*value == 0.0, "{what}: {key} is missing");
            continue;
        };
        assert!(
            (value - found).abs() <= within,
            "{what} {key}: {value} and {found}"
        );
    }
}

#[test]
fn four_formats_have_the_same_sums_for_every_window_and_table() {
    let home = without_driver();
    home.fine("demo --db demo.db --interval 30s --ticks 400");
    // The demo ended a moment ago: with a fixed end, every report covers the same time.
    let json: Value =
        serde_json::from_str(&home.fine("report --db demo.db --json --tz UTC")).unwrap();
    let until: Timestamp = json["made_at"].as_str().unwrap().parse().unwrap();
    let moment = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    for minutes in [240, 37, 100, 1440] {
        let since = moment(until - SignedDuration::from_mins(minutes));
        let window = format!("--since {since} --until {}", moment(until));
        for by in ["user", "gpu", "day", "hour", "week", "month", "state"] {
            let ask = |more: &str| {
                let line = format!("report --db demo.db --tz UTC {window} --by {by}{more}");
                home.fine(&line)
            };
            let lines = ask(" --csv");
            let csv = of_csv(&lines);
            let keys: Vec<&str> = lines.lines().next().unwrap().split(',').collect();
            let what = format!("{window} by {by}");
            assert!(!csv.is_empty(), "{what}");
            assert_equal(&csv, &of_json(&ask(" --json")), 1e-9, &what);
            assert_equal(&csv, &of_text(&ask(""), &keys), 24.0 * 0.005, &what);
            for language in ["en", "ko"] {
                let (exact, shown) = of_html(&ask(&format!(" --format html --lang {language}")));
                assert_equal(&csv, &exact, 1e-9, &what);
                assert_equal(&csv, &shown, 24.0 * 0.005, &what);
            }
        }
    }
}
