//! The statement as HTML, one printed page for each person. The file is self-contained: no network, fonts or scripts.

use gua_model::statement::{Account, month_period};
use gua_model::text::sanitize;
use gua_model::{CalendarUnit, slots};
use maud::{Markup, PreEscaped, html};

use super::{
    Amount, Sheet, all_gpus, amounts, equation, limit, parts, remarks, sessions, was_held,
};
use crate::chart::{Frame, Language, StateSlot, StatesOverTime, Theme, page_style};
use crate::markup::{Escaped, number_of};
use crate::report::held_hours;
use crate::report::html::table::{TableOptions, masthead as page_masthead, paragraph, table, tile};
use crate::report::html::{SHEET, document};
use crate::table::Cell;

const OWN_SHEET: &str = include_str!("statement.css");
/// Height of the plot, which leaves room for the rest of a printed page.
const PLOT: f64 = 120.0;

/// The whole document.
pub fn html(sheet: &Sheet<'_>) -> String {
    let whose = sheet.only.map_or_else(|| sheet.host(), sanitize);
    let title = format!("GPU statement, {}: {whose}", sheet.month());
    let style = format!("{}{SHEET}{OWN_SHEET}", page_style());
    let people = &sheet.statement.people;
    let nobody = people.is_empty().then_some(None);
    let body = html! {
        main { @for account in people.iter().map(Some).chain(nobody) { (page(sheet, account)) } }
    };
    document("en", (&title, sheet.version), &style, &body)
}

fn page(sheet: &Sheet<'_>, account: Option<&Account>) -> Markup {
    html! {
        article.statement {
            (masthead(sheet, account))
            @if let Some(account) = account {
                (totals(sheet, account)) (picture(sheet, account)) (quotas(account)) (biggest(sheet, account))
            }
            (balance(sheet, account))
            footer {
                @for remark in remarks(sheet) { (paragraph(format!("Note: {remark}."))) }
                (paragraph("Held: a person's time on GPUs in full. Idle-held: of that, with the GPU unused. Charged: time on a GPU shared equally among the people on it, so that people add up to the GPU."))
            }
        }
    }
}

fn masthead(sheet: &Sheet<'_>, account: Option<&Account>) -> Markup {
    let statement = sheet.statement;
    let name = account.map_or_else(
        || sheet.nobody().to_owned(),
        |account| sanitize(&account.name),
    );
    let period = statement.period;
    let [from, to, made] = [period.from(), period.to(), statement.made].map(|at| sheet.moment(at));
    let facts = [
        ("Host", sheet.host()),
        ("Period", format!("{from} – {to}")),
        ("Time zone", sheet.zone_name()),
        ("Made", format!("{made} · gua {}", sheet.version)),
    ];
    let kicker = format!("GPU statement · {}", sheet.month());
    page_masthead(&kicker, &name, &facts)
}

fn totals(sheet: &Sheet<'_>, account: &Account) -> Markup {
    let idle = match account.sums.idle_share() {
        Some(share) => format!("{:.1}% of held, unused", share * 100.0),
        None => "held, unused".to_owned(),
    };
    let below = |key: &str| match key {
        "held_hours" => ("observed", "GPU-hours on GPUs"),
        "used_hours" => ("active", "of those, in use"),
        "idle_held_hours" => ("idle-held", &*idle),
        "held_free_hours" => ("truly-idle", "held with little memory"),
        "charged_hours" => ("charged", "shared among those on a GPU"),
        "cost" => ("charged", "for the charged hours"),
        _ => ("truly-idle", "kWh, shared likewise"),
    };
    let amount = |amount: &Amount| {
        let (class, below) = below(amount.key);
        let currency = (amount.key == "cost").then_some(&amount.unit);
        let value = html! {
            (amount.bound) (number_of(amount.key, &amount.value)) @if let Some(currency) = currency { " " (Escaped(currency)) }
        };
        tile((class, amount.name), &value, &html! { (below) })
    };
    html! { section { div.tiles { @for one in &amounts(sheet, account) { (amount(one)) } } } "\n" }
}

fn quotas(account: &Account) -> Markup {
    let class = |is_over| if is_over { "over" } else { "" };
    html! {
        @if !account.standings.is_empty() {
            section {
                h2 { "Quota" }
                ul {
                    @for standing in &account.standings {
                        li class=(class(standing.is_over())) { (Escaped(limit(standing))) } "\n"
                    }
                }
            } "\n"
        }
    }
}

fn biggest(sheet: &Sheet<'_>, account: &Account) -> Markup {
    let more = account.session_count.saturating_sub(account.sessions.len());
    html! {
        section {
            h2 { "Biggest sessions" }
            @if account.sessions.is_empty() {
                (paragraph("None."))
            } @else {
                (table(&sessions(sheet, account), TableOptions::whole("sessions", Language::English)))
                @if more > 0 { (paragraph(format!("And {more} shorter ones."))) }
            }
        } "\n"
    }
}

fn balance(sheet: &Sheet<'_>, account: Option<&Account>) -> Markup {
    let statement = sheet.statement;
    let capacity = statement.balance.capacity.hours();
    let parts = parts(statement, account);
    html! {
        section {
            h2 { (Escaped(format!("The time of {}", all_gpus(statement)))) }
            @if capacity > 0.0 {
                div.whole {
                    @for part in parts.iter().filter(|part| part.hours > 0.0) {
                        span class={ "part " (part.key) } style={ "width:" (format!("{:.3}%", part.share * 100.0)) } {}
                    }
                }
            }
            table.balance {
                tbody {
                    @for part in &parts {
                        tr {
                            td.t { span class={ "key part " (part.key) } {} (Escaped(&part.name)) }
                            (balance_cells(part.why, (part.key, part.hours, &format!("{:.1}%", part.share * 100.0))))
                        } "\n"
                    }
                    tr.sum {
                        td.t { "capacity" }
                        (balance_cells("every GPU, for as long as it was present", ("capacity", capacity, "")))
                    } "\n"
                }
            } "\n"
            p class="say equation" { (Escaped(equation(statement, account))) } "\n"
        } "\n"
    }
}

/// The explanation of a part, its hours and its share.
fn balance_cells(why: &str, (key, hours, share): (&str, f64, &str)) -> Markup {
    html! {
        td class="t sub" { (Escaped(why)) }
        td.n { (number_of(&format!("{key}_hours"), &Cell::Hours(hours))) }
        td.n { (share) }
    }
}

/// Draws held hours by day, with the idle-held part in its own colour.
fn picture(sheet: &Sheet<'_>, account: &Account) -> Markup {
    if !was_held(account) {
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
