//! The report on a terminal. Its colours are the same on light and dark backgrounds: the palette's tests check the contrast on
//! both, so one recording counts for both.

use gua_model::{Period, State};
use gua_render::chart::Language;
use gua_render::report::{html, screen, text};
use gua_test::reports::{Shape, report};
use jiff::SignedDuration;
use jiff::tz::TimeZone;

use crate::{SHAPES, page};

fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').unwrap().1)
}

#[test]
fn every_line_fits_the_terminal_and_no_word_is_divided() {
    for (name, shape) in SHAPES {
        let report = report(shape, &TimeZone::UTC);
        let page = page(&report, Language::English, None, 10);
        for columns in [40, 80, 100, 140, 300] {
            let text = plain(&screen(&page, columns));
            for line in text.lines() {
                let width = gua_model::text::columns(line);
                assert!(width <= columns.max(76), "{name} at {columns}: {line}");
            }
        }
        let words = plain(&screen(&page, 80));
        assert!(!words.contains("GPU-0"), "GPUs have numbers\n{words}");
    }
}

#[test]
fn the_screen_has_the_verdict_what_is_idle_people_gpus_and_coverage() {
    let shape = Shape {
        gpus: 8,
        people: 12,
        days: 7,
    };
    let report = report(shape, &TimeZone::UTC);
    for columns in [80, 140] {
        let text = screen(&page(&report, Language::English, None, 10), columns);
        insta::assert_snapshot!(format!("screen-{columns}"), text.replace('\u{1b}', "\\e"));
    }
}

#[test]
fn the_screen_of_the_demo_names_commands_of_the_demo() {
    let shape = Shape {
        gpus: 8,
        people: 12,
        days: 7,
    };
    let report = report(shape, &TimeZone::UTC);
    let page = gua_render::report::Page {
        is_demo: true,
        ..page(&report, Language::English, None, 1)
    };
    let text = plain(&screen(&page, 200));
    for part in ["gua demo report --by user", "What to do on a real host: "] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn complete_coverage_is_not_mentioned() {
    let shape = Shape {
        gpus: 2,
        people: 2,
        days: 7,
    };
    let mut report = report(shape, &TimeZone::UTC);
    let text = |report: &_| plain(&screen(&page(report, Language::English, None, 10), 80));
    assert!(text(&report).contains("Observed 96.4 % of the time"));
    let covered = &mut report.coverage;
    covered.observed = covered.capacity;
    assert!(!text(&report).contains("Observed"));
}

#[test]
fn a_process_is_to_be_ended_only_after_ten_minutes_without_use() {
    let shape = Shape {
        gpus: 8,
        people: 12,
        days: 7,
    };
    let mut report = report(shape, &TimeZone::UTC);
    let now = report.now.as_ref().unwrap().at;
    for (minutes, is_advised) in [(9, false), (10, true)] {
        for hold in &mut report.current {
            if let Some(idle) = &mut hold.idle {
                idle.since.at = now - SignedDuration::from_mins(minutes);
            }
        }
        let page = page(&report, Language::English, None, 10);
        for text in [plain(&screen(&page, 140)), text(&page), html(&page)] {
            assert_eq!(text.contains("kill "), is_advised, "{minutes}: {text}");
            assert!(!text.contains("tick is old"), "{text}");
        }
    }
}

#[test]
fn a_young_history_says_since_when_there_is_data() {
    let shape = Shape {
        gpus: 2,
        people: 2,
        days: 7,
    };
    let mut report = report(shape, &TimeZone::UTC);
    let shown = |report: &_| {
        let page = page(report, Language::English, None, 10);
        [plain(&screen(&page, 140)), text(&page), html(&page)]
    };
    for text in shown(&report) {
        assert!(!text.contains("he history begins"), "{text}");
    }
    let began = report.window.to() - SignedDuration::from_mins(10);
    report.known = Period::new(began, report.window.to());
    let when = began
        .strftime("he history begins %Y-%m-%d %H:%M")
        .to_string();
    for text in shown(&report) {
        assert!(text.contains(&when), "{when}: {text}");
    }
}

#[test]
fn a_free_gpu_with_a_fault_is_marked() {
    let shape = Shape {
        gpus: 1,
        people: 1,
        days: 1,
    };
    let mut report = report(shape, &TimeZone::UTC);
    let gpu = &mut report.now.as_mut().unwrap().gpus[0];
    (gpu.state, gpu.idle, gpu.is_free) = (State::TrulyIdle, None, false);
    gpu.owners.clear();
    gpu.faults = vec!["3 uncorrected memory errors".to_owned()];
    let page = page(&report, Language::English, None, 10);
    for text in [text(&page), html(&page)] {
        let words = "free, unhealthy: 3 uncorrected memory errors";
        assert!(text.contains(words), "{text}");
    }
    for columns in [80, 140] {
        let text = plain(&screen(&page, columns));
        assert!(text.contains("free, unhealthy"), "{text}");
    }
}
