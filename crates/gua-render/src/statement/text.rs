//! The statement as text, one person after the other.

use std::fmt::Write as _;

use gua_model::statement::Account;
use gua_model::text::sanitize;

use super::days::weeks;
use super::{Sheet, amounts, bound, equation, explained, limit, parts, remarks, sessions};
use crate::table::Cell;

/// The whole statement.
#[must_use]
pub fn text(sheet: &Sheet<'_>) -> String {
    let mut text = String::new();
    if sheet.statement.people.is_empty() {
        head(&mut text, sheet, sheet.nobody());
        cards(&mut text, sheet, None);
        rest(&mut text, sheet);
        return text;
    }
    for (place, account) in sheet.statement.people.iter().enumerate() {
        if place > 0 {
            // A form feed starts a new page on a printer.
            text.push_str("\n\u{c}");
        }
        person(&mut text, sheet, account);
    }
    text
}

fn head(text: &mut String, sheet: &Sheet<'_>, name: &str) {
    let statement = sheet.statement;
    let _ = writeln!(text, "Statement for {}: {name}", sheet.month());
    let _ = writeln!(
        text,
        "{}, {} to {} ({}), made {} by gua {}\n",
        sheet.host(),
        sheet.moment(statement.period.from()),
        sheet.moment(statement.period.to()),
        sheet.zone_name(),
        sheet.moment(statement.made),
        sheet.version
    );
}

fn person(text: &mut String, sheet: &Sheet<'_>, account: &Account) {
    head(text, sheet, &sanitize(&account.name));
    for (key, name, cell) in amounts(account) {
        let unit = match cell {
            Cell::Hours(_) => "h",
            Cell::Kilowatthours(_) => "kWh",
            _ => "",
        };
        let indent = if matches!(key, "used_hours" | "idle_held_hours") {
            "    "
        } else {
            "  "
        };
        let share = match key {
            "idle_held_hours" => account.sums.idle_share().map_or_else(String::new, |share| {
                format!("  {:.1}% of what was held", share * 100.0)
            }),
            _ => String::new(),
        };
        let name = format!("{indent}{name}");
        let shown = format!("{}{}", bound(account, key, &cell), cell.shown());
        let _ = writeln!(
            text,
            "{}",
            format!("{name:<14}{shown:>10} {unit}{share}").trim_end()
        );
    }
    weeks(text, account);
    if !account.standings.is_empty() {
        text.push_str("\nQuota\n");
        for standing in &account.standings {
            let _ = writeln!(text, "  {}", limit(standing));
        }
    }
    text.push_str("\nBiggest sessions");
    if account.session_count > account.sessions.len() {
        let _ = write!(
            text,
            " ({} of {})",
            account.sessions.len(),
            account.session_count
        );
    }
    text.push('\n');
    match account.sessions.is_empty() {
        true => text.push_str("  none\n"),
        false => text.push_str(&sessions(sheet, account).text(2)),
    }
    cards(text, sheet, Some(account));
    rest(text, sheet);
}

fn cards(text: &mut String, sheet: &Sheet<'_>, account: Option<&Account>) {
    let statement = sheet.statement;
    let number = statement.cards;
    let number = if number == 1 {
        "1 card".to_owned()
    } else {
        format!("all {number} cards")
    };
    let _ = writeln!(text, "\nThe time of {number}");
    let capacity = statement.balance.capacity.hours();
    let parts = parts(statement, account);
    let width = parts
        .iter()
        .map(|(_, name, _)| name.chars().count())
        .max()
        .unwrap_or(0)
        .max(8);
    for (key, name, micros) in &parts {
        let hours = micros.hours();
        let share = if capacity > 0.0 {
            hours / capacity * 100.0
        } else {
            0.0
        };
        let why = explained(key);
        let _ = writeln!(
            text,
            "  {name:<width$}  {hours:>10.2} h  {share:>5.1}%  {why}"
        );
    }
    let _ = writeln!(text, "  {:<width$}  {capacity:>10.2} h", "capacity");
    let _ = writeln!(text, "  {}", equation(statement, account));
}

fn rest(text: &mut String, sheet: &Sheet<'_>) {
    let remarks = remarks(sheet);
    if !remarks.is_empty() {
        text.push('\n');
    }
    for remark in remarks {
        let _ = writeln!(text, "Note: {remark}");
    }
}
