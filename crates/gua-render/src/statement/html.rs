//! The statement as HTML, one printed page for each person. The file is self-contained: no network, fonts or scripts.

use gua_model::Micros;
use gua_model::statement::Account;
use gua_model::text::sanitize;

use super::days::picture;
use super::{Sheet, amounts, bound, equation, explained, limit, parts, remarks, sessions};
use crate::chart::{Language, page_style};
use crate::markup::Markup;
use crate::report::html::table::{Look, masthead as write_masthead, say, table, tile};
use crate::report::html::{SHEET, document_head};
use crate::table::Cell;

const OWN_SHEET: &str = include_str!("statement.css");

/// The whole document.
#[must_use]
pub fn html(sheet: &Sheet<'_>) -> String {
    let mut html = Markup::default();
    html.element("html", &[("lang", "en")], |html| {
        html.element("head", &[], |html| head(html, sheet));
        html.element("body", &[], |html| {
            if sheet.statement.people.is_empty() {
                page(html, sheet, None);
            }
            for account in &sheet.statement.people {
                page(html, sheet, Some(account));
            }
        });
    });
    format!("<!DOCTYPE html>\n{}\n", html.finish())
}

fn head(html: &mut Markup, sheet: &Sheet<'_>) {
    let whose = sheet.only.map_or_else(|| sheet.host(), sanitize);
    let title = format!("GPU statement, {}: {whose}", sheet.month());
    let style = format!("{}{SHEET}{OWN_SHEET}", page_style());
    document_head(html, &title, sheet.version, &style);
}

fn page(html: &mut Markup, sheet: &Sheet<'_>, account: Option<&Account>) {
    html.element("main", &[("class", "statement")], |html| {
        masthead(html, sheet, account);
        if let Some(account) = account {
            totals(html, account);
            picture(html, sheet, account);
            quotas(html, account);
            biggest(html, sheet, account);
        }
        balance(html, sheet, account);
        notes(html, sheet);
    });
}

fn masthead(html: &mut Markup, sheet: &Sheet<'_>, account: Option<&Account>) {
    let statement = sheet.statement;
    let name = account.map_or_else(
        || sheet.nobody().to_owned(),
        |account| sanitize(&account.name),
    );
    let [from, to, made] = [
        statement.period.from(),
        statement.period.to(),
        statement.made,
    ]
    .map(|at| sheet.moment(at));
    let facts = [
        ("Host", sheet.host()),
        ("Period", format!("{from} – {to}")),
        ("Time zone", sheet.zone_name()),
        ("Made", format!("{made} · gua {}", sheet.version)),
    ];
    let kicker = format!("GPU statement · {}", sheet.month());
    write_masthead(html, &kicker, &name, &facts);
}

fn totals(html: &mut Markup, account: &Account) {
    html.element("section", &[], |html| {
        html.element("div", &[("class", "tiles")], |html| {
            for (key, name, cell) in amounts(account) {
                let (kind, below) = match key {
                    "held_hours" => ("observed", "GPU-hours on cards".to_owned()),
                    "used_hours" => ("active", "of those, in use".to_owned()),
                    "idle_held_hours" => {
                        let share = account.sums.idle_share();
                        let share =
                            share.map(|share| format!("{:.1}% of held, unused", share * 100.0));
                        (
                            "idle-held",
                            share.unwrap_or_else(|| "held, unused".to_owned()),
                        )
                    }
                    "charged_hours" => ("charged", "shared among those on a card".to_owned()),
                    _ => ("truly-idle", "kWh, shared likewise".to_owned()),
                };
                let value = |html: &mut Markup| {
                    html.words(bound(account, key, &cell));
                    html.number(key, &cell);
                };
                tile(html, (kind, name), value, |html| html.words(&below));
            }
        });
    });
}

fn quotas(html: &mut Markup, account: &Account) {
    if account.standings.is_empty() {
        return;
    }
    html.element("section", &[], |html| {
        html.text("h2", &[], "Quota");
        html.element("ul", &[], |html| {
            for standing in &account.standings {
                let class = if standing.is_over() { "over" } else { "" };
                html.text("li", &[("class", class)], &limit(standing));
            }
        });
    });
}

fn biggest(html: &mut Markup, sheet: &Sheet<'_>, account: &Account) {
    html.element("section", &[], |html| {
        html.text("h2", &[], "Biggest sessions");
        if account.sessions.is_empty() {
            say(html, "None.");
            return;
        }
        let look = Look::whole("sessions", Language::English);
        table(html, &sessions(sheet, account), look);
        let more = account.session_count.saturating_sub(account.sessions.len());
        if more > 0 {
            say(html, &format!("And {more} shorter ones."));
        }
    });
}

fn balance(html: &mut Markup, sheet: &Sheet<'_>, account: Option<&Account>) {
    let statement = sheet.statement;
    let capacity = statement.balance.capacity.hours();
    html.element("section", &[], |html| {
        let cards = if statement.cards == 1 {
            "1 card".to_owned()
        } else {
            format!("all {} cards", statement.cards)
        };
        html.text("h2", &[], &format!("The time of {cards}"));
        let parts = parts(statement, account);
        if capacity > 0.0 {
            html.element("div", &[("class", "whole")], |html| {
                for (key, _, micros) in &parts {
                    let share = micros.hours() / capacity * 100.0;
                    if *micros > Micros(0) {
                        let style = format!("width:{share:.3}%");
                        html.text(
                            "span",
                            &[("class", &format!("part {key}")), ("style", &style)],
                            "",
                        );
                    }
                }
            });
        }
        html.element("table", &[("class", "balance")], |html| {
            html.element("tbody", &[], |html| {
                for (key, name, micros) in &parts {
                    let hours = micros.hours();
                    let share = if capacity > 0.0 {
                        hours / capacity
                    } else {
                        0.0
                    };
                    html.element("tr", &[], |html| {
                        html.element("td", &[("class", "t")], |html| {
                            html.text("span", &[("class", &format!("key part {key}"))], "");
                            html.words(name);
                        });
                        html.text("td", &[("class", "t sub")], explained(key));
                        html.element("td", &[("class", "n")], |html| {
                            html.number(&format!("{key}_hours"), &Cell::Hours(hours));
                        });
                        html.text("td", &[("class", "n")], &format!("{:.1}%", share * 100.0));
                    });
                }
                html.element("tr", &[("class", "sum")], |html| {
                    html.text("td", &[("class", "t")], "capacity");
                    html.text(
                        "td",
                        &[("class", "t sub")],
                        "every card, for as long as it was there",
                    );
                    html.element("td", &[("class", "n")], |html| {
                        html.number("capacity_hours", &Cell::Hours(capacity));
                    });
                    html.text("td", &[("class", "n")], "");
                });
            });
        });
        html.text(
            "p",
            &[("class", "say equation")],
            &equation(statement, account),
        );
    });
}

fn notes(html: &mut Markup, sheet: &Sheet<'_>) {
    let remarks = remarks(sheet);
    html.element("footer", &[], |html| {
        for remark in remarks {
            say(html, &format!("Note: {remark}."));
        }
        say(html, "Held: a person's time on cards in full. Idle-held: of that, with the card unused. Charged: time on a card shared equally among the people on it, so that people add up to the card.",
        );
    });
}
