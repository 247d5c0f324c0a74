//! Pages of generated reports, read back by an XML parser. They stay in the build directory, so that `scripts/look` can
//! take screenshots of them.
#![cfg(test)]

mod screen;

use std::collections::BTreeMap;
use std::path::Path;

use gua_model::idle::Idle;
use gua_model::report::{Hold, Report};
use gua_model::since::{Since, Start};
use gua_model::text::sanitize;
use gua_model::{Bytes, Micros, Period, Pid};
use gua_render::chart::Language;
use gua_render::report::{By, Page, html, json::json, korean, table, text};
use gua_test::reports::{Shape, report};
use jiff::SignedDuration;
use jiff::tz::TimeZone;
use roxmltree::{Document, Node, ParsingOptions};

fn page(report: &Report, language: Language, by: Option<By>, top: usize) -> Page<'_> {
    Page {
        report,
        zone: TimeZone::UTC,
        window: "1 day".to_owned(),
        width: 60,
        top,
        by,
        language,
        version: "0.1.0",
        previous: None,
        costs: None,
        is_demo: false,
    }
}

const SHAPES: [(&str, Shape); 4] = [
    (
        "empty",
        Shape {
            gpus: 0,
            people: 0,
            days: 1,
        },
    ),
    (
        "one-gpu",
        Shape {
            gpus: 1,
            people: 2,
            days: 1,
        },
    ),
    (
        "month",
        Shape {
            gpus: 8,
            people: 12,
            days: 30,
        },
    ),
    (
        "hundred-gpus",
        Shape {
            gpus: 100,
            people: 60,
            days: 7,
        },
    ),
];

const LANGUAGES: [(&str, Language); 2] = [("en", Language::English), ("ko", Language::Korean)];

fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).unwrap()
}

#[test]
fn every_page_is_well_formed_complete_and_makes_no_network_request() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-pages");
    // The pages are kept for people to look at, unless another user's run left its own there.
    let _ = std::fs::create_dir_all(&folder);
    for (name, shape) in SHAPES {
        let report = report(shape, &TimeZone::UTC);
        for (tag, language) in LANGUAGES {
            let page = html(&page(&report, language, None, 10));
            let _ = std::fs::write(folder.join(format!("{name}-{tag}.html")), &page);
            check_page(&page, tag);
        }
    }
}

fn check_page(page: &str, language: &str) {
    let document = parsed(page);
    let root = document.root_element();
    assert_eq!(root.attribute("lang"), Some(language));
    let mut ids = std::collections::BTreeSet::new();
    for node in root.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        assert!(
            !matches!(name, "script" | "link" | "img" | "iframe" | "b"),
            "{name}"
        );
        for attribute in node.attributes() {
            assert!(
                !matches!(attribute.name(), "src" | "href" | "onload" | "onclick"),
                "{attribute:?}"
            );
        }
        if let Some(id) = node.attribute("id") {
            assert!(ids.insert(id), "id {id} occurs twice");
        }
    }
    let style: String = root
        .descendants()
        .filter(|node| node.has_tag_name("style"))
        .filter_map(|node| node.text())
        .collect();
    assert!(!style.contains("url(") && !style.contains("@import"));
}

/// Sums of each column of a table, including the row for the rest.
fn column_sums(document: &Document<'_>, id: &str) -> BTreeMap<String, f64> {
    let table = document
        .descendants()
        .find(|node| node.attribute("id") == Some(id))
        .unwrap_or_else(|| panic!("no {id}"));
    let within = |node: Node<'_, '_>, name: &str| -> Vec<String> {
        let cells = node.children().filter(|cell| cell.has_tag_name(name));
        let key = if name == "th" {
            "data-key"
        } else {
            "data-value"
        };
        cells
            .map(|cell| cell.attribute(key).unwrap_or_default().to_owned())
            .collect()
    };
    let mut rows = table.descendants().filter(|node| node.has_tag_name("tr"));
    let keys = within(rows.next().unwrap(), "th");
    let mut sums = BTreeMap::new();
    for row in rows {
        for (key, value) in keys.iter().zip(within(row, "td")) {
            if let Ok(value) = value.parse::<f64>() {
                *sums.entry(key.clone()).or_default() += value;
            }
        }
    }
    sums
}

fn assert_near(one: f64, other: f64, what: &str) {
    // Each of some hundred rows is rounded to six decimals.
    assert!((one - other).abs() < 1e-3, "{what}: {one} and {other}");
}

#[test]
fn text_json_csv_and_html_have_the_same_sums() {
    for (name, shape) in &SHAPES[1..] {
        let report = report(*shape, &TimeZone::UTC);
        for by in [By::User, By::Gpu, By::Day, By::Hour, By::State] {
            let page = page(&report, Language::English, Some(by), 5);
            let page_html = html(&page);
            let document = parsed(&page_html);
            let in_html = column_sums(&document, "by-table");
            let in_json: serde_json::Value = serde_json::from_str(&json(&page)).unwrap();
            let in_csv = gua_render::table::csv(&table(&report, by));
            let mut lines = in_csv.lines();
            let keys: Vec<&str> = lines.next().unwrap().split(',').collect();
            let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
            for (place, key) in keys.iter().enumerate().filter(|(_, key)| {
                key.ends_with("hours") || **key == "energy_kwh" || **key == "samples"
            }) {
                let csv: f64 = rows
                    .iter()
                    .filter_map(|row| row[place].parse::<f64>().ok())
                    .sum();
                let json: f64 = in_json["by"]["rows"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter_map(|row| row[*key].as_f64())
                    .sum();
                let html = in_html.get(*key).copied().unwrap_or(0.0);
                let what = format!("{name} {by:?} {key}");
                assert_near(csv, json, &what);
                assert_near(csv, html, &what);
            }
        }
        whole_page_agrees(&report);
    }
}

/// Compares the sums of the sections with those of the text and of JSON.
fn whole_page_agrees(report: &Report) {
    let page = page(report, Language::English, None, 5);
    let page_html = html(&page);
    let document = parsed(&page_html);
    let in_json: serde_json::Value = serde_json::from_str(&json(&page)).unwrap();
    let in_text = text(&page);
    let number = |key: &str| {
        let data = document
            .descendants()
            .find(|node| node.attribute("data-key") == Some(key) && node.has_tag_name("data"));
        let data = data.unwrap_or_else(|| panic!("no {key}"));
        (
            data.attribute("value").unwrap().parse::<f64>().unwrap(),
            data.text().unwrap().to_owned(),
        )
    };
    for (key, value) in [
        ("active_share", &in_json["totals"]["active_share"]),
        ("idle_held_share", &in_json["totals"]["idle_held_share"]),
        ("truly_idle_share", &in_json["totals"]["truly_idle_share"]),
        ("idle_held_hours", &in_json["totals"]["idle_held_hours"]),
        ("truly_idle_hours", &in_json["totals"]["truly_idle_hours"]),
        ("idle_held_gpus", &in_json["equivalent_gpus"]["idle_held"]),
        ("truly_idle_gpus", &in_json["equivalent_gpus"]["truly_idle"]),
        ("observed_share", &in_json["coverage"]["observed_share"]),
        ("gap_hours", &in_json["coverage"]["gap_hours"]),
        ("samples", &in_json["samples"]),
    ] {
        let (exact, shown) = number(key);
        assert_near(exact, value.as_f64().unwrap(), key);
        assert!(
            in_text.contains(&shown),
            "the text does not contain {key} {shown}"
        );
    }
    let totals = &in_json["totals"];
    let gpus = column_sums(&document, "gpus-table");
    let people = column_sums(&document, "people-table");
    let states = column_sums(&document, "energy-table");
    assert_near(
        gpus["active_hours"],
        totals["active_hours"].as_f64().unwrap(),
        "active",
    );
    assert_near(
        gpus["idle_held_hours"],
        totals["idle_held_hours"].as_f64().unwrap(),
        "idle-held",
    );
    assert_near(
        people["held_hours"],
        totals["held_hours"].as_f64().unwrap(),
        "held",
    );
    assert_near(
        people["charged_hours"],
        totals["charged_hours"].as_f64().unwrap(),
        "charged",
    );
    assert_near(
        states["energy_kwh"],
        totals["energy_kwh"].as_f64().unwrap(),
        "energy",
    );
    assert_near(
        states["hours"],
        in_json["coverage"]["capacity_hours"].as_f64().unwrap(),
        "capacity",
    );
    // The chart has the values of the table.
    let bars: f64 = document
        .descendants()
        .filter(|node| node.attribute("class") == Some("wide"))
        .filter(|node| {
            node.parent().and_then(|section| section.attribute("id")) == Some("people-chart")
        })
        .flat_map(|chart| chart.descendants())
        .filter_map(|mark| mark.attribute("data-hours")?.parse::<f64>().ok())
        .sum();
    assert!(
        (bars - people["held_hours"]).abs() < 0.5,
        "{bars} and {}",
        people["held_hours"]
    );
}

#[test]
fn user_names_are_escaped() {
    let report = report(SHAPES[2].1, &TimeZone::UTC);
    let page_html = html(&page(&report, Language::English, None, 100));
    assert!(!page_html.contains("<b>") && !page_html.contains("<nvml>"));
    let document = parsed(&page_html);
    let cells: Vec<&str> = document
        .descendants()
        .filter(|node| node.has_tag_name("td"))
        .filter_map(|node| node.text())
        .collect();
    for number in 0..12 {
        let name = sanitize(&gua_test::reports::person(number));
        assert!(cells.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn a_korean_page_has_no_english_heading() {
    let report = report(SHAPES[2].1, &TimeZone::UTC);
    let page_html = html(&page(&report, Language::Korean, None, 10));
    let document = parsed(&page_html);
    let of_labels = |node: &Node<'_, '_>| matches!(node.tag_name().name(), "h2" | "dt" | "th");
    for node in document.descendants().filter(of_labels) {
        let words: String = node
            .descendants()
            .filter(Node::is_text)
            .filter_map(|part| part.text())
            .collect();
        let known = ["GPU", "#", "util", "kWh"].contains(&words.trim());
        let korean = words.chars().any(|letter| ('가'..='힣').contains(&letter));
        assert!(known || korean, "{words}");
    }
}

#[test]
fn the_action_report_counts_the_rows_it_lists() {
    for (name, shape) in SHAPES {
        let report = report(shape, &TimeZone::UTC);
        let words = korean(&page(&report, Language::Korean, None, 10));
        if shape.gpus == 0 {
            assert!(
                words.contains("호스트  unknown (?)") && !words.contains('■'),
                "{words}"
            );
            continue;
        }
        assert!(
            words.contains(&format!("현재 점유 {}건", report.idle_now().len())),
            "{name}: {words}"
        );
        assert_eq!(words.matches("    ↳ ").count(), report.idle_now().len());
        let left = report.past_count.saturating_sub(8);
        assert_eq!(words.contains(&format!("… 외 {left}건")), left > 0);
        assert!(words.contains(&format!("현재 ({}장)", shape.gpus)));
    }
}

#[test]
fn a_page_has_no_box_for_a_holder_without_commands() {
    let mut report = report(SHAPES[1].1, &TimeZone::UTC);
    let now = report.now.as_ref().unwrap().at;
    let mut hold = report.sessions[0].clone();
    (hold.current, hold.pid) = (true, Some(Pid(4711)));
    for (minutes, boxes) in [(5, 0), (60, 1)] {
        let since = Since {
            at: now - SignedDuration::from_mins(minutes),
            start: Start::Seen,
        };
        hold.idle = Some(Idle {
            since,
            unobserved: Micros(0),
        });
        report.current = vec![hold.clone()];
        let words = html(&page(&report, Language::English, None, 10));
        assert_eq!(words.matches("<div class=\"who\">").count(), boxes);
    }
}

#[test]
fn the_table_of_idle_holders_has_the_columns_of_section_7() {
    let mut report = report(SHAPES[1].1, &TimeZone::UTC);
    let mut hold = report.sessions[0].clone();
    hold.current = true;
    hold.peak_memory = Some(Bytes(19_818_086_400));
    hold.idle = Some(Idle {
        since: Since {
            at: report.now.as_ref().unwrap().at - SignedDuration::from_hours(3),
            start: Start::Seen,
        },
        unobserved: Micros(0),
    });
    // Found at the last tick only: since when it holds the GPU is unknown.
    let mut exited = hold.clone();
    exited.owner = None;
    exited.period = Period::new(report.window.to(), report.window.to());
    (exited.last_row, exited.observed) = (Micros(0), None);
    report.current = vec![hold, exited];
    let text = text(&page(&report, Language::English, Some(By::Idle), 10));
    let lines = text.lines().skip_while(|line| !line.contains("idle for"));
    let lines: Vec<&str> = lines.take(3).map(str::trim).collect();
    assert_eq!(
        lines,
        [
            "gpu  owner    process        idle for  peak MB  held since",
            "0    김민수   python (4005)  3h00m       18900  10-31 00:00",
            "0    unknown  python (4005)  3h00m       18900  -",
        ]
    );
}

#[test]
fn no_format_proposes_to_reset_the_gpu_of_a_mig_instance() {
    let mut report = report(SHAPES[1].1, &TimeZone::UTC);
    let gpu = report.gpus[0].gpu.clone();
    let mut hold = report.sessions[0].clone();
    hold.workload = Some(Hold::EXITED.to_owned());
    hold.current = true;
    hold.pid = Some(Pid(4711));
    hold.idle = Some(Idle {
        since: Since {
            at: report.window.from(),
            start: Start::Seen,
        },
        unobserved: Micros(0),
    });
    report.current = vec![hold];
    for (parent, may_reset) in [(None, true), (Some(gpu), false)] {
        report.gpus[0].parent = parent;
        let page = page(&report, Language::English, None, 10);
        let pages = [
            text(&page),
            gua_render::report::screen(&page, 200),
            html(&page),
            korean(&page),
            json(&page),
        ];
        for words in pages {
            assert_eq!(words.contains("--gpu-reset"), may_reset, "{words}");
            assert!(!words.contains("kill 4711"), "{words}");
        }
    }
}

#[test]
fn refusals_and_their_causes_are_in_every_format() {
    let shape = Shape {
        gpus: 1,
        people: 3,
        days: 1,
    };
    let report = report(shape, &TimeZone::UTC);
    let of = |language| page(&report, language, None, 2);
    let english = text(&of(Language::English));
    assert!(
        english.contains("§11 Requests not granted at once (7)"),
        "{english}"
    );
    assert!(
        english.contains("김민수's idle-held GPU 0 blocked grace 2 times, who waited 45 min"),
        "{english}"
    );
    let action = korean(&of(Language::Korean));
    assert!(
        action.contains("■ 요청했지만 바로 받지 못한 GPU (7건)"),
        "{action}"
    );
    assert!(
        action.contains(
            "김민수의 유휴점유 GPU 0 때문에 grace 사용자가 2번 받지 못함 (기다린 시간 45분)"
        ),
        "{action}"
    );
    assert!(action.contains("… 외 1건"), "{action}");
    for (_, language) in LANGUAGES {
        let page = html(&of(language));
        let sums = column_sums(&parsed(&page), "in-vain-table");
        assert_near(sums["times"], 6.0, "times");
        assert_near(sums["waited_hours"], 2.25, "waited");
    }
}

#[test]
fn every_filled_part_of_a_page_has_a_colour() {
    for (name, shape) in SHAPES {
        let report = report(shape, &TimeZone::UTC);
        let page = html(&page(&report, Language::English, None, 10));
        for part in page.split("class=\"f-").skip(1) {
            let class = part.split(['"', ' ']).next().unwrap();
            let rule = format!(".gua-chart .f-{class}{{fill:");
            assert!(page.contains(&rule), "{name}: no colour for f-{class}");
        }
    }
}

/// Parts of a page that people read first, and those that a phone needs.
#[test]
fn a_page_begins_with_what_is_idle_now_folds_details_and_has_captions() {
    for (name, shape) in SHAPES {
        let report = report(shape, &TimeZone::UTC);
        for (_, language) in LANGUAGES {
            let text = html(&page(&report, language, None, 10));
            let document = parsed(&text);
            let named = |tag: &'static str| {
                let nodes = document.descendants();
                nodes.filter(move |node| node.has_tag_name(tag))
            };
            for table in named("table") {
                let captions = table.children().filter(|node| node.has_tag_name("caption"));
                assert_eq!(captions.count(), 1, "{name}: {:?}", table.attribute("id"));
                let around = table.parent().and_then(|parent| parent.attribute("class"));
                assert_eq!(around, Some("scroll"), "{name}");
            }
            let ids: Vec<&str> = named("section")
                .filter_map(|node| node.attribute("id"))
                .collect();
            if shape.gpus == 0 {
                continue;
            }
            assert_eq!(ids[0], "holders", "{name}");
            // A map of the week needs two days at least.
            assert_eq!(ids.contains(&"heat"), shape.days >= 2, "{name}");
            let folded: Vec<&str> = named("details")
                .filter_map(|node| node.ancestors().find_map(|node| node.attribute("id")))
                .collect();
            for id in ["coverage", "energy", "method"] {
                assert!(folded.contains(&id), "{name}: {id} of {folded:?}");
            }
        }
    }
}
