//! A person's month by day: as bars on a page, as a calendar in text. An unobserved day is distinct from a day without
//! use.

use std::fmt::Write as _;

use gua_model::statement::{Account, Day};

use crate::markup::Markup;

/// Dimensions of the picture.
const WIDE: f64 = 920.0;
const HIGH: f64 = 130.0;
const HEAD: f64 = 8.0;
const FOOT: f64 = 20.0;
const LEFT: f64 = 38.0;
/// Distance between the strokes of the hatch for unobserved days.
const STROKES: f64 = 7.0;

/// Writes held hours in rows of weeks, or nothing if there are none.
pub(super) fn weeks(text: &mut String, account: &Account) {
    if most(account) <= 0.0 {
        return;
    }
    text.push_str("\nHeld hours by day\n");
    let names = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let mut row = String::from("       ");
    for name in names {
        let _ = write!(row, "{name:>8}");
    }
    for day in &account.days {
        let place = usize::from(day.date.weekday().to_monday_zero_offset().unsigned_abs());
        if place == 0 || day.date.day() == 1 {
            let _ = writeln!(text, "{}", row.trim_end());
            row = format!("  {}", day.date.strftime("%m-%d"));
            row.push_str(&" ".repeat(8 * place));
        }
        let cell = match day.sums {
            Some(sums) => format!("{:.2}", sums.hours()),
            None => "-".to_owned(),
        };
        let _ = write!(row, "{cell:>8}");
    }
    let _ = writeln!(text, "{}", row.trim_end());
    if has_unseen(account) {
        text.push_str("  -: nobody looked\n");
    }
}

/// Draws held hours by day, with the idle-held part in its own colour.
pub(super) fn picture(html: &mut Markup, account: &Account) {
    let most = most(account);
    if most <= 0.0 {
        return;
    }
    let top = nice(most);
    html.element("section", &[], |html| {
        html.text("h2", &[], "Held hours by day");
        html.element("p", &[("class", "say")], |html| {
            let mut words = vec![("active", "used"), ("idle-held", "idle-held")];
            if has_unseen(account) {
                words.push(("unobserved", "not observed"));
            }
            for (class, word) in words {
                html.text("span", &[("class", &format!("dot {class}"))], "");
                html.text("span", &[("class", "word")], word);
            }
        });
        let view = format!("0 0 {WIDE} {}", HIGH + FOOT);
        let label = format!("Held hours of each day, at most {most:.1}");
        html.element(
            "svg",
            &[
                ("viewBox", &view),
                ("class", "days"),
                ("role", "img"),
                ("aria-label", &label),
            ],
            |html| {
                for part in [0.0, 0.5, 1.0] {
                    grid(html, part, top);
                }
                let step = (WIDE - LEFT) / count(account.days.len());
                for (place, day) in account.days.iter().enumerate() {
                    bar(html, LEFT + step * count(place), step, day, top);
                }
            },
        );
    });
}

fn grid(html: &mut Markup, part: f64, top: f64) {
    let y = HIGH - (HIGH - HEAD) * part;
    let (at, end) = (format!("{y:.1}"), format!("{WIDE}"));
    html.leaf(
        "line",
        &[
            ("x1", "38"),
            ("x2", &end),
            ("y1", &at),
            ("y2", &at),
            ("class", "grid"),
        ],
    );
    let down = format!("{:.1}", y + 4.0);
    let number = top * part;
    let text = if number.fract() == 0.0 {
        format!("{number:.0}")
    } else {
        format!("{number:.1}")
    };
    html.text(
        "text",
        &[("x", "32"), ("y", &down), ("class", "scale")],
        &text,
    );
}

fn bar(html: &mut Markup, x: f64, step: f64, day: &Day, top: f64) {
    let width = (step * 0.74).min(26.0);
    let left = x + (step - width) / 2.0;
    match day.sums {
        Some(sums) => {
            let scale = (HIGH - HEAD) / top;
            let (held, idle) = (sums.hours(), sums.idle_hours());
            for (class, from, to) in [("used", 0.0, held - idle), ("idle", held - idle, held)] {
                if to > from {
                    let (y, height) = (HIGH - to * scale, (to - from) * scale);
                    rectangle(html, class, (left, y), (width, height));
                }
            }
        }
        None => hatched(html, left, width),
    }
    if day.date.day() == 1 || day.date.day() % 5 == 0 {
        let (x, y) = (
            format!("{:.1}", x + step / 2.0),
            format!("{:.1}", HIGH + 15.0),
        );
        html.text(
            "text",
            &[("x", &x), ("y", &y), ("class", "day")],
            &day.date.day().to_string(),
        );
    }
}

fn rectangle(html: &mut Markup, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
    let [x, y, width, height] = [x, y, width, height].map(|number| format!("{number:.1}"));
    html.leaf(
        "rect",
        &[
            ("x", &x),
            ("y", &y),
            ("width", &width),
            ("height", &height),
            ("class", class),
        ],
    );
}

/// Hatches an unobserved day over the full height.
fn hatched(html: &mut Markup, left: f64, width: f64) {
    let mut strokes = String::new();
    let mut start = HEAD - width + STROKES;
    while start < HIGH {
        // Clip the stroke to the day's column.
        let (from, to) = (start.max(HEAD), (start + width).min(HIGH));
        let (x, long) = (left + from - start, to - from);
        let _ = write!(strokes, "M{x:.1} {from:.1}l{long:.1} {long:.1}");
        start += STROKES;
    }
    html.leaf("path", &[("d", &strokes), ("class", "unobserved")]);
}

fn most(account: &Account) -> f64 {
    let held = account.days.iter().filter_map(|day| day.sums.as_ref());
    held.map(gua_model::report::HoldSums::hours)
        .fold(0.0, f64::max)
}

fn has_unseen(account: &Account) -> bool {
    account.days.iter().any(|day| day.sums.is_none())
}

/// Rounds up to a round number.
fn nice(most: f64) -> f64 {
    let power = 10f64.powf(most.log10().floor());
    let steps = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let step = steps.iter().find(|step| **step * power >= most);
    step.unwrap_or(&10.0) * power
}

#[expect(clippy::cast_precision_loss, reason = "days of a month")]
fn count(number: usize) -> f64 {
    number as f64
}
