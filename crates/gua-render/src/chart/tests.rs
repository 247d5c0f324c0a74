//! Property tests of every chart with random numbers and names: it is valid XML, nothing is drawn outside of it, no two
//! texts touch, and sizes match the numbers.

use gua_model::{CalendarUnit, Period, slots};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use roxmltree::{Document, Node};

use super::measure::{Weight, text_width};
use super::*;

fn zone() -> TimeZone {
    TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
}

fn start() -> Timestamp {
    "2026-03-20T11:30:00Z".parse().unwrap()
}

fn frame(width: u32) -> Frame {
    Frame {
        subtitle: Some("host <gpu-01> & others".to_owned()),
        width,
        ..standalone(
            "test",
            "A \"title\" & more <b>, long enough to be cut in a narrow chart",
        )
    }
}

/// The frame of a picture in a file of its own.
pub(super) fn standalone(id: &str, title: &str) -> Frame {
    Frame {
        id: id.to_owned(),
        title: title.to_owned(),
        subtitle: None,
        theme: Theme::Auto,
        language: Language::English,
        width: 960,
    }
}

fn value(node: Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name)
        .map_or(0.0, |text| text.parse().unwrap())
}

fn elements<'a>(document: &'a Document<'_>, name: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    let inside_pattern =
        |node: &Node<'_, '_>| node.ancestors().any(|parent| parent.has_tag_name("defs"));
    document
        .descendants()
        .filter(move |node| node.tag_name().name() == name && !inside_pattern(node))
}

/// Returns left, top, right and bottom of a text, with the widths that the layout uses.
fn text_box(node: Node<'_, '_>) -> [f64; 4] {
    let content: String = node
        .children()
        .filter_map(|child| child.is_text().then(|| child.text())?)
        .collect();
    let size = value(node, "font-size");
    let weight = match node.attribute("font-weight") {
        Some(_) => Weight::Bold,
        None => Weight::Regular,
    };
    let width = text_width(&content, size, weight);
    let x = match node.attribute("text-anchor") {
        Some("middle") => value(node, "x") - width / 2.0,
        Some("end") => value(node, "x") - width,
        _ => value(node, "x"),
    };
    let y = value(node, "y");
    [x, y - size * 0.78, x + width, y + size * 0.22]
}

/// Checks the properties that hold for every chart.
pub(crate) fn check(svg: &str) -> Result<(), TestCaseError> {
    const ROUNDING: f64 = 0.05;
    let document = Document::parse(svg).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let root = document.root_element();
    let (width, height) = (value(root, "width"), value(root, "height"));
    prop_assert_eq!(root.attribute("role"), Some("img"));
    prop_assert!(
        elements(&document, "desc")
            .next()
            .and_then(|node| node.text())
            .is_some()
    );
    for rect in elements(&document, "rect") {
        let (x, y) = (value(rect, "x"), value(rect, "y"));
        let (right, bottom) = (x + value(rect, "width"), y + value(rect, "height"));
        prop_assert!(value(rect, "width") >= 0.0 && value(rect, "height") >= 0.0);
        prop_assert!(
            x >= -ROUNDING
                && y >= -ROUNDING
                && right <= width + ROUNDING
                && bottom <= height + ROUNDING,
            "a mark outside: {:?}",
            rect
        );
    }
    let boxes: Vec<(String, [f64; 4])> = elements(&document, "text")
        .map(|node| (node.text().unwrap_or_default().to_owned(), text_box(node)))
        .collect();
    for (place, (text, one)) in boxes.iter().enumerate() {
        prop_assert!(
            one[0] >= -ROUNDING
                && one[1] >= -ROUNDING
                && one[2] <= width + ROUNDING
                && one[3] <= height + ROUNDING,
            "{text:?} outside: {one:?} of {width} x {height}"
        );
        for (other_text, other) in &boxes[place + 1..] {
            let apart = one[2] <= other[0] + ROUNDING
                || other[2] <= one[0] + ROUNDING
                || one[3] <= other[1] + ROUNDING
                || other[3] <= one[1] + ROUNDING;
            prop_assert!(apart, "{text:?} {one:?} touches {other_text:?} {other:?}");
        }
    }
    Ok(())
}

fn any_hours() -> impl Strategy<Value = StateHours> {
    let amount = || prop_oneof![Just(0.0), 0.0..5.0f64, 0.0..2000.0f64];
    (amount(), amount(), amount(), amount(), amount()).prop_map(
        |(active, idle_held, held_unknown, truly_idle, gap)| StateHours {
            active,
            idle_held,
            held_unknown,
            truly_idle,
            gap,
        },
    )
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,12}",
        "[가-힣]{1,30}",
        "[<>&\"'a-z]{1,20}",
        "[A-Za-z0-9._@-]{30,90}",
        any::<String>(),
    ]
}

fn any_width() -> impl Strategy<Value = u32> {
    prop_oneof![Just(960u32), 0u32..1600]
}

fn states_over(hours: i64, unit: CalendarUnit, amounts: &[StateHours]) -> StatesOverTime {
    let zone = zone();
    let window = Period::new(start(), start() + hours.hours());
    StatesOverTime {
        slots: slots(window, &zone, unit)
            .zip(amounts.iter().cycle())
            .map(|(slot, hours)| StateSlot {
                period: slot.period,
                hours: *hours,
            })
            .collect(),
        unobserved: Vec::new(),
        per: unit,
        minutes: None,
        height: states::PLOT,
        zone,
    }
}

proptest! {
    // The same charts in each run: parsing them takes seconds, and which ones were drawn must not depend on luck.
    #![proptest_config(ProptestConfig { cases: 32, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn states_over_time_of_any_length_can_be_read(
        hours in prop_oneof![1i64..48, 1i64..1000, 1i64..40_000],
        amounts in prop::collection::vec(any_hours(), 1..40),
        width in any_width(),
        korean in any::<bool>(),
    ) {
        let unit = match hours { 0..100 => CalendarUnit::Hour, 100..3000 => CalendarUnit::Day, 3000..9000 => CalendarUnit::Week, _ => CalendarUnit::Month };
        let chart = states_over(hours, unit, &amounts);
        let language = if korean { Language::Korean } else { Language::English };
        check(&chart.draw(&Frame { language, ..frame(width) }))?;
    }

    #[test]
    fn heat_maps_of_any_size_can_be_read(
        rows in prop::collection::vec(any_name(), 1..40),
        columns in prop_oneof![prop::collection::vec(any_name(), 1..12), prop::collection::vec("[0-9]{2}-[0-9]{2}", 1..130)],
        cells in prop::collection::vec(prop::collection::vec(prop::option::of(0.0..100_000.0f64), 0..50), 1..40),
        width in any_width(),
        share in any::<bool>(),
    ) {
        let chart = HeatMap {
            rows, columns, cells,
            unit: if share { HeatUnit::Share } else { HeatUnit::GpuHours },
            value_title: "share of time active".to_owned(),
            column_title: "day".to_owned(),
            scaled_rows: usize::MAX,
        };
        check(&chart.draw(&frame(width)))?;
    }

    #[test]
    fn hours_of_any_people_can_be_read_and_the_rest_is_not_lost(
        people in prop::collection::vec((any_name(), any_hours()), 0..70),
        top in 0usize..70,
        width in any_width(),
    ) {
        let total: f64 = people.iter().map(|(_, hours)| hours.held()).sum();
        let rows = people.into_iter().map(|(name, hours)| HoursRow { name, hours }).collect();
        let svg = HoursBars { rows, top, value_title: "held GPU-hours".to_owned(), observed: true }.draw(&frame(width));
        check(&svg)?;
        let document = Document::parse(&svg).unwrap();
        let bars: Vec<_> = elements(&document, "rect").filter(|node| node.has_attribute("data-hours")).collect();
        let drawn: f64 = bars.iter().map(|node| value(*node, "data-hours")).sum();
        prop_assert!((drawn - total).abs() <= 0.01 * f64::from(u32::try_from(bars.len()).unwrap()) + 1e-6, "{drawn} of {total}");
        // All bars share one scale. The bar for the rest may be omitted, with only its numbers shown.
        let is_summed = |node: &Node<'_, '_>| node.attribute("data-name").is_some_and(|name| name.starts_with("others ("));
        let bars: Vec<_> = bars.into_iter().filter(|node| !is_summed(node)).collect();
        if let Some(longest) = bars.iter().max_by(|one, other| value(**one, "data-hours").total_cmp(&value(**other, "data-hours"))) {
            let scale = value(*longest, "width") / value(*longest, "data-hours");
            for bar in &bars {
                prop_assert!((value(*bar, "width") - scale * value(*bar, "data-hours")).abs() < 0.05 + scale * 0.01);
            }
        }
    }

    #[test]
    fn the_hours_of_the_day_can_be_read(
        hours in prop::collection::vec(any_hours(), 24),
        quietest in prop::collection::vec(0usize..24, 0..6),
        width in any_width(),
        korean in any::<bool>(),
    ) {
        let language = if korean { Language::Korean } else { Language::English };
        let chart = DayHours { hours: hours.try_into().unwrap(), quietest };
        check(&chart.draw(&Frame { language, ..frame(width) }))?;
    }

    #[test]
    fn sessions_of_any_gpus_can_be_read(
        names in prop::collection::vec(any_name(), 1..40),
        bars in prop::collection::vec((0i64..3000, 0i64..900, any_name(), any_hours()), 0..60),
        gaps in prop::collection::vec((0i64..3000, 0i64..300), 0..4),
        minutes in prop_oneof![0i64..90, 60i64..3000],
        width in any_width(),
    ) {
        let period = |from: i64, length: i64| Period::new(start() + from.minutes(), start() + (from + length).minutes());
        let mut rows: Vec<SessionRow> = names.into_iter().map(|name| SessionRow { name, bars: Vec::new(), gaps: Vec::new() }).collect();
        let count = rows.len();
        for (place, (from, length, label, hours)) in bars.into_iter().enumerate() {
            rows[place % count].bars.push(SessionBar { period: period(from, length), label, hours, sessions: 1 });
        }
        rows[0].gaps = gaps.into_iter().map(|(from, length)| period(from, length)).collect();
        let chart = SessionChart { window: period(0, minutes), rows, zone: zone(), observed: true };
        check(&chart.draw(&frame(width)))?;
    }
}

#[test]
fn a_stack_is_as_high_as_its_hours() {
    let amounts = [
        StateHours {
            active: 10.0,
            idle_held: 5.0,
            truly_idle: 9.0,
            ..StateHours::default()
        },
        StateHours {
            active: 1.0,
            gap: 11.0,
            held_unknown: 0.5,
            ..StateHours::default()
        },
    ];
    let svg = states_over(72, CalendarUnit::Day, &amounts).draw(&frame(960));
    let document = Document::parse(&svg).unwrap();
    let drawn = |state: &str| -> f64 {
        let group = elements(&document, "g")
            .find(|node| node.attribute("data-state") == Some(state))
            .unwrap();
        group.children().map(|node| value(node, "height")).sum()
    };
    let labelled = |state: &str| -> f64 {
        let key = format!("data-{state}-hours");
        elements(&document, "rect")
            .map(|node| value(node, &key))
            .sum()
    };
    let scale = drawn("active") / labelled("active");
    for state in Shown::ALL {
        assert!(
            (drawn(state.as_str()) - scale * labelled(state.as_str())).abs() < 0.05,
            "{state:?}"
        );
    }
    assert!((labelled("active") - 22.0).abs() < 1e-9);
}

#[test]
fn an_empty_window_says_so_in_words() {
    let frame = frame(960);
    let nothing = StateHours::default();
    let says =
        |svg: String, words: &str| assert!(svg.contains(words) && check(&svg).is_ok(), "{svg}");
    let observed = "Nothing was observed in this window.";
    let nobody = "Nobody held a GPU in this window.";
    says(
        states_over(0, CalendarUnit::Hour, &[]).draw(&frame),
        observed,
    );
    says(
        states_over(9, CalendarUnit::Hour, &[nothing]).draw(&frame),
        observed,
    );
    says(
        HeatMap::week(
            &[[None; 24]; 7],
            HeatUnit::Share,
            "share",
            Language::English,
        )
        .draw(&frame),
        observed,
    );
    let window = Period::new(start(), start() + 1.hour());
    let row = SessionRow {
        name: "#0".to_owned(),
        bars: Vec::new(),
        gaps: vec![window],
    };
    for (is_observed, words, rows) in [
        (true, nobody, Vec::new()),
        (false, observed, Vec::new()),
        (false, observed, vec![row]),
    ] {
        let bars = HoursBars {
            rows: Vec::new(),
            top: 5,
            value_title: String::new(),
            observed: is_observed,
        };
        says(bars.draw(&frame), words);
        let sessions = SessionChart {
            window,
            rows,
            zone: zone(),
            observed: is_observed,
        };
        says(sessions.draw(&frame), words);
    }
}

#[test]
fn a_cell_without_data_does_not_look_like_zero() {
    let mut cells = [[Some(0.0); 24]; 7];
    cells[2][3] = None;
    cells[2][4] = Some(f64::NAN);
    let svg = HeatMap::week(&cells, HeatUnit::Share, "share", Language::English).draw(&frame(960));
    let document = Document::parse(&svg).unwrap();
    let cells: Vec<_> = elements(&document, "rect")
        .filter(|node| node.children().any(|child| child.has_tag_name("title")))
        .collect();
    let hatched = cells
        .iter()
        .filter(|node| node.attribute("fill") == Some("url(#test-gap)"))
        .count();
    let zero = cells
        .iter()
        .filter(|node| node.attribute("data-value") == Some("0"))
        .count();
    assert_eq!((hatched, zero), (2, 7 * 24 - 2));
}

#[test]
fn a_fixed_theme_needs_no_style_sheet_and_a_page_brings_its_own() {
    let chart = states_over(
        24,
        CalendarUnit::Hour,
        &[StateHours {
            active: 1.0,
            ..StateHours::default()
        }],
    );
    let draw = |theme| {
        chart.draw(&Frame {
            theme,
            ..frame(960)
        })
    };
    assert!(draw(Theme::Auto).contains("prefers-color-scheme:dark"));
    for theme in [Theme::Light, Theme::Dark, Theme::Page] {
        assert!(!draw(theme).contains("<style") && !draw(theme).contains("var("));
    }
    assert_ne!(draw(Theme::Light), draw(Theme::Dark));
    assert!(page_style().contains("--gua-active:#0b5fa5"));
}

/// Compares the whole text of one small chart, so that every change is noticed. To update it, store the output of the
/// test.
#[test]
fn a_small_chart_stays_as_it_is() {
    let rows = vec![
        HoursRow {
            name: "김민수 <a&b>".to_owned(),
            hours: StateHours {
                active: 6.0,
                idle_held: 2.0,
                ..StateHours::default()
            },
        },
        HoursRow {
            name: "ada\u{1b}[31m".to_owned(),
            hours: StateHours {
                active: 1.5,
                ..StateHours::default()
            },
        },
    ];
    let chart = HoursBars {
        rows,
        top: 5,
        value_title: "held GPU-hours".to_owned(),
        observed: true,
    };
    let svg = chart.draw(&Frame {
        theme: Theme::Light,
        width: 400,
        ..standalone("small", "GPU-hours by person")
    });
    let golden = include_str!("tests/hours.svg");
    assert_eq!(svg, golden, "\n{svg}");
}
