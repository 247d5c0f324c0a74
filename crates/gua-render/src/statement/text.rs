//! The statement as text, one person after the other.

use std::fmt::Write as _;

use gua_model::statement::Account;
use gua_model::text::sanitize;

use super::{Sheet, all_gpus, amounts, equation, limit, parts, remarks, sessions, was_held};

/// The whole statement.
pub fn text(sheet: &Sheet<'_>) -> String {
    let mut text = String::new();
    if sheet.statement.people.is_empty() {
        head(&mut text, sheet, sheet.nobody());
        if sheet.statement.gpus > 0 {
            time_parts(&mut text, sheet, None);
        }
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
    let period = statement.period;
    let [from, to, made] = [period.from(), period.to(), statement.made].map(|at| sheet.moment(at));
    let (host, zone, version) = (sheet.host(), sheet.zone_name(), sheet.version);
    let _ = writeln!(
        text,
        "{host}, {from} to {to} ({zone}), made {made} by gua {version}\n"
    );
}

fn person(text: &mut String, sheet: &Sheet<'_>, account: &Account) {
    head(text, sheet, &sanitize(&account.name));
    for amount in amounts(sheet, account) {
        let indent = match amount.key {
            "used_hours" | "idle_held_hours" | "held_free_hours" => "    ",
            _ => "  ",
        };
        let share = account.sums.idle_share();
        let share = share.filter(|_| amount.key == "idle_held_hours");
        let share = share.map(|share| format!("  {:.1}% of what was held", share * 100.0));
        let (share, unit) = (share.unwrap_or_default(), amount.unit);
        let name = format!("{indent}{}", amount.name);
        let shown = format!("{}{}", amount.bound, amount.value.shown());
        let line = format!("{name:<14}{shown:>10} {unit}{share}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    weeks(text, account);
    if !account.standings.is_empty() {
        text.push_str("\nQuota\n");
        for standing in &account.standings {
            let _ = writeln!(text, "  {}", limit(standing));
        }
    }
    text.push_str("\nBiggest sessions");
    let (shown, all) = (account.sessions.len(), account.session_count);
    if all > shown {
        let _ = write!(text, " ({shown} of {all})");
    }
    text.push('\n');
    match account.sessions.is_empty() {
        true => text.push_str("  none\n"),
        false => text.push_str(&sessions(sheet, account).text(2)),
    }
    time_parts(text, sheet, Some(account));
    rest(text, sheet);
}

fn time_parts(text: &mut String, sheet: &Sheet<'_>, account: Option<&Account>) {
    let statement = sheet.statement;
    let _ = writeln!(text, "\nThe time of {}", all_gpus(statement));
    let parts = parts(statement, account);
    let widths = parts.iter().map(|part| part.name.chars().count());
    let width = widths.max().unwrap_or(0).max(8);
    for part in &parts {
        let (name, hours, share, why) = (&part.name, part.hours, part.share * 100.0, part.why);
        let _ = writeln!(
            text,
            "  {name:<width$}  {hours:>10.2} h  {share:>5.1}%  {why}"
        );
    }
    let capacity = statement.balance.capacity.hours();
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

/// Writes held hours in rows of weeks, or nothing if there are none. An unobserved day is distinct from a day without use.
fn weeks(text: &mut String, account: &Account) {
    if !was_held(account) {
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
    if account.days.iter().any(|day| day.sums.is_none()) {
        text.push_str("  -: not observed\n");
    }
}
