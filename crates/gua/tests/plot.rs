//! `gua plot` as users run it: every chart in every format, the same numbers as the report, and usage errors.

use std::collections::BTreeSet;

use crate::without_driver;
use gua_test::TestHost;

use roxmltree::Document;
use serde_json::Value;

fn home() -> TestHost {
    let home = without_driver();
    home.fine("demo --db demo.db --interval 30s --ticks 400");
    home
}

const CHARTS: [&str; 14] = [
    "states",
    "--per day",
    "--per week",
    "heat",
    "--per weekday-hour",
    "--by user --per hour",
    "--by gpu --per month",
    "--by gpu --per weekday-hour",
    "--by user",
    "hours --by gpu",
    "sessions",
    "sessions --by user",
    "quiet",
    "quiet --by gpu",
];

#[test]
fn every_chart_is_drawn_in_every_format() {
    let home = home();
    let files = || -> BTreeSet<_> {
        let entries = std::fs::read_dir(home.directory()).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    };
    let before = files();
    for chart in CHARTS {
        for form in ["svg", "png", "json", "csv", "txt"] {
            let file = home.path(&format!("chart.{form}"));
            let line = format!("plot --db demo.db --tz UTC --since 2d {chart} -o chart.{form}");
            assert_eq!(home.fine(&line), "", "{line}");
            let bytes = std::fs::read(&file).unwrap();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            match form {
                "svg" => assert_eq!(
                    Document::parse(&text)
                        .unwrap()
                        .root_element()
                        .tag_name()
                        .name(),
                    "svg"
                ),
                "png" => assert!(bytes.starts_with(b"\x89PNG"), "{line}"),
                "json" => {
                    let json: Value = serde_json::from_str(&text).unwrap();
                    assert_eq!(json["schema"], "gua.plot.v1");
                    assert!(!json["rows"].as_array().unwrap().is_empty(), "{line}");
                }
                "csv" => assert!(text.lines().count() > 1, "{line}"),
                _ => assert!(
                    text.lines().count() > 4 && !text.contains('\x1b'),
                    "{line}: {text}"
                ),
            }
            std::fs::remove_file(file).unwrap();
        }
    }
    assert_eq!(files(), before);
}

#[test]
fn themes_languages_and_titles_are_applied() {
    let home = home();
    let draw = |words: &str| {
        home.fine(&format!(
            "plot hours --db demo.db --format svg -o - {words}"
        ))
    };
    assert!(draw("").contains("prefers-color-scheme"));
    let (light, dark) = (draw("--theme light"), draw("--theme dark"));
    assert!(light.contains("#ffffff") && !dark.contains("#ffffff"));
    assert!(draw("--lang ko").contains("사용자별 GPU 시간"));
    assert!(draw("--title <b>Mine").contains("&lt;b&gt;Mine"));
    assert!(draw("--width 500").contains("width=\"500\""));
}

#[test]
fn an_empty_window_says_so() {
    let home = home();
    for chart in CHARTS {
        let line = format!("plot --db demo.db {chart} --since 2020-01-01 --until 2020-01-02");
        let text = home.fine(&line);
        let is_noted = text.contains("Nothing was observed") || text.contains("Nobody held a GPU");
        assert!(is_noted, "{line}: {text}");
        let svg = home.fine(&format!("{line} --format svg -o -"));
        assert!(
            svg.contains("Nothing was observed") || svg.contains("Nobody held a GPU"),
            "{line}"
        );
    }
}

#[test]
fn usage_errors_exit_with_2_and_write_nothing() {
    let home = home();
    let before = std::fs::read_dir(home.directory()).unwrap().count();
    for (words, sentence) in [
        ("-o chart.gif", "unsupported file extension: chart.gif"),
        (
            "states --by user -o a.svg",
            "`states` shows all GPUs together",
        ),
        (
            "states --per weekday-hour -o a.svg",
            "does not support --per weekday-hour",
        ),
        ("heat --per day -o a.svg", "a heat map over time needs --by"),
        ("hours --per day -o a.svg", "does not support --per"),
        ("--term --format svg", "cannot be used with"),
        ("--since soon", "is not a duration"),
        ("--user nobody", "no user `nobody`"),
        ("--db absent.db", "there is no history"),
    ] {
        let db = if words.contains("--db") {
            ""
        } else {
            "--db demo.db "
        };
        let output = home.gua(&format!("plot {db}{words}"));
        let stderr = output.stderr;
        assert_eq!(output.code, 2, "{words}: {stderr}");
        assert!(stderr.contains(sentence), "{words}: {stderr}");
    }
    assert_eq!(std::fs::read_dir(home.directory()).unwrap().count(), before);
    // An existing file stays unless a flag says otherwise.
    std::fs::write(home.path("mine.svg"), "mine").unwrap();
    let refused = home.gua("plot --db demo.db -o mine.svg");
    assert_eq!(refused.code, 2);
    let output = refused.stderr;
    assert!(
        output.contains("mine.svg exists already") && output.contains("--overwrite"),
        "{output}"
    );
    let mine = || std::fs::read_to_string(home.path("mine.svg")).unwrap();
    assert_eq!(mine(), "mine");
    home.fine("plot --db demo.db -o mine.svg --overwrite");
    assert!(mine().starts_with("<svg"));
    let unwritable = home.gua("plot --db demo.db -o absent/chart.svg");
    assert_eq!(unwritable.code, 1);
    let output = unwritable.stderr;
    assert!(
        output.contains("cannot write `absent/chart.svg`"),
        "{output}"
    );
}
