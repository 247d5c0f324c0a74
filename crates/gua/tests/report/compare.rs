//! `--compare`, `[[price]]`, and rows by group in plots and exports, on the month of the demo.

use gua_model::demo::month::Month;
use gua_test::{TestHost, schema};
use jiff::Timestamp;
use serde_json::Value;

use crate::after_the_month;

/// A host with this configuration.
fn configured(config: &str) -> TestHost {
    let home = after_the_month();
    std::fs::write(home.path(".gua/config.toml"), config).unwrap();
    home
}

fn number(value: &Value) -> f64 {
    let number = value.as_f64();
    number.unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn a_report_is_compared_with_the_period_before() {
    let home = after_the_month();
    let line = "report --since 2026-10-19 --until 2026-10-26 --tz UTC";
    let json = home.json(&format!("{line} --compare --json"));
    let previous = &json["previous"];
    assert_eq!(previous["window"]["from"], "2026-10-12T00:00:00Z");
    assert_eq!(previous["window"]["to"], "2026-10-19T00:00:00Z");
    // The same numbers as the report of that week.
    let before = home.json("report --since 2026-10-12 --until 2026-10-19 --tz UTC --json");
    for part in ["totals", "coverage", "gpus", "users"] {
        assert_eq!(previous[part], before[part], "{part}");
    }
    assert_eq!(
        home.json(&format!("{line} --json"))["previous"],
        Value::Null
    );
    let text = home.fine(&format!("{line} --compare"));
    let title = "§13 Compared with 2026-10-12 00:00 – 2026-10-19 00:00";
    assert!(text.contains(title), "{text}");
    let row = text.split_once(title).unwrap().1;
    let row = row.lines().find(|line| line.contains("idle-held")).unwrap();
    let share = |json: &Value| format!("{:.1}%", number(&json["idle_held_share"]) * 100.0);
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        cells[1..3],
        [share(&previous["totals"]), share(&json["totals"])]
    );
    let csv = home.fine(&format!("{line} --compare --by user --csv"));
    let (head, rows) = csv.split_once('\n').unwrap();
    let keys: Vec<&str> = head.split(',').collect();
    let place = |key: &str| keys.iter().position(|known| *known == key).unwrap();
    let ada = rows.lines().find(|row| row.starts_with("ada,")).unwrap();
    let ada: Vec<&str> = ada.split(',').collect();
    let of_ada = |json: &Value| {
        let users = json["users"].as_array().unwrap();
        number(&users.iter().find(|user| user["user"] == "ada").unwrap()["held_hours"])
    };
    assert_eq!(ada[place("held_hours")].parse(), Ok(of_ada(&json)));
    assert_eq!(
        ada[place("previous_held_hours")].parse(),
        Ok(of_ada(previous))
    );
    let page = home.fine(&format!("{line} --compare --format html"));
    assert!(page.contains("id=\"compare-table\""), "{page}");
}

#[test]
fn an_earlier_period_without_data_is_missing_and_not_zero() {
    let home = after_the_month();
    let compared = |since: &str, until: &str| {
        let line = format!("report --since {since} --until {until} --tz UTC --compare");
        let text = home.fine(&line);
        let (_, section) = text.split_once("§13 ").unwrap();
        let cells = |name: &str| {
            let row = section
                .lines()
                .find(|row| row.trim_start().starts_with(name));
            let cells = row.unwrap().trim_start().strip_prefix(name).unwrap();
            cells
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        (cells("held GPU-hours"), cells("ada"), section.to_owned())
    };
    // The history begins on 30 September.
    let (held, ada, section) = compared("2026-09-28", "2026-10-05");
    for row in [held, ada] {
        assert_eq!([&row[0], &row[2]], ["-", "-"], "{section}");
        assert!(row[1].parse::<f64>().unwrap() > 0.0, "{section}");
    }
    let nothing = "Nothing was observed in the earlier period.";
    assert!(section.contains(nothing), "{section}");
    let (held, _, section) = compared("2026-10-01", "2026-10-08");
    assert!(held[0].parse::<f64>().unwrap() > 0.0, "{section}");
    assert!(held[2].starts_with('+'), "{section}");
    let less = "The earlier period was observed for 5 % of its time";
    assert!(section.contains(less), "{section}");
    let (.., section) = compared("2026-10-19", "2026-10-26");
    assert!(!section.contains("arlier period"), "{section}");
    let previous = |since: &str, until: &str| {
        let line = format!("report --since {since} --until {until} --tz UTC --compare --json");
        let json = home.fine(&line);
        schema::check("gua.report.v1", &json);
        serde_json::from_str::<Value>(&json).unwrap()["previous"].clone()
    };
    let unobserved = previous("2026-09-28", "2026-10-05");
    assert_eq!(unobserved["totals"], Value::Null, "{unobserved}");
    assert_eq!(unobserved["users"], Value::Array(Vec::new()));
    let observed = previous("2026-10-19", "2026-10-26");
    assert!(number(&observed["totals"]["held_hours"]) > 0.0);
}

#[test]
fn a_period_that_was_observed_much_less_than_the_earlier_one_is_named() {
    let home = after_the_month();
    let section = |since: Timestamp, until: Timestamp| {
        let text = home.fine(&format!(
            "report --since {since} --until {until} --tz UTC --compare"
        ));
        text.split_once("§13 ").unwrap().1.to_owned()
    };
    let outage = Month::before(Month::END).outage();
    let text = section(outage.from, outage.to);
    assert!(
        text.contains("Nothing was observed in this period."),
        "{text}"
    );
    let length = outage.to.duration_since(outage.from);
    let text = section(outage.from - length, outage.to);
    let less = "observed for 100 % of its time, this one for 50 %";
    assert!(text.contains(less), "{text}");
}

#[test]
fn prices_by_model_and_period_give_the_costs_of_reports() {
    let home = configured(
        "[[price]]\nper_gpu_hour = \"3 EUR\"\nmodel = \"*A100*\"\nuntil = \"2026-10-20\"\n\
         [[price]]\nper_gpu_hour = \"2 EUR\"\nmodel = \"*A100*\"\n\
         [[price]]\nper_gpu_hour = \"0.50 EUR\"\n",
    );
    home.fine("config check");
    let line = "report --since 2026-10-12 --until 2026-10-26 --tz UTC --json";
    let json = home.json(line);
    // The same by hand: hours of each GPU in both periods, at the price of its model.
    let mut expected = 0.0;
    for (from, until, a100) in [
        ("2026-10-12", "2026-10-20", 3.0),
        ("2026-10-20", "2026-10-26", 2.0),
    ] {
        let part = format!("report --since {from} --until {until} --tz UTC --json");
        let json = home.json(&part);
        for gpu in json["gpus"].as_array().unwrap() {
            let hours = ["active_hours", "idle_held_hours", "held_unknown_hours"];
            let held: f64 = hours.iter().map(|key| number(&gpu[key])).sum();
            let is_a100 = gpu["gpu_name"].as_str().unwrap().contains("A100");
            expected += held * if is_a100 { a100 } else { 0.5 };
        }
    }
    let cost = &json["costs"][0];
    assert_eq!(cost["currency"], "EUR");
    assert!((number(&cost["held"]) - expected).abs() < 0.01, "{cost}");
    assert_eq!(number(&json["unpriced_hours"]), 0.0);
    // People pay for their charged hours, which add up to the time of the GPUs except what nobody can be charged for.
    let people = cost["users"].as_array().unwrap().iter();
    let people: f64 = people.map(|user| number(&user["charged"])).sum();
    assert!(
        people > 0.9 * expected && people <= expected + 0.01,
        "{people} of {expected}"
    );
    let text = home.fine("report --since 7d");
    assert!(
        text.contains("§12 Costs\n  GPU time that was held cost "),
        "{text}"
    );
    let csv = home.fine("report --since 7d --by user --csv");
    assert!(csv.lines().next().unwrap().ends_with(",cost_eur"), "{csv}");
    let page = home.fine("report --since 7d --format html");
    assert!(page.contains("id=\"costs-table\""), "{page}");
}

#[test]
fn a_statement_shows_what_the_charged_hours_cost() {
    let home = configured("[[price]]\nper_gpu_hour = \"36000 JPY\"\n");
    home.fine("demo --db demo.db --ticks 60");
    let line = "statement --db demo.db --month 2026-10";
    let json = home.json(&format!("{line} --json"));
    schema::check("gua.statement.v1", &json.to_string());
    for person in json["people"].as_array().unwrap() {
        let hours = number(&person["charged_hours"]);
        let cost = &person["costs"][0];
        assert_eq!(cost["currency"], "JPY");
        let difference = number(&cost["charged"]) - hours * 36_000.0;
        // Hours have six decimals.
        assert!(difference.abs() < 0.05, "{person}");
    }
    let text = home.fine(line);
    assert!(
        text.contains("\n  cost ") && text.contains(" JPY\n"),
        "{text}"
    );
    let page = home.fine(&format!("{line} --format html"));
    assert!(page.contains(" JPY"), "{page}");
}

const GROUPS: &str = "[[group]]\nname = \"vision\"\nmembers = [\"ada\", \"bob\"]\n\
                      [[group]]\nname = \"serving\"\nmembers = [\"container:*\"]\n\
                      [[group]]\nname = \"mars\"\nkind = \"project\"\nmembers = [\"ada\"]\n";

#[test]
fn plots_have_rows_of_groups_projects_jobs_pods_and_containers() {
    let home = configured(GROUPS);
    for by in ["group", "project", "job", "container"] {
        let report = home.fine(&format!("report --since 7d --by {by} --csv"));
        let plot = home.fine(&format!("plot hours --since 7d --by {by} --format csv"));
        assert_eq!(plot, report, "{by}");
    }
    let svg = home.fine("plot hours --since 7d --by pod --format svg");
    assert!(svg.contains("By pod"), "{svg}");
    // Columns of time too: each group has the sum of its members.
    let hours = |by: &str, names: &[&str]| {
        let line = format!("plot heat --since 7d --per day --by {by} --format csv");
        let csv = home.fine(&line);
        let mut rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
        assert_eq!(rows.next().unwrap()[0], by);
        let rows = rows.filter(|row| names.contains(&row[0]));
        let hours = rows.map(|row| row[3].parse::<f64>().unwrap_or(0.0));
        hours.sum::<f64>()
    };
    let people = hours("user", &["ada", "bob"]);
    assert!((hours("group", &["vision"]) - people).abs() < 0.001);
    let sessions = home.fine("plot sessions --since 7d --by group --format svg");
    assert!(sessions.contains("vision"), "{sessions}");
    let refused = home.gua("plot sessions --by job");
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("`hours` alone"),
        "{}",
        refused.stderr
    );
}

#[test]
fn exports_have_the_sums_of_each_day_by_group() {
    let home = configured("[[group]]\nname = \"all\"\nmembers = [\"*\"]\n");
    home.fine("demo --db demo.db --ticks 60 --interval 1m");
    let csv = home.fine("export --db demo.db --by group");
    let mut lines = csv.lines();
    assert_eq!(
        lines.next(),
        Some("day_at,host,kind,name,ticks,held_us,idle_held_us,charged_us,energy_millijoules")
    );
    let held: u64 = lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            assert_eq!(&cells[1..4], ["demo", "group", "all"], "{line}");
            cells[5].parse::<u64>().unwrap()
        })
        .sum();
    let report = home.json("report --db demo.db --since 2h --by group --json");
    let hours = number(&report["by"]["rows"][0]["held_hours"]);
    let exported = std::time::Duration::from_micros(held).as_secs_f64() / 3600.0;
    assert!((exported - hours).abs() < 0.001, "{exported} of {hours}");
    home.fine("export --db demo.db --by container -o days.parquet");
    assert!(home.path("days.parquet").exists());
    let lines = home.fine("export --db demo.db --by job --format jsonl");
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["name"], &first["charged_us"]),
        (&"none".into(), &Value::Null)
    );
    let refused = home.gua("export --db demo.db --by group --what sessions");
    assert_eq!(refused.code, 2, "{}", refused.stderr);
}
