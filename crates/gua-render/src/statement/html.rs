//! The statement as HTML, one printed page for each person. The file is self-contained: no network, fonts or scripts.

use gua_model::statement::Account;
use gua_model::text::sanitize;

use super::days::picture;
use super::{Amount, Sheet, all_gpus, amounts, equation, limit, parts, remarks, sessions};
use crate::chart::{Language, page_style};
use crate::markup::Markup;
use crate::report::html::table::{Look, masthead as write_masthead, paragraph, table, tile};
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
            for Amount {
                key,
                name,
                value: cell,
                bound,
            } in amounts(account)
            {
                let share = account.sums.idle_share();
                let idle = share.map_or_else(
                    || "held, unused".to_owned(),
                    |share| format!("{:.1}% of held, unused", share * 100.0),
                );
                let (kind, below) = match key {
                    "held_hours" => ("observed", "GPU-hours on GPUs"),
                    "used_hours" => ("active", "of those, in use"),
                    "idle_held_hours" => ("idle-held", &*idle),
                    "charged_hours" => ("charged", "shared among those on a GPU"),
                    _ => ("truly-idle", "kWh, shared likewise"),
                };
                let value = |html: &mut Markup| {
                    html.words(bound);
                    html.number(key, &cell);
                };
                tile(html, (kind, name), value, |html| html.words(below));
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
            paragraph(html, "None.");
            return;
        }
        let look = Look::whole("sessions", Language::English);
        table(html, &sessions(sheet, account), look);
        let more = account.session_count.saturating_sub(account.sessions.len());
        if more > 0 {
            paragraph(html, &format!("And {more} shorter ones."));
        }
    });
}

fn balance(html: &mut Markup, sheet: &Sheet<'_>, account: Option<&Account>) {
    let statement = sheet.statement;
    let capacity = statement.balance.capacity.hours();
    html.element("section", &[], |html| {
        let title = format!("The time of {}", all_gpus(statement));
        html.text("h2", &[], &title);
        let parts = parts(statement, account);
        if capacity > 0.0 {
            html.element("div", &[("class", "whole")], |html| {
                for part in parts.iter().filter(|part| part.hours > 0.0) {
                    let class = format!("part {}", part.key);
                    let style = format!("width:{:.3}%", part.share * 100.0);
                    html.text("span", &[("class", &class), ("style", &style)], "");
                }
            });
        }
        html.element("table", &[("class", "balance")], |html| {
            html.element("tbody", &[], |html| {
                for part in &parts {
                    let share = format!("{:.1}%", part.share * 100.0);
                    let of = (part.key, part.hours, &*share);
                    html.element("tr", &[], |html| {
                        html.element("td", &[("class", "t")], |html| {
                            let class = format!("key part {}", part.key);
                            html.text("span", &[("class", &class)], "");
                            html.words(&part.name);
                        });
                        balance_cells(html, part.why, of);
                    });
                }
                html.element("tr", &[("class", "sum")], |html| {
                    html.text("td", &[("class", "t")], "capacity");
                    let why = "every GPU, for as long as it was present";
                    balance_cells(html, why, ("capacity", capacity, ""));
                });
            });
        });
        let equation = equation(statement, account);
        html.text("p", &[("class", "say equation")], &equation);
    });
}

/// Writes the explanation of a part, its hours and its share.
fn balance_cells(html: &mut Markup, why: &str, (key, hours, share): (&str, f64, &str)) {
    html.text("td", &[("class", "t sub")], why);
    html.element("td", &[("class", "n")], |html| {
        html.number(&format!("{key}_hours"), &Cell::Hours(hours));
    });
    html.text("td", &[("class", "n")], share);
}

fn notes(html: &mut Markup, sheet: &Sheet<'_>) {
    let remarks = remarks(sheet);
    html.element("footer", &[], |html| {
        for remark in remarks {
            paragraph(html, &format!("Note: {remark}."));
        }
        paragraph(html, "Held: a person's time on GPUs in full. Idle-held: of that, with the GPU unused. Charged: time on a GPU shared equally among the people on it, so that people add up to the GPU.",
        );
    });
}
