//! A person's month by day: as bars on a page, as a calendar in text. An unobserved day is distinct from a day without
//! use.

use std::fmt::Write as _;

use gua_model::OwnerTotal;
use gua_model::statement::{Account, month_period};
use gua_model::{CalendarUnit, slots};
use maud::{Markup, PreEscaped, html};

use super::Sheet;
use crate::chart::{Frame, Language, StateSlot, StatesOverTime, Theme};
use crate::report::held_hours;

/// Height of the plot, which leaves room for the rest of a printed page.
const PLOT: f64 = 120.0;

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
        text.push_str("  -: not observed\n");
    }
}

/// Draws held hours by day, with the idle-held part in its own colour.
pub(super) fn picture(sheet: &Sheet<'_>, account: &Account) -> Markup {
    if most(account) <= 0.0 {
        return html! {};
    }
    let statement = sheet.statement;
    let mut chart = StatesOverTime {
        slots: Vec::new(),
        unobserved: Vec::new(),
        per: CalendarUnit::Day,
        minutes: None,
        height: PLOT,
        zone: sheet.zone.clone(),
    };
    let month = month_period(statement.month, &sheet.zone);
    let days = slots(month, &sheet.zone, CalendarUnit::Day);
    for (slot, day) in days.zip(&account.days) {
        match &day.sums {
            Some(sums) => chart.slots.push(StateSlot {
                period: slot.period,
                hours: held_hours(sums),
            }),
            None => chart.unobserved.push(slot.period),
        }
    }
    let place = statement
        .people
        .iter()
        .position(|one| one.name == account.name);
    let frame = Frame {
        id: format!("days-{}", place.unwrap_or_default()),
        title: "Held hours by day".to_owned(),
        subtitle: None,
        theme: Theme::Page,
        language: Language::English,
        width: 920,
    };
    html! { section class="figure days" { (PreEscaped(chart.draw(&frame))) } "\n" }
}

fn most(account: &Account) -> f64 {
    let held = account.days.iter().filter_map(|day| day.sums.as_ref());
    held.map(OwnerTotal::hours).fold(0.0, f64::max)
}

fn has_unseen(account: &Account) -> bool {
    account.days.iter().any(|day| day.sums.is_none())
}
