//! Every chart of hosts of any size: no two labels touch, nothing is drawn outside, the numbers match the report, and
//! an empty window has a message.

use gua_model::report::Report;
use gua_model::{Period, UtilSource};
use gua_test::reports::{Shape, crossed};
use jiff::tz::TimeZone;

use super::*;
use crate::chart::SessionRow;
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
        previous: None,
        costs: None,
        is_demo: false,
    }
}

fn of(shape: Shape, kind: Kind) -> Report {
    let cross = kind.cross().unwrap_or(Cross::HourOfDay);
    crossed(shape, &TimeZone::UTC, cross)
}

/// Calls `each` for every chart of a host, with its position in [`KINDS`]. Building a report takes longer than drawing
/// it, so charts with the same cross share one.
fn each_kind(shape: Shape, mut each: impl FnMut(usize, Kind, &Report)) {
    for cross in [Cross::HourOfDay, Cross::WeekHour, Cross::Slot] {
        let report = crossed(shape, &TimeZone::UTC, cross);
        for (place, kind) in KINDS.into_iter().enumerate() {
            if kind.cross().unwrap_or(Cross::HourOfDay) == cross {
                each(place, kind, &report);
            }
        }
    }
}

const SHAPES: [Shape; 6] = [
    Shape {
        gpus: 1,
        people: 3,
        days: 1,
    },
    Shape {
        gpus: 12,
        people: 3,
        days: 2,
    },
    Shape {
        gpus: 12,
        people: 60,
        days: 30,
    },
    Shape {
        gpus: 100,
        people: 3,
        days: 1,
    },
    Shape {
        gpus: 100,
        people: 60,
        days: 3,
    },
    Shape {
        gpus: 1,
        people: 60,
        days: 3,
    },
];

#[test]
fn labels_keep_apart_on_hosts_of_any_size() {
    for shape in SHAPES {
        each_kind(shape, |place, kind, report| {
            let (language, width) = match (place + shape.gpus as usize) % 2 {
                0 => (Language::English, 960),
                _ => (Language::Korean, 372),
            };
            let plot = Plot::new(&page(report, language), kind);
            let svg = plot.svg(Appearance {
                theme: Theme::Light,
                width,
            });
            check(&svg).unwrap_or_else(|error| panic!("{kind:?} of {shape:?}: {error}"));
        });
    }
}

#[test]
fn an_empty_window_says_so_in_the_picture_and_in_the_terminal() {
    let empty = Shape {
        gpus: 0,
        people: 0,
        days: 1,
    };
    for kind in KINDS {
        let report = of(empty, kind);
        let plot = Plot::new(&page(&report, Language::English), kind);
        let svg = plot.svg(Appearance {
            theme: Theme::Auto,
            width: 960,
        });
        let text = plot.text(80);
        for picture in [&svg, &text] {
            let nothing = picture.contains("Nothing was observed in this window.");
            assert!(nothing, "{kind:?}: {picture}");
        }
        check(&svg).unwrap();
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    use unicode_width::UnicodeWidthStr as _;
    for shape in SHAPES {
        each_kind(shape, |_, kind, report| {
            for columns in [60, 80, 132] {
                let text = Plot::new(&page(report, Language::English), kind).text(columns);
                for line in without_colours(&text).lines().skip(2) {
                    assert!(line.width() <= columns, "{kind:?} of {shape:?}: {line:?}");
                }
            }
        });
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
        each_kind(shape, |_, kind, report| {
            let plot = Plot::new(&page(report, Language::English), kind);
            let (keys, by): (&[&str], By) = match kind {
                Kind::Heat(None) | Kind::Sessions(_) => return,
                Kind::Heat(Some((Whose::User, _)))
                | Kind::Hours(Whose::User)
                | Kind::Quiet(Some(Whose::User)) => (&["held_hours", "idle_held_hours"], By::User),
                _ => (
                    &["active_hours", "idle_held_hours", "truly_idle_hours"],
                    By::Gpu,
                ),
            };
            let whole = table(report, by);
            for key in keys {
                let (drawn, all) = (sum(plot.numbers(), key), sum(&whole, key));
                assert!(
                    (drawn - all).abs() < 1e-6,
                    "{kind:?} of {shape:?}: {key} {drawn} of {all}"
                );
            }
        });
    }
}

const SESSIONS: Kind = Kind::Sessions(Whose::Gpu);

fn hosts(gpus: u32) -> Report {
    let shape = Shape {
        gpus,
        people: 3,
        days: 7,
    };
    of(shape, SESSIONS)
}

fn rows(report: &Report, kind: Kind) -> (Vec<String>, Plot) {
    let Kind::Sessions(whose) = kind else {
        panic!("{kind:?} are sessions")
    };
    let page = page(report, Language::English);
    let (chart, _) = figures::sessions(&page, whose);
    let plot = Plot::new(&page, kind);
    let names = chart.rows.iter().map(|row| row.name.clone()).collect();
    (names, plot)
}

#[test]
fn every_gpu_has_a_row_of_sessions_in_index_order_or_is_listed_as_left_out() {
    for (gpus, shown, words) in [
        (12, 12, None),
        (100, 100, None),
        (110, 104, Some("6 more GPUs are not shown (--gpu chooses).")),
    ] {
        let report = hosts(gpus);
        let (names, plot) = rows(&report, SESSIONS);
        let expected: Vec<String> = (0..shown).map(|gpu| format!("#{gpu}")).collect();
        assert_eq!(names, expected);
        let text = without_colours(&plot.text(100));
        assert_eq!(text.contains("are not shown"), words.is_some(), "{text}");
        assert!(words.is_none_or(|words| text.contains(words)), "{text}");
    }
    let mut report = hosts(1);
    for number in 0..200 {
        let mut hold = report.sessions[0].clone();
        hold.owner = Some(format!("user{number}"));
        report.sessions.push(hold);
    }
    report.sessions.drain(..report.sessions.len() - 200);
    let (names, plot) = rows(&report, Kind::Sessions(Whose::User));
    let expected: Vec<String> = (0..104).map(|number| format!("user{number}")).collect();
    assert_eq!(names, expected);
    assert!(plot.subtitle.contains("96 more people are not shown"));
}

#[test]
fn ties_of_gpus_are_in_the_order_of_their_numbers() {
    let mut report = hosts(12);
    let sums = report.gpus[0].sums.clone();
    report
        .gpus
        .iter_mut()
        .for_each(|gpu| gpu.sums = sums.clone());
    let plot = Plot::new(&page(&report, Language::English), Kind::Hours(Whose::Gpu));
    let text = without_colours(&plot.text(100));
    let place = |gpu: u32| text.find(&format!("#{gpu} ")).unwrap();
    assert!((1..12).all(|gpu| place(gpu - 1) < place(gpu)), "{text}");
}

#[test]
fn an_imported_session_has_the_state_of_its_mean_and_overlaps_are_noted() {
    let mut report = hosts(1);
    let hold = report.sessions[0].clone();
    report.sessions = vec![hold.clone(), hold];
    let (_, plot) = rows(&report, SESSIONS);
    assert!(
        plot.subtitle.contains("1 session overlaps another"),
        "{}",
        plot.subtitle
    );
    assert!(!plot.subtitle.contains("Imported"), "{}", plot.subtitle);
    let text = plot.text(100);
    assert!(text.contains("Where sessions overlap, one in use is shown."));
    report.sessions.truncate(1);
    let hold = &mut report.sessions[0];
    (hold.observed, hold.active, hold.idle_held) = (None, None, None);
    for (util, state) in [
        (Some(60.0), "active"),
        (Some(9.9), "idle-held"),
        (None, "held-unknown"),
    ] {
        report.sessions[0].util = util.map(|util| (util, UtilSource::Gpu));
        let (_, plot) = rows(&report, SESSIONS);
        assert!(plot.subtitle.contains("Imported sessions have one state"));
        assert!(!plot.subtitle.contains("overlap"), "{}", plot.subtitle);
        let look = Appearance {
            theme: Theme::Light,
            width: 960,
        };
        let svg = plot.svg(look);
        let states = ["active", "idle-held", "held-unknown"];
        let drawn = states.map(|state| svg.contains(&format!("data-state=\"{state}\"")));
        assert_eq!(drawn, states.map(|known| known == state), "{svg}");
    }
}

#[test]
fn the_rest_of_many_people_does_not_shorten_the_bars_of_those_who_are_named() {
    let shape = Shape {
        gpus: 12,
        people: 60,
        days: 3,
    };
    let report = of(shape, Kind::Hours(Whose::User));
    let plot = Plot::new(&page(&report, Language::English), Kind::Hours(Whose::User));
    let text = without_colours(&plot.text(100));
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("idle-held"))
        .collect();
    let marks = |line: &str| line.matches(['█', '▒']).count();
    // The first is the legend.
    let first = marks(lines[1]);
    assert!(
        first > 30 && lines[1..].iter().all(|line| marks(line) <= first),
        "{text}"
    );
    let rest = lines.iter().find(|line| line.contains("others (")).unwrap();
    assert_eq!(marks(rest), 0, "{text}");
    let svg = plot.svg(Appearance {
        theme: Theme::Light,
        width: 960,
    });
    let heat = Kind::Heat(Some((Whose::User, Cross::Slot)));
    let report = of(shape, heat);
    let grid = figures::grid(&page(&report, Language::English), Whose::User, Cross::Slot);
    let chart = grid.heat_map;
    let values = |row: &Vec<Option<f64>>| row.iter().flatten().copied().fold(0.0, f64::max);
    let (rest, named) = chart.cells.split_last().unwrap();
    assert!(chart.rows.last().unwrap().starts_with("others ("));
    assert_eq!(
        chart.largest(),
        named.iter().map(values).fold(0.0, f64::max)
    );
    assert!(values(rest) > chart.largest());
    assert_eq!(chart.at_least(), "≥ ");
    // The rest has its numbers, but no bar.
    let rects = svg
        .split("<rect ")
        .filter(|rect| rect.contains("data-name=\"others"));
    let lengths: Vec<bool> = rects.map(|rect| rect.contains("width=\"0\"")).collect();
    assert_eq!(lengths, [true; 2], "{svg}");
}

#[test]
fn rows_left_out_are_noted_in_full_on_a_narrow_picture_too() {
    let report = hosts(110);
    let (_, plot) = rows(&report, SESSIONS);
    let svg = plot.svg(Appearance {
        theme: Theme::Light,
        width: 372,
    });
    check(&svg).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let texts = document
        .descendants()
        .filter(|node| node.has_tag_name("text"));
    let texts: Vec<&str> = texts.filter_map(|node| node.text()).collect();
    let said = texts.join(" ");
    let words = "6 more GPUs are not shown (--gpu chooses).";
    assert!(said.contains(words), "{said}");
}

/// Returns the session rows of a host with three GPUs over one day, after `change`: name, number of bars, and hatched
/// hours.
fn session_rows(whose: Whose, change: impl FnOnce(&mut Report)) -> Vec<(String, usize, f64)> {
    let shape = Shape {
        gpus: 3,
        people: 2,
        days: 1,
    };
    let mut report = of(shape, Kind::Sessions(whose));
    report.gpus.sort_by_key(|card| card.index);
    // One session of the first GPU, two of the second, three of the third.
    let mut kept = [0; 3];
    report.sessions.retain(|hold| {
        let gpu = hold.index.unwrap();
        let kept = &mut kept[gpu as usize];
        *kept += 1;
        *kept <= gpu + 1
    });
    change(&mut report);
    let (chart, _) = figures::sessions(&page(&report, Language::English), whose);
    let hatched = |row: &SessionRow| row.gaps.iter().map(|gap| gap.micros().hours()).sum();
    let rows = chart.rows.iter();
    rows.map(|row| (row.name.clone(), row.bars.len(), hatched(row)))
        .collect()
}

#[test]
fn a_session_is_on_the_row_of_its_gpu_whatever_number_it_had() {
    // The first GPU is known only from an import, and had the index that another GPU has now.
    let rows = session_rows(Whose::Gpu, |report| {
        let imported = report.gpus[0].gpu.clone();
        report.gpus[0].index = None;
        for hold in &mut report.sessions {
            if hold.gpu == imported {
                (hold.index, hold.observed) = (Some(2), None);
            }
        }
    });
    let mut bars: Vec<usize> = rows.iter().map(|(_, bars, _)| *bars).collect();
    assert_eq!((rows[0].0.as_str(), bars[0]), ("#1", 2), "{rows:?}");
    assert!(rows[1].0.starts_with("#2 ") && rows[2].0.starts_with("#2 "));
    assert_ne!(rows[1].0, rows[2].0);
    bars[1..].sort_unstable();
    assert_eq!(bars, [2, 1, 3], "{rows:?}");

    // All of them are imported: each GPU has one row, with the index from its sessions.
    let rows = session_rows(Whose::Gpu, |report| {
        for gpu in &mut report.gpus {
            gpu.index = None;
        }
    });
    let names: Vec<&str> = rows.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["#0", "#1", "#2"]);
    assert_eq!([rows[0].1, rows[1].1, rows[2].1], [1, 2, 3]);
}

#[test]
fn time_before_a_gpu_was_first_seen_is_hatched_on_its_row_alone() {
    let late = |report: &mut Report| {
        let window = report.window;
        let half = window.from() + jiff::SignedDuration::from_hours(12);
        report.gpus[2].unseen = vec![Period::new(window.from(), half)];
        report.coverage.gaps[0].gpus = 2;
    };
    let hatched: Vec<f64> = session_rows(Whose::Gpu, late)
        .iter()
        .map(|row| row.2)
        .collect();
    assert_eq!(hatched, [6.0, 6.0, 12.0]);
    // A person's row has a gap only while no GPU was observed: from 4 to 10 h of the day.
    let rows = session_rows(Whose::User, late);
    assert!(
        !rows.is_empty() && rows.iter().all(|row| row.2 == 6.0),
        "{rows:?}"
    );
}
