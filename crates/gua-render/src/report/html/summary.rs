//! The top of the page: shares, idle capacity and coverage at a glance.

use gua_model::{RollUp, State};

use super::sections::{say, section};
use crate::chart::{Shown, StateHours};
use crate::markup::Markup;
use crate::markup::number;
use crate::report::Page;
use crate::report::figures::state_hours;
use crate::report::labels;
use crate::table::Cell;

/// Shares, idle capacity and coverage at a glance.
pub(super) fn summary(html: &mut Markup, page: &Page<'_>) {
    section(
        html,
        "summary",
        (labels::SUMMARY.of(page.language), None),
        |html| {
            if page.report.person.is_some() {
                person_summary(html, page);
            } else {
                shares(html, page);
            }
        },
    );
}

fn shares(html: &mut Markup, page: &Page<'_>) {
    let (report, language) = (page.report, page.language);
    let sums = &report.all;
    if sums.share(RollUp::Active).is_none() {
        say(html, labels::NO_SAMPLES.of(language));
        return say(html, labels::BEGIN.of(language));
    }
    state_bar(html, &state_hours(sums), "tall");
    let unknown = sums.unknown_share().filter(|share| *share > 0.0);
    let class = |state: State, class: RollUp| (state, sums.share(class), sums.hours(class));
    let shown = [
        class(State::Active, RollUp::Active),
        class(State::IdleHeld, RollUp::IdleHeld),
        class(State::TrulyIdle, RollUp::TrulyIdle),
        (State::HeldUnknown, unknown, sums.unknown_hours()),
    ];
    html.element("div", &[("class", "tiles")], |html| {
        for (state, share, hours) in shown {
            let Some(share) = share else { continue };
            let word = state.as_str().replace('-', "_");
            let tile = Tile {
                class: state.as_str(),
                name: labels::state(state, language),
                key: &format!("{word}_share"),
                value: Cell::Share(share),
            };
            tile.write(html, |html| {
                html.words("~");
                html.number(&format!("{word}_hours"), &Cell::Hours(hours));
                html.words(language.pick(" GPU-hours", " GPU 시간"));
            });
        }
        if let Some(observed) = report.coverage.share() {
            let tile = Tile {
                class: "observed",
                name: labels::OBSERVED.of(language),
                key: "observed_share",
                value: Cell::Share(observed),
            };
            tile.write(html, |html| {
                html.number("gap_hours", &Cell::Hours(report.coverage.gap.hours()));
                html.words(language.pick(" GPU-hours are gaps", " GPU 시간 공백"));
            });
        }
    });
    capacity(html, page);
}

/// How many GPUs were idle on average.
fn capacity(html: &mut Markup, page: &Page<'_>) {
    let (report, language) = (page.report, page.language);
    let gpus = |class| Cell::Hours(report.equivalent(class));
    html.element("p", &[("class", "lead")], |html| {
        html.words(language.pick("On average ", "평균적으로 GPU "));
        html.element("strong", &[], |html| {
            html.number("idle_held_gpus", &gpus(RollUp::IdleHeld));
        });
        html.words(language.pick(
            " GPUs were held without use and ",
            "장은 잡힌 채 쓰이지 않았고, ",
        ));
        html.element("strong", &[], |html| {
            html.number("truly_idle_gpus", &gpus(RollUp::TrulyIdle));
        });
        html.words(language.pick(" were free, of ", "장은 비어 있었습니다 (전체 "));
        html.number(
            "gpus",
            &Cell::Count(report.cards.len().try_into().unwrap_or(u64::MAX)),
        );
        html.words(language.pick(" seen in the window. ", "장). "));
        html.words(language.pick("Samples: ", "샘플: "));
        html.number("samples", &Cell::Count(report.all.samples()));
        html.words(".");
    });
}

fn person_summary(html: &mut Markup, page: &Page<'_>) {
    let language = page.language;
    let held = &page.report.all.held;
    let Some(idle) = held.idle_share() else {
        return say(html, labels::NOTHING.of(language));
    };
    let used = held.hours() - held.idle_hours();
    let hours = StateHours {
        active: used,
        idle_held: held.idle_hours(),
        ..StateHours::default()
    };
    state_bar(html, &hours, "tall");
    let not_idle = labels::NOT_IDLE_HELD.of(language);
    let idle_held = labels::state(State::IdleHeld, language);
    let shares = [
        (State::Active, not_idle, "used", 1.0 - idle, used),
        (
            State::IdleHeld,
            idle_held,
            "idle_held",
            idle,
            held.idle_hours(),
        ),
    ];
    html.element("div", &[("class", "tiles")], |html| {
        for (state, name, key, share, hours) in shares {
            let tile = Tile {
                class: state.as_str(),
                name,
                key: &format!("{key}_share"),
                value: Cell::Share(share),
            };
            tile.write(html, |html| {
                html.number(&format!("{key}_hours"), &Cell::Hours(hours));
                html.words(language.pick(" GPU-hours", " GPU 시간"));
            });
        }
        let tile = Tile {
            class: "observed",
            name: labels::HELD_HOURS.of(language),
            key: "held_hours",
            value: Cell::Hours(held.hours()),
        };
        tile.write(html, |html| {
            html.number("samples", &Cell::Count(held.samples()));
            html.words(language.pick(" samples", " 샘플"));
        });
    });
}

/// One large number with details below.
struct Tile<'a> {
    class: &'a str,
    name: &'a str,
    key: &'a str,
    value: Cell,
}

impl Tile<'_> {
    fn write(&self, html: &mut Markup, below: impl FnOnce(&mut Markup)) {
        html.element(
            "div",
            &[("class", &format!("tile {}", self.class))],
            |html| {
                html.text("div", &[("class", "name")], self.name);
                html.element("div", &[("class", "value")], |html| {
                    html.number(self.key, &self.value);
                });
                html.element("div", &[("class", "below")], below);
            },
        );
    }
}

/// Draws the shares of the states without numbers, which are printed beside it.
pub(super) fn state_bar(html: &mut Markup, hours: &StateHours, class: &str) {
    let total = hours.total();
    let class = format!("gua-chart bar {class}");
    let attributes = [
        ("class", class.as_str()),
        ("viewBox", "0 0 1000 10"),
        ("preserveAspectRatio", "none"),
        ("aria-hidden", "true"),
    ];
    html.element("svg", &attributes, |html| {
        let mut x = 0.0;
        for state in Shown::ALL {
            let width = if total > 0.0 {
                hours.of(state) / total * 1000.0
            } else {
                0.0
            };
            if width > 0.0 {
                let place = [
                    ("x", &*number(x)),
                    ("width", &*number(width)),
                    ("height", "10"),
                    ("class", &*format!("f-{}", state.key())),
                ];
                html.leaf("rect", &place);
            }
            x += width;
        }
    });
}
