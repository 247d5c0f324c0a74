//! The top of the page: shares, idle capacity and coverage at a glance.

use gua_model::{RollUp, State};

use super::table::{paragraph, section, tile};
use crate::chart::{Shown, StateHours};
use crate::language::{Label, Sentence};
use crate::markup::{Markup, number};
use crate::report::figures::{held_hours, state_hours};
use crate::report::{Page, labels};
use crate::table::Cell;

/// Shares, idle capacity and coverage at a glance.
pub(super) fn summary(html: &mut Markup, page: &Page<'_>) {
    section(
        html,
        page,
        ("summary", labels::SUMMARY, None),
        |html| match page.report.person {
            Some(_) => person_summary(html, page),
            None => shares(html, page),
        },
    );
}

fn shares(html: &mut Markup, page: &Page<'_>) {
    let (report, language) = (page.report, page.language);
    let sums = &report.all;
    if sums.share(RollUp::Active).is_none() {
        paragraph(html, labels::NO_SAMPLES.of(language));
        return paragraph(html, labels::BEGIN.of(language));
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
            let key = state.as_str().replace('-', "_");
            share_tile(
                html,
                page,
                (state.as_str(), labels::state(state, language)),
                &key,
                "~",
                (share, hours),
            );
        }
        if let Some(observed) = report.coverage.share() {
            let head = ("observed", labels::OBSERVED.of(language));
            let value = |html: &mut Markup| html.number("observed_share", &Cell::Share(observed));
            tile(html, head, value, |html| {
                html.number("gap_hours", &Cell::Hours(report.coverage.gap.hours()));
                html.words(language.pick(" GPU-hours are gaps", " GPU 시간 공백"));
            });
        }
    });
    let gpus = |class| Cell::Hours(report.equivalent(class));
    let count = |number: usize| Cell::Count(number.try_into().unwrap_or(u64::MAX));
    let capacity = Sentence {
        words: Label(
            "On average {!idle_held_gpus} GPUs were held without use and {!truly_idle_gpus} were free, of {gpus} seen in the window. Samples: {samples}",
            "평균적으로 GPU {!idle_held_gpus}장은 잡힌 채 쓰이지 않았고, {!truly_idle_gpus}장은 비어 있었습니다 (전체 {gpus}장). 샘플: {samples}",
        ),
        numbers: [
            ("idle_held_gpus", gpus(RollUp::IdleHeld)),
            ("truly_idle_gpus", gpus(RollUp::TrulyIdle)),
            ("gpus", count(report.cards.len())),
            ("samples", Cell::Count(report.all.samples())),
        ],
    };
    html.element("p", &[("class", "lead")], |html| {
        capacity.write(html, language);
    });
}

/// Writes a share, with its GPU-hours below.
fn share_tile(
    html: &mut Markup,
    page: &Page<'_>,
    head: (&str, &str),
    key: &str,
    about: &str,
    (share, hours): (f64, f64),
) {
    let value = |html: &mut Markup| html.number(&format!("{key}_share"), &Cell::Share(share));
    tile(html, head, value, |html| {
        html.words(about);
        html.number(&format!("{key}_hours"), &Cell::Hours(hours));
        html.words(page.language.pick(" GPU-hours", " GPU 시간"));
    });
}

fn person_summary(html: &mut Markup, page: &Page<'_>) {
    let language = page.language;
    let held = &page.report.all.held;
    let Some(idle) = held.idle_share() else {
        return paragraph(html, labels::NOTHING.of(language));
    };
    let hours = held_hours(held);
    state_bar(html, &hours, "tall");
    html.element("div", &[("class", "tiles")], |html| {
        let not_idle = ("active", labels::NOT_IDLE_HELD.of(language));
        share_tile(html, page, not_idle, "used", "", (1.0 - idle, hours.active));
        let idle_held = ("idle-held", labels::state(State::IdleHeld, language));
        share_tile(
            html,
            page,
            idle_held,
            "idle_held",
            "",
            (idle, hours.idle_held),
        );
        let head = ("observed", labels::HELD_HOURS.of(language));
        let value = |html: &mut Markup| html.number("held_hours", &Cell::Hours(held.hours()));
        tile(html, head, value, |html| {
            html.number("samples", &Cell::Count(held.samples()));
            html.words(language.pick(" samples", " 샘플"));
        });
    });
}

/// Draws the shares of the states without numbers, which are printed beside it.
pub(super) fn state_bar(html: &mut Markup, hours: &StateHours, class: &str) {
    let total = hours.total();
    let attributes = [
        ("class", &*format!("gua-chart bar {class}")),
        ("viewBox", "0 0 1000 10"),
        ("preserveAspectRatio", "none"),
        ("aria-hidden", "true"),
    ];
    html.element("svg", &attributes, |html| {
        let mut x = 0.0;
        for state in Shown::ALL
            .into_iter()
            .filter(|state| hours.of(*state) > 0.0)
        {
            let width = hours.of(state) / total * 1000.0;
            let place = [
                ("x", &*number(x)),
                ("width", &*number(width)),
                ("height", "10"),
                ("class", &*format!("f-{}", state.key())),
            ];
            html.leaf("rect", &place);
            x += width;
        }
    });
}
