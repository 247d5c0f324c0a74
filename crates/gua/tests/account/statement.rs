//! Monthly statements: the same numbers as the report, the same in every format, and balanced books.

use jiff::{SignedDuration, Timestamp};
use roxmltree::{Document, ParsingOptions};
use serde_json::Value;

use crate::host;
use gua_test::TestHost;
use gua_test::recorded::{Card, record, set_first_seen};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// October 2026: ada on the first GPU for ten hours, with bob on the second for half of them; then twelve hours without
/// a collector; then a process with an unknown owner, a busy GPU without a process, and bob with almost no memory.
fn october() -> TestHost {
    let host = host("");
    let db = host.path(".gua/gua.db");
    record(&db, at("2026-10-05T08:00:00Z"), 600, |tick| match tick {
        ..300 => vec![(90, &["ada"]), (0, &["ada", "bob"])],
        _ => vec![(90, &["ada"]), (0, &[])],
    });
    record(&db, at("2026-10-06T06:00:00Z"), 180, |tick| match tick {
        ..60 => vec![(0, &["?"]), (90, &[])],
        _ => vec![(0, &["bob~"]), (0, &[])],
    });
    host
}

fn statement(host: &TestHost, rest: &str) -> Value {
    let output = host.fine(&format!("statement --month 2026-10 --tz UTC --json {rest}"));
    serde_json::from_str(&output).unwrap()
}

fn hours(value: &Value, key: &str) -> f64 {
    value[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} in {value}"))
}

#[track_caller]
fn near(one: f64, other: f64) {
    assert!((one - other).abs() < 1e-5, "{one} {other}");
}

#[test]
fn charged_unowned_free_and_gap_hours_add_up_to_capacity() {
    let host = october();
    let statement = statement(&host, "");
    let balance = &statement["balance"];
    assert_eq!(balance["capacity_less_parts_microseconds"], 0);
    let part = |key| hours(balance, key);
    // Ada: ten hours plus half of five. Bob: half of five. His two hours with almost no memory are free.
    near(part("people_charged_hours"), 15.0);
    near(part("unowned_hours"), 1.0 + 1.0);
    near(part("free_hours"), 5.0 + 2.0 + 2.0);
    // Capacity counts from the first sample of a GPU to the end of the month.
    let capacity = 2.0 * (26.0 * 24.0 + 16.0);
    near(part("capacity_hours"), capacity);
    near(part("gap_hours"), capacity - 15.0 - 2.0 - 9.0);
    let people = statement["people"].as_array().unwrap();
    let charged: f64 = people
        .iter()
        .map(|person| hours(person, "charged_hours"))
        .sum();
    near(charged, part("people_charged_hours"));
}

#[test]
fn the_books_balance_for_any_sequence_of_states() {
    const PEOPLE: [&[&str]; 8] = [
        &[],
        &["ada"],
        &["ada", "bob"],
        &["?"],
        &["ada", "?"],
        &["bob~"],
        &["ada~", "eve", "?"],
        &[],
    ];
    for seed in 1..5_u64 {
        let host = host("");
        let db = host.path(".gua/gua.db");
        // A linear congruential generator with a fixed seed (Knuth's constants), so every run is the same.
        let number = |place: u64| {
            (place + seed * 1000)
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407)
                >> 40
        };
        let mut from = at("2026-09-30T20:00:00Z");
        for run in 0..4_u32 {
            record(&db, from, 100 + run * 37, |tick| {
                let gpu = |gpu: u64| -> Card<'_> {
                    let place = u64::from(tick / 7 + run * 999) * 5 + gpu;
                    let util = [0, 5, 50, 100][usize::try_from(number(place) % 4).unwrap()];
                    (
                        util,
                        PEOPLE[usize::try_from(number(place + 1) % 8).unwrap()],
                    )
                };
                vec![gpu(0), gpu(1), gpu(2)]
            });
            from += SignedDuration::from_mins(i64::from(100 + run * 37) + 11 * i64::from(run));
        }
        let statement = statement(&host, "");
        assert_eq!(
            statement["balance"]["capacity_less_parts_microseconds"], 0,
            "{seed}"
        );
        assert_eq!(statement["balance"]["old_rows_hours"], 0.0, "{seed}");
        let keys = [
            "people_charged_hours",
            "unowned_hours",
            "free_hours",
            "gap_hours",
        ];
        let sum: f64 = keys
            .iter()
            .map(|key| hours(&statement["balance"], key))
            .sum();
        near(sum, hours(&statement["balance"], "capacity_hours"));
        assert!(
            keys.iter()
                .all(|key| hours(&statement["balance"], key) > 0.0),
            "{statement}"
        );
    }
}

/// A process with almost no memory leaves its GPU truly idle, and so it is charged to nobody. A GPU can be busy without any
/// process. The two are not confused, although they last equally long.
#[test]
fn unowned_time_is_counted_and_not_derived_as_the_remainder() {
    let host = host("");
    let db = host.path(".gua/gua.db");
    record(&db, at("2026-10-05T08:00:00Z"), 120, |tick| match tick {
        ..60 => vec![(0, &["bob~"])],
        _ => vec![(90, &[])],
    });
    let balance = statement(&host, "")["balance"].clone();
    assert_eq!(balance["capacity_less_parts_microseconds"], 0);
    near(hours(&balance, "people_charged_hours"), 0.0);
    near(hours(&balance, "unowned_hours"), 1.0);
    near(hours(&balance, "free_hours"), 1.0);
}

#[test]
fn unmeasured_energy_is_missing_in_every_format() {
    let host = host("");
    let db = host.path(".gua/gua.db");
    record(&db, at("2026-10-05T08:00:00Z"), 60, |_| {
        vec![(90, &["ada"]), (90, &["eve", "!"])]
    });
    host.fine("quota set --everyone --energy 50kWh --per month");
    let window = "--since 2026-10-01 --until 2026-11-01 --tz UTC";
    let parse = |output: String| -> Value { serde_json::from_str(&output).unwrap() };
    let report = parse(host.fine(&format!("report --json {window}")));
    let statement = statement(&host, "");
    let exported = host.fine(&format!(
        "export --what user-totals --format jsonl {window}"
    ));
    let exported: Vec<Value> = exported
        .lines()
        .map(|line| parse(line.to_owned()))
        .collect();
    for (name, is_known) in [("ada", true), ("eve", false)] {
        let of = |rows: &Value| -> Value {
            let mut rows = rows.as_array().unwrap().iter();
            rows.find(|row| row["user"] == name).unwrap().clone()
        };
        let person = of(&statement["people"]);
        let known = [
            !of(&report["users"])["energy_kwh"].is_null(),
            !person["energy_kwh"].is_null(),
            !person["quotas"][0]["used"].is_null(),
            exported
                .iter()
                .any(|row| row["user"] == name && !row["energy_millijoules"].is_null()),
        ];
        assert_eq!(known, [is_known; 4], "{name}: {person}");
    }
    let text = host.fine("statement --month 2026-10 --tz UTC --user eve");
    assert!(
        text.contains("energy at most 50.000 kWh a month, not measured"),
        "{text}"
    );
}

#[test]
fn unobserved_days_and_hours_are_not_zero() {
    let host = host("");
    let db = host.path(".gua/gua.db");
    let gpu = |_: u32| -> Vec<Card<'_>> { vec![(90, &["ada"])] };
    // One process across a month boundary, and two gaps of twelve hours without a collector.
    record(&db, at("2026-09-30T22:00:00Z"), 180, gpu);
    record(&db, at("2026-10-01T13:00:00Z"), 120, gpu);
    record(&db, at("2026-10-04T13:00:00Z"), 60, |_| vec![(0, &[])]);
    let statement = statement(&host, "");
    let person = &statement["people"][0];
    let sessions = person["biggest_sessions"].as_array().unwrap();
    let observed: f64 = sessions.iter().map(|session| hours(session, "hours")).sum();
    near(observed, hours(person, "held_hours"));
    near(observed, 1.0 + 2.0);
    let days = person["days"].as_array().unwrap();
    let held = |place: usize| days[place]["held_hours"].as_f64();
    assert_eq!(
        [held(0), held(1), held(2), held(3), held(4)],
        [Some(3.0), None, None, Some(0.0), None]
    );
    assert_eq!((days.len(), &days[1]["charged_hours"]), (31, &Value::Null));
    let text = host.fine("statement --month 2026-10 --tz UTC");
    assert!(
        text.contains("  10-01                            3.00       -       -    0.00\n"),
        "{text}"
    );
    let page = host.fine("statement --month 2026-10 --tz UTC --format html");
    assert_eq!(
        page.matches("data-unobserved=\"true\"").count(),
        29,
        "{page}"
    );
    // The CSS class of text for screen readers marks days that existed but were not observed.
    assert!(!page.contains("class=\"unseen\""), "{page}");
    assert!(page.contains("not observed"), "{page}");
}

#[test]
fn every_number_matches_the_report() {
    let host = october();
    for zone in ["UTC", "Asia/Kolkata"] {
        let output = host.fine(&format!("statement --month 2026-10 --json --tz {zone}"));
        let statement: Value = serde_json::from_str(&output).unwrap();
        let output = host.fine(&format!(
            "report --since 2026-10-01 --until 2026-11-01 --by user --json --tz {zone}"
        ));
        let report: Value = serde_json::from_str(&output).unwrap();
        let rows = report["by"]["rows"].as_array().unwrap();
        let people = statement["people"].as_array().unwrap();
        assert_eq!(people.len(), 2, "{statement}");
        for person in people {
            let row = rows
                .iter()
                .find(|row| row["user"] == person["user"])
                .unwrap();
            for key in [
                "held_hours",
                "idle_held_hours",
                "charged_hours",
                "energy_kwh",
            ] {
                assert_eq!(person[key], row[key], "{key} of {}", person["user"]);
            }
            near(
                hours(person, "used_hours"),
                hours(row, "held_hours")
                    - hours(row, "idle_held_hours")
                    - hours(person, "held_free_hours"),
            );
            // bob's process of 20 MB is on an idle GPU for two hours.
            let free = if person["user"] == "bob" { 2.0 } else { 0.0 };
            near(hours(person, "held_free_hours"), free);
            let days = person["days"].as_array().unwrap();
            let by_day = days.iter().filter_map(|day| day["held_hours"].as_f64());
            let by_day: f64 = by_day.sum();
            near(by_day, hours(person, "held_hours"));
        }
        let coverage = &report["coverage"];
        for (own, theirs) in [
            ("capacity_hours", "capacity_hours"),
            ("gap_hours", "gap_hours"),
        ] {
            assert_eq!(statement["balance"][own], coverage[theirs], "{own}");
        }
    }
}

#[test]
fn html_and_text_have_the_same_numbers_and_a_page_for_each_person() {
    let host = october();
    host.fine("quota set --user ada --charged 5h --held 100h --per month");
    host.fine("quota set --everyone --idle-held 1h --per week");
    let json = statement(&host, "");
    let page = host.fine("statement --month 2026-10 --tz UTC --format html");
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(&page, options).unwrap();
    let articles: Vec<_> = document
        .descendants()
        .filter(|node| node.has_tag_name("article"))
        .collect();
    assert_eq!(articles.len(), 2);
    for (article, person) in articles.iter().zip(json["people"].as_array().unwrap()) {
        let value = |key: &str| -> f64 {
            let found = article
                .descendants()
                .find(|node| node.attribute("data-key") == Some(key));
            let found = found.and_then(|node| node.attribute("value"));
            found.unwrap_or_else(|| panic!("{key}")).parse().unwrap()
        };
        for key in [
            "held_hours",
            "used_hours",
            "idle_held_hours",
            "charged_hours",
            "energy_kwh",
        ] {
            near(value(key), hours(person, key));
        }
        let parts = [
            "charged_hours",
            "others_hours",
            "unowned_hours",
            "free_hours",
            "gap_hours",
        ];
        near(
            parts.iter().map(|key| value(key)).sum(),
            value("capacity_hours"),
        );
    }
    let text = host.fine("statement --month 2026-10 --tz UTC");
    assert_eq!(text.matches("Statement for October 2026: ").count(), 2);
    assert!(
        text.contains("ada 12.50 + other people 2.50 + unowned 2.00 + free 9.00 + gap "),
        "{text}"
    );
    assert!(
        text.contains("= capacity 1280.00 GPU-hours (exact to the microsecond; rounded here)\n"),
        "{text}"
    );
    // Her monthly limits only; a weekly limit does not belong on a monthly statement.
    assert!(
        text.contains("charged 12.50 of 5.00 h a month, OVER\n"),
        "{text}"
    );
    assert!(
        text.contains("held 15.00 of 100.00 h a month, 85.00 left\n"),
        "{text}"
    );
    assert!(!text.contains("idle-held 5.00 of"), "{text}");
    assert!(
        page.contains("charged 12.50 of 5.00 h a month, OVER"),
        "{page}"
    );
}

#[test]
fn a_statement_for_one_user_names_nobody_else() {
    let host = october();
    for form in ["text", "html", "json"] {
        let output = host.fine(&format!(
            "statement --month 2026-10 --user ada --format {form}"
        ));
        assert!(
            output.contains("ada") && !output.contains("bob"),
            "{form}: {output}"
        );
    }
    let ended = host.gua("statement --month 2026-10 --user zoe");
    assert_eq!(ended.code, 2);
    assert!(
        ended.stderr.contains("no user `zoe` in this history"),
        "{ended:?}"
    );
}

#[test]
fn an_empty_month_and_the_current_month_say_so() {
    let host = october();
    let text = host.fine("statement --month 2026-08 --tz UTC");
    let nothing = "nothing was observed";
    assert!(text.contains(nothing), "{text}");
    assert!(!text.contains("nobody held"), "{text}");
    // The month is before the history, so there were no GPUs that could lack a counter.
    let month = gua_probe::clock::now().strftime("%Y-%m").to_string();
    let later =
        format!("after the month of this statement; current month: gua statement --month {month}");
    assert!(text.contains("the history begins 2026-10-"), "{text}");
    assert!(text.contains(&later), "{text}");
    for absent in ["energy counter", "0 GPUs", "not the capacity"] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
    let page = host.fine("statement --month 2026-08 --format html");
    assert!(page.contains(nothing), "{page}");
    let text = host.fine(&format!("statement --month {month} --tz UTC"));
    assert!(text.contains("Note: the month is not over"), "{text}");
    for (line, words) in [
        ("statement --month 2999-01", "has not begun yet"),
        (
            "statement --month october",
            "is not a month; write it like 2026-10",
        ),
        (
            "statement --db nowhere.db",
            "there is no history at `nowhere.db`",
        ),
        ("statement --month 2026-10 --format pdf", "invalid value"),
    ] {
        let ended = host.gua(line);
        assert_eq!(ended.code, 2, "{line}: {ended:?}");
        assert!(ended.stderr.contains(words), "{line}: {ended:?}");
    }
}

#[test]
fn a_history_that_does_not_balance_is_a_warning_and_can_be_repaired() {
    let host = host("");
    let db = host.path(".gua/gua.db");
    let cards = |_| vec![(90, &["ada"][..])];
    record(&db, at("2026-10-05T08:00:00Z"), 60, cards);
    let whole = host.fine("statement --month 2026-10 --tz UTC");
    set_first_seen(&db, at("2031-01-01T00:00:00Z"));
    for line in [
        "report --since 2026-10-05 --until 2026-10-06 --tz UTC",
        "statement --month 2026-10 --tz UTC",
        "plot hours --since 2026-10-05 --until 2026-10-06 --tz UTC --format text",
    ] {
        for (strict, code) in [("", 0), (" --strict", 1)] {
            let ended = host.gua(&format!("{line}{strict}"));
            assert_eq!(ended.code, code, "{line}{strict}: {ended:?}");
            assert!(
                ended.stderr.contains("warning: left out"),
                "{line}: {ended:?}"
            );
            assert!(ended.stderr.contains("gua db repair"), "{line}: {ended:?}");
            assert!(!ended.stdout.is_empty(), "{line}: {ended:?}");
        }
    }
    host.fine("quota set --everyone --held 3h --per 1000d");
    for (line, code) in [("quota show", 0), ("quota show --strict", 1)] {
        let ended = host.gua(line);
        assert_eq!(ended.code, code, "{line}: {ended:?}");
        assert!(
            ended.stderr.contains("warning: left out"),
            "{line}: {ended:?}"
        );
    }
    let found = host.gua("db check");
    assert_eq!(found.code, 1, "{found:?}");
    assert!(
        found
            .stdout
            .contains("is stored as first seen at 2031-01-01")
    );
    assert!(host.fine("db repair").contains("corrected: GPU-"));
    assert!(host.fine("db check").contains("60 ticks"));
    let again = host.gua("statement --month 2026-10 --tz UTC --strict");
    assert_eq!((again.code, again.stderr.as_str()), (0, ""));
    let lines = |text: &str| text.lines().count();
    assert_eq!(lines(&again.stdout), lines(&whole));
}
