//! The top of the page, with shares, idle capacity and coverage at a glance, and the charts, each for wide and for narrow
//! screens.

use gua_model::{Micros, RollUp, State};
use maud::{Markup, PreEscaped, html};

use super::table::{paragraph, section, tile};
use crate::chart::{Frame, Shown, StateHours, Theme};
use crate::language::{Label, sentence};
use crate::markup::{Escaped, number, number_of};
use crate::report::figures::{self, Whose, held_hours};
use crate::report::{Page, labels};
use crate::table::Cell;

/// Chart widths: for wide screens and print, and for phones.
const WIDTHS: [(&str, u32); 2] = [("wide", 960), ("narrow", 372)];

/// Shares, idle capacity and coverage at a glance.
pub(super) fn summary(page: &Page<'_>) -> Markup {
    let inside = match page.report.person {
        Some(_) => person_summary(page),
        None => shares(page),
    };
    section(page, ("summary", labels::SUMMARY, None), &inside)
}

fn shares(page: &Page<'_>) -> Markup {
    let (report, language) = (page.report, page.language);
    let sums = &report.all;
    if sums.share(RollUp::Active).is_none() {
        let words = [labels::NO_SAMPLES, labels::BEGIN].map(|words| words.of(language));
        return html! { @for words in words { (paragraph(words)) } };
    }
    let unknown = sums.unknown_share().filter(|share| *share > 0.0);
    let class = |state: State, class: RollUp| (state, sums.share(class), sums.hours(class));
    let shown = [
        class(State::Active, RollUp::Active),
        class(State::IdleHeld, RollUp::IdleHeld),
        class(State::TrulyIdle, RollUp::TrulyIdle),
        (State::HeldUnknown, unknown, sums.unknown_hours()),
    ];
    let gap = html! {
        (number_of("gap_hours", &Cell::Hours(report.coverage.gap.hours())))
        (language.pick(" GPU-hours are gaps", " GPU 시간 공백"))
    };
    let number = |key, cell| number_of(key, &cell).into_string();
    let gpus = |key, class| {
        let number = number_of(key, &Cell::Hours(report.equivalent(class)));
        html! { strong { (number) } }.into_string()
    };
    let capacity = labels::unused_gpus(
        &gpus("idle_held_gpus", RollUp::IdleHeld),
        &gpus("truly_idle_gpus", RollUp::TrulyIdle),
        &number("gpus", report.gpu_count().into()),
        &number("samples", Cell::Count(report.all.samples())),
        language,
    );
    html! {
        (state_bar(&figures::hours(sums, Micros(0)), "tall"))
        div.tiles {
            @for (state, share, hours) in shown {
                @if let Some(share) = share {
                    (share_tile(page, (state.as_str(), labels::state(state, language)),
                        (&state.as_str().replace('-', "_"), "~"), (share, hours)))
                }
            }
            @if let Some(observed) = report.coverage.share() {
                (tile(("observed", labels::OBSERVED.of(language)), &number_of("observed_share", &Cell::Share(observed)), &gap))
            }
        }
        p.lead { (PreEscaped(sentence(&capacity))) } "\n"
        @if let Some(began) = labels::began_late(page, language) { (paragraph(sentence(&began))) }
    }
}

/// Returns a share, with its GPU-hours below behind `about`.
fn share_tile(
    page: &Page<'_>,
    head: (&str, &str),
    (key, about): (&str, &str),
    (share, hours): (f64, f64),
) -> Markup {
    let value = number_of(&format!("{key}_share"), &Cell::Share(share));
    let below = html! {
        (about) (number_of(&format!("{key}_hours"), &Cell::Hours(hours)))
        (page.language.pick(" GPU-hours", " GPU 시간"))
    };
    tile(head, &value, &below)
}

fn person_summary(page: &Page<'_>) -> Markup {
    let language = page.language;
    let held = &page.report.all.held;
    let Some(idle) = held.idle_share() else {
        return paragraph(labels::NOTHING.of(language));
    };
    let hours = held_hours(held);
    let used = ("active", labels::NOT_IDLE_HELD.of(language));
    let idle_held = ("idle-held", labels::state(State::IdleHeld, language));
    let all = ("observed", labels::HELD_HOURS.of(language));
    let samples = html! {
        (number_of("samples", &Cell::Count(held.samples()))) (language.pick(" samples", " 샘플"))
    };
    html! {
        (state_bar(&hours, "tall"))
        div.tiles {
            (share_tile(page, used, ("used", ""), (1.0 - idle, held.hours() - hours.idle_held)))
            (share_tile(page, idle_held, ("idle_held", ""), (idle, hours.idle_held)))
            (tile(all, &number_of("held_hours", &Cell::Hours(held.hours())), &samples))
        }
    }
}

/// Draws the shares of the states without numbers, which are printed beside it.
pub(super) fn state_bar(hours: &StateHours, class: &str) -> Markup {
    let total = hours.total();
    let mut x = 0.0;
    let mut parts = String::new();
    for state in Shown::ALL {
        let width = hours.of(state) / total * 1000.0;
        if width > 0.0 {
            let (from, width_text) = (number(x), number(width));
            let key = state.tone();
            parts.push_str(&format!(
                "<rect x=\"{from}\" width=\"{width_text}\" height=\"10\" class=\"f-{key}\"/>"
            ));
            x += width;
        }
    }
    html! {
        svg class={ "gua-chart bar " (class) } viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
            (PreEscaped(parts))
        }
    }
}

/// Returns a section that is one chart, drawn for each width; the style sheet shows the one that fits.
fn figure(
    page: &Page<'_>,
    (id, title, subtitle): (&str, Label, Option<&str>),
    draw: impl Fn(&Frame) -> String,
) -> Markup {
    let title = title.of(page.language);
    let frame = |class: &str, width| Frame {
        id: format!("{id}-{class}"),
        title: title.to_owned(),
        subtitle: subtitle.map(str::to_owned),
        theme: Theme::Page,
        language: page.language,
        width,
    };
    html! {
        section.figure id=(id) {
            h2.unseen { (Escaped(title)) }
            @for (class, width) in WIDTHS { div class=(class) { (PreEscaped(draw(&frame(class, width)))) } }
        } "\n"
    }
}

/// States over time.
pub(super) fn over_time_chart(page: &Page<'_>) -> Markup {
    let fine = figures::over_minutes(page).filter(|_| page.by.is_none());
    let chart = fine.unwrap_or_else(|| figures::over_time(page));
    let per = match chart.minutes {
        Some(minutes) => labels::per_minutes(minutes, page.language),
        None => labels::per(page.report.unit, page.language).to_owned(),
    };
    let about = ("over-time", labels::over_time(page.report), Some(&*per));
    figure(page, about, |frame| chart.draw(frame))
}

/// GPU-hours by person, with the idle-held share.
pub(super) fn people_chart(page: &Page<'_>) -> Markup {
    let chart = figures::people(page);
    let about = ("people-chart", labels::PEOPLE_CHART, None);
    figure(page, about, |frame| chart.draw(frame))
}

/// Weekdays by hours.
pub(super) fn heat_chart(page: &Page<'_>) -> Markup {
    let chart = figures::week(page);
    let zone = page.zone_name();
    let about = ("heat", labels::heat(page.report), Some(&*zone));
    figure(page, about, |frame| chart.draw(frame))
}

/// The longest sessions by GPU.
pub(super) fn sessions_chart(page: &Page<'_>) -> Markup {
    let (chart, note) = figures::sessions(page, Whose::Gpu);
    let about = ("sessions", labels::SESSIONS, note.as_deref());
    figure(page, about, |frame| chart.draw(frame))
}
