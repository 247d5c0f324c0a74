//! Writes every chart, in all the sizes that must look right, as SVG files and one page that shows them:
//! `cargo run -p gua-render --example gallery -- OUTDIR`, and as PNG too with `--features png`.
//! The numbers are made up and the same in every run.

use std::fs;
use std::path::PathBuf;

use gua_model::{CalendarUnit, Period, slots};
use gua_render::chart::{
    Frame, HeatMap, HeatUnit, HoursBars, HoursRow, Language, SessionBar, SessionChart, SessionRow,
    StateHours, StateSlot, StatesOverTime, Theme, page_style,
};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// A sequence that looks like chance and never changes.
struct Dice(u64);

impl Dice {
    /// From 0 up to 1.
    fn roll(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(self.0 >> 33).unwrap_or(0)) / f64::from(1u32 << 31)
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        let place = self.roll() * f64::from(u32::try_from(from.len()).unwrap_or(1));
        (0u32..)
            .zip(from)
            .find(|(at, _)| f64::from(*at) + 1.0 > place)
            .map_or(from[0], |(_, one)| one)
    }
}

const NAMES: [&str; 12] = [
    "ada",
    "grace",
    "linus",
    "김민수",
    "박서연",
    "margaret",
    "barbara",
    "이도윤",
    "edsger",
    "svc-training",
    "donald",
    "a-very-long-account-name.with-a-department@research.example.org",
];

fn frame(id: &str, title: &str) -> Frame {
    Frame {
        id: id.to_owned(),
        title: title.to_owned(),
        subtitle: None,
        theme: Theme::Auto,
        language: Language::English,
        width: 960,
    }
}

fn zone() -> TimeZone {
    TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone that is written out")
}

fn window(hours: i64) -> Period {
    let from: Timestamp = "2026-03-09T23:00:00Z".parse().expect("a moment");
    Period::new(from, from + hours.hours())
}

/// A GPU's hours in a slot, busy by day and less so on weekends.
fn spent(dice: &mut Dice, slot: &gua_model::Slot, gpus: f64) -> StateHours {
    let capacity = slot.period.micros().hours() * gpus;
    if dice.roll() < 0.03 {
        return StateHours {
            gap: capacity,
            ..StateHours::default()
        };
    }
    let hour = f64::from(slot.label.hour());
    let day = if (9.0..19.0).contains(&hour) {
        0.55
    } else {
        0.3
    };
    let active = capacity * (day * 0.6 + 0.3 * dice.roll());
    let idle_held = (capacity - active) * (0.15 + 0.4 * dice.roll());
    let held_unknown = (capacity - active - idle_held) * 0.1;
    StateHours {
        active,
        idle_held,
        held_unknown,
        truly_idle: capacity - active - idle_held - held_unknown,
        gap: 0.0,
    }
}

fn states(hours: i64, gpus: f64, unit: CalendarUnit) -> StatesOverTime {
    let mut dice = Dice(7);
    let zone = zone();
    let slots = slots(window(hours), &zone, unit)
        .map(|slot| StateSlot {
            period: slot.period,
            hours: spent(&mut dice, &slot, gpus),
        })
        .collect();
    StatesOverTime {
        slots,
        unobserved: Vec::new(),
        per: unit,
        minutes: None,
        height: 260.0,
        zone,
    }
}

/// An hour in slots of five minutes, which no calendar unit is.
fn one_hour() -> StatesOverTime {
    let mut chart = states(1, 8.0, CalendarUnit::Hour);
    let from = window(1).from();
    let mut dice = Dice(3);
    chart.slots = (0..12)
        .map(|place: i64| {
            let period = Period::new(
                from + (place * 5).minutes(),
                from + (place * 5 + 5).minutes(),
            );
            let active = 8.0 / 12.0 * dice.roll();
            let hours = StateHours {
                active,
                idle_held: (8.0 / 12.0 - active) * 0.4,
                truly_idle: (8.0 / 12.0 - active) * 0.6,
                ..StateHours::default()
            };
            StateSlot { period, hours }
        })
        .collect();
    chart
}

fn week(unit: HeatUnit, language: Language) -> HeatMap {
    let mut dice = Dice(5);
    let mut cells = [[None; 24]; 7];
    for (day, row) in cells.iter_mut().enumerate() {
        for (hour, cell) in row.iter_mut().enumerate() {
            let busy = if (9..19).contains(&hour) && day < 5 {
                0.55
            } else {
                0.1
            };
            let share = (busy + 0.4 * dice.roll() - 0.1).max(0.0);
            let share = if hour == 4 { 0.0 } else { share };
            let known = !(day == 2 && (10..13).contains(&hour));
            let scale = if unit == HeatUnit::Share { 1.0 } else { 310.0 };
            *cell = known.then_some(share * scale);
        }
    }
    let title = match unit {
        HeatUnit::Share => "share of time, in percent",
        HeatUnit::GpuHours => "GPU-hours",
    };
    HeatMap::week(&cells, unit, title, language)
}

fn gpus_by_day(gpus: usize, days: i64) -> HeatMap {
    let mut dice = Dice(11);
    let zone = zone();
    let columns = slots(window(days * 24), &zone, CalendarUnit::Day)
        .map(|slot| slot.label.strftime("%m-%d").to_string())
        .collect::<Vec<_>>();
    let row = |dice: &mut Dice| {
        let habit = dice.roll();
        let cell = |dice: &mut Dice| {
            (dice.roll() > 0.04).then(|| (habit * 0.7 + 0.5 * dice.roll() - 0.15).clamp(0.0, 1.0))
        };
        columns.iter().map(|_| cell(dice)).collect()
    };
    HeatMap {
        rows: (0..gpus)
            .map(|card| format!("GPU {card} RTX A6000"))
            .collect(),
        cells: (0..gpus).map(|_| row(&mut dice)).collect(),
        columns,
        unit: HeatUnit::Share,
        value_title: "share of time active, in percent".to_owned(),
        column_title: "day".to_owned(),
        scaled_rows: usize::MAX,
    }
}

fn people(count: usize, top: usize, scale: f64) -> HoursBars {
    let mut dice = Dice(2);
    let row = |place: usize| {
        let name = NAMES
            .get(place)
            .map_or_else(|| format!("user{place:02}"), |name| (*name).to_owned());
        let held = scale * dice.roll().powi(3) + scale * 0.002;
        let idle = dice.roll() * 0.7;
        HoursRow {
            name,
            hours: StateHours {
                active: held * (1.0 - idle) * 0.95,
                idle_held: held * idle,
                held_unknown: held * (1.0 - idle) * 0.05,
                ..StateHours::default()
            },
        }
    };
    HoursBars {
        rows: (0..count).map(row).collect(),
        top,
        value_title: "held GPU-hours".to_owned(),
        observed: true,
    }
}

fn sessions(gpus: usize, hours: i64) -> SessionChart {
    let mut dice = Dice(gpus as u64 + 9);
    let window = window(hours);
    let minutes = f64::from(i32::try_from(hours * 60).unwrap_or(i32::MAX));
    let whole = |value: f64| format!("{value:.0}").parse::<i64>().unwrap_or(0);
    let row = |card: usize| {
        let mut bars = Vec::new();
        let mut at = dice.roll() * minutes * 0.1;
        while at < minutes {
            let length = minutes * (0.01 + 0.22 * dice.roll() * dice.roll());
            let from = window.from() + whole(at).minutes();
            let period = Period::new(from, from + whole(length).max(1).minutes());
            let held = period.micros().hours();
            let idle = if dice.roll() < 0.3 {
                1.0
            } else {
                dice.roll() * 0.6
            };
            bars.push(SessionBar {
                period,
                label: dice.pick(&NAMES).to_owned(),
                hours: StateHours {
                    active: held * (1.0 - idle),
                    idle_held: held * idle,
                    ..StateHours::default()
                },
                sessions: 1,
            });
            let pause = if card % 5 == 3 {
                -0.6 * length
            } else {
                minutes * 0.08 * dice.roll()
            };
            at += (length + pause).max(minutes * 0.005);
        }
        let from = window.from() + whole(minutes * 0.61).minutes();
        SessionRow {
            name: format!("GPU {card} RTX A6000"),
            bars,
            gaps: vec![Period::new(from, from + whole(minutes * 0.04).minutes())],
        }
    };
    SessionChart {
        window,
        rows: (0..gpus).map(row).collect(),
        zone: zone(),
        observed: true,
    }
}

type Draw = Box<dyn Fn(&Frame) -> String>;

type Case = (&'static str, &'static str, Draw);

fn cases() -> Vec<Case> {
    let mut cases = cases_of_states();
    cases.extend(other_cases());
    cases
}

fn cases_of_states() -> Vec<Case> {
    use CalendarUnit::{Day, Hour};
    let empty = || StatesOverTime {
        slots: Vec::new(),
        ..states(1, 1.0, Hour)
    };
    vec![
        (
            "states-hour",
            "States, one hour",
            Box::new(|frame| one_hour().draw(frame)),
        ),
        (
            "states-day",
            "States, one day of 12 gpus",
            Box::new(|frame| states(24, 12.0, Hour).draw(frame)),
        ),
        (
            "states-month",
            "States, 30 days of 12 gpus",
            Box::new(|frame| states(720, 12.0, Day).draw(frame)),
        ),
        (
            "states-month-hours",
            "States, 30 days by the hour",
            Box::new(|frame| states(720, 12.0, Hour).draw(frame)),
        ),
        (
            "states-year",
            "States, a year of 100 gpus",
            Box::new(|frame| states(8760, 100.0, Day).draw(frame)),
        ),
        (
            "states-one",
            "States, a single slot",
            Box::new(|frame| states(24, 1.0, Day).draw(frame)),
        ),
        (
            "states-huge",
            "States, huge values",
            Box::new(|frame| states(240, 3e7, Day).draw(frame)),
        ),
        (
            "states-empty",
            "States, an empty window",
            Box::new(move |frame| empty().draw(frame)),
        ),
    ]
}

fn other_cases() -> Vec<Case> {
    let empty_week = || HeatMap {
        cells: Vec::new(),
        ..week(HeatUnit::Share, Language::English)
    };
    let no_sessions = || SessionChart {
        rows: Vec::new(),
        ..sessions(1, 24)
    };
    vec![
        (
            "week-use",
            "When the gpus are used",
            Box::new(|frame| week(HeatUnit::Share, frame.language).draw(frame)),
        ),
        (
            "week-waste",
            "When gpus are held and idle",
            Box::new(|frame| week(HeatUnit::GpuHours, frame.language).draw(frame)),
        ),
        (
            "week-empty",
            "An empty week",
            Box::new(move |frame| empty_week().draw(frame)),
        ),
        (
            "gpus-1",
            "One card by day",
            Box::new(|frame| gpus_by_day(1, 30).draw(frame)),
        ),
        (
            "gpus-12",
            "12 gpus by day",
            Box::new(|frame| gpus_by_day(12, 30).draw(frame)),
        ),
        (
            "gpus-100",
            "100 gpus by day",
            Box::new(|frame| gpus_by_day(100, 30).draw(frame)),
        ),
        (
            "gpus-year",
            "12 gpus, a year by day",
            Box::new(|frame| gpus_by_day(12, 365).draw(frame)),
        ),
        (
            "people-3",
            "GPU-hours of 3 people",
            Box::new(|frame| people(3, 20, 900.0).draw(frame)),
        ),
        (
            "people-60",
            "GPU-hours of 60 people, the top 15",
            Box::new(|frame| people(60, 15, 900.0).draw(frame)),
        ),
        (
            "people-60-all",
            "GPU-hours of 60 people, all",
            Box::new(|frame| people(60, 60, 1e8).draw(frame)),
        ),
        (
            "people-none",
            "GPU-hours of nobody",
            Box::new(|frame| people(0, 5, 1.0).draw(frame)),
        ),
        (
            "sessions-1",
            "Sessions of one card, one day",
            Box::new(|frame| sessions(1, 24).draw(frame)),
        ),
        (
            "sessions-12",
            "Sessions of 12 gpus, one day",
            Box::new(|frame| sessions(12, 24).draw(frame)),
        ),
        (
            "sessions-100",
            "Sessions of 100 gpus, 30 days",
            Box::new(|frame| sessions(100, 720).draw(frame)),
        ),
        (
            "sessions-none",
            "Sessions of no card",
            Box::new(move |frame| no_sessions().draw(frame)),
        ),
    ]
}

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(
        std::env::args_os()
            .nth(1)
            .unwrap_or_else(|| "gallery".into()),
    );
    fs::create_dir_all(&folder)?;
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Charts of gua</title><style>{}\
         body{{font-family:system-ui,sans-serif;margin:24px;background:var(--gua-surface);color:var(--gua-ink)}}\
         section{{margin:0 0 40px}}</style></head><body><h1>Charts of gua</h1>",
        page_style()
    );
    for (id, title, draw) in cases() {
        for (theme, suffix) in [
            (Theme::Auto, ""),
            (Theme::Light, "-light"),
            (Theme::Dark, "-dark"),
        ] {
            let mut frame = frame(id, title);
            frame.subtitle = Some("host gpu-01 · 10 March 2026 · made-up numbers".to_owned());
            frame.theme = theme;
            let svg = draw(&frame);
            #[cfg(feature = "png")]
            if theme != Theme::Auto {
                let png = gua_render::chart::to_png(&svg, 2.0).map_err(std::io::Error::other)?;
                fs::write(folder.join(format!("{id}{suffix}.png")), png)?;
            }
            fs::write(folder.join(format!("{id}{suffix}.svg")), svg)?;
        }
        let mut frame = frame(id, title);
        frame.theme = Theme::Page;
        page.push_str(&format!("<section>{}</section>", draw(&frame)));
        frame.id = format!("{id}-narrow");
        frame.width = 420;
        frame.language = Language::Korean;
        frame.subtitle = Some("좁은 화면 · 한국어".to_owned());
        page.push_str(&format!("<section>{}</section>", draw(&frame)));
    }
    page.push_str("</body></html>\n");
    fs::write(folder.join("index.html"), page)
}
