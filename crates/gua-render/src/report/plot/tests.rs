//! Every chart of hosts of any size: no two labels touch, nothing lies outside, the numbers are those of the report, and an
//! empty window says so.

#[path = "../../../tests/report_pages/made_up.rs"]
#[expect(dead_code, reason = "the pages use all of it")]
mod made_up;

use gua_model::report::Report;
use jiff::tz::TimeZone;

use self::made_up::{Shape, crossed};
use super::*;
use crate::chart::tests::check;
use crate::report::{By, table};
use crate::table::Cell;

const KINDS: [Kind; 12] = [
    Kind::States,
    Kind::Heat(None),
    Kind::Heat(Some((Whose::User, Cross::Slot))),
    Kind::Heat(Some((Whose::Gpu, Cross::Slot))),
    Kind::Heat(Some((Whose::User, Cross::WeekHour))),
    Kind::Heat(Some((Whose::Gpu, Cross::WeekHour))),
    Kind::Hours(Whose::User),
    Kind::Hours(Whose::Gpu),
    Kind::Sessions(Whose::User),
    Kind::Sessions(Whose::Gpu),
    Kind::Quiet(None),
    Kind::Quiet(Some(Whose::Gpu)),
];

fn page(report: &Report, language: Language) -> Page<'_> {
    Page {
        report,
        zone: TimeZone::UTC,
        window: "1 day".to_owned(),
        width: 60,
        top: 20,
        by: None,
        language,
        version: "0.1.0",
    }
}

fn of(shape: Shape, kind: Kind) -> Report {
    let cross = kind.cross().unwrap_or(Cross::HourOfDay);
    crossed(shape, &TimeZone::UTC, cross)
}

const SHAPES: [Shape; 6] = [
    Shape {
        cards: 1,
        people: 3,
        days: 1,
    },
    Shape {
        cards: 12,
        people: 3,
        days: 2,
    },
    Shape {
        cards: 12,
        people: 60,
        days: 30,
    },
    Shape {
        cards: 100,
        people: 3,
        days: 1,
    },
    Shape {
        cards: 100,
        people: 60,
        days: 7,
    },
    Shape {
        cards: 1,
        people: 60,
        days: 3,
    },
];

#[test]
fn labels_keep_apart_on_hosts_of_any_size() {
    for shape in SHAPES {
        for (place, kind) in KINDS.into_iter().enumerate() {
            let report = of(shape, kind);
            let (language, width) = match (place + shape.cards as usize) % 2 {
                0 => (Language::English, 960),
                _ => (Language::Korean, 372),
            };
            let plot = Plot::new(&page(&report, language), kind);
            let svg = plot.svg(Look {
                theme: Theme::Light,
                width,
            });
            check(&svg).unwrap_or_else(|error| panic!("{kind:?} of {shape:?}: {error}"));
        }
    }
}

#[test]
fn an_empty_window_says_so_in_the_picture_and_in_the_terminal() {
    let empty = Shape {
        cards: 0,
        people: 0,
        days: 1,
    };
    for kind in KINDS {
        let report = of(empty, kind);
        let plot = Plot::new(&page(&report, Language::English), kind);
        let svg = plot.svg(Look {
            theme: Theme::Auto,
            width: 960,
        });
        let text = plot.text(80);
        for picture in [&svg, &text] {
            let nothing = picture.contains("Nothing was observed in this window.");
            let nobody = picture.contains("Nobody held a GPU in this window.");
            assert!(nothing || nobody, "{kind:?}: {picture}");
        }
        check(&svg).unwrap();
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    use unicode_width::UnicodeWidthStr as _;
    for shape in SHAPES {
        for kind in KINDS {
            let report = of(shape, kind);
            for columns in [60, 80, 132] {
                let text = Plot::new(&page(&report, Language::English), kind).text(columns);
                for line in without_colours(&text).lines().skip(2) {
                    assert!(line.width() <= columns, "{kind:?} of {shape:?}: {line:?}");
                }
            }
        }
    }
}

fn without_colours(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}

fn sum(table: &Table, key: &str) -> f64 {
    let place = table.columns.iter().position(|column| column.key == key);
    let place = place.unwrap_or_else(|| panic!("no column {key}"));
    let hours = |row: &Vec<Cell>| match row[place] {
        Cell::Hours(hours) => hours,
        _ => 0.0,
    };
    table.rows.iter().map(hours).sum()
}

#[test]
fn whatever_is_drawn_adds_up_to_the_report() {
    for shape in SHAPES {
        for kind in KINDS {
            let report = of(shape, kind);
            let plot = Plot::new(&page(&report, Language::English), kind);
            let (keys, by): (&[&str], By) = match kind {
                Kind::Heat(None) | Kind::Sessions(_) => continue,
                Kind::Heat(Some((Whose::User, _)))
                | Kind::Hours(Whose::User)
                | Kind::Quiet(Some(Whose::User)) => (&["held_hours", "idle_held_hours"], By::User),
                _ => (
                    &["active_hours", "idle_held_hours", "truly_idle_hours"],
                    By::Gpu,
                ),
            };
            let whole = table(&report, by);
            for key in keys {
                let (drawn, all) = (sum(plot.numbers(), key), sum(&whole, key));
                assert!(
                    (drawn - all).abs() < 1e-6,
                    "{kind:?} of {shape:?}: {key} {drawn} of {all}"
                );
            }
        }
    }
}
