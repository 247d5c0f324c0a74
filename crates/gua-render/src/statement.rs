//! Monthly statements as text, as a printable page for each person, and as JSON. All formats print the same numbers.

mod days;
mod html;
mod json;
mod text;

use gua_model::Micros;
use gua_model::quota::Standing;
use gua_model::report::{Hold, Note};
use gua_model::statement::{Account, Statement, session_time};
use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use self::html::html;
pub use self::json::{StatementDocument, json};
pub use self::text::text;
use crate::quota;
use crate::table::{Cell, Table};

/// Display options of a statement.
#[derive(Clone, Debug)]
pub struct Sheet<'a> {
    pub statement: &'a Statement,
    pub zone: TimeZone,
    /// The person, if the statement covers only one. The title then shows this name instead of the host's, so that a
    /// name is never printed on another person's page.
    pub only: Option<&'a str>,
    /// Version of the program.
    pub version: &'a str,
}

impl Sheet<'_> {
    fn month(&self) -> String {
        self.statement.month.strftime("%B %Y").to_string()
    }

    /// Returns the text shown in place of a name if the statement has no people.
    fn nobody(&self) -> &'static str {
        let balance = &self.statement.balance;
        match balance.capacity > balance.gap {
            true => "nobody held a card",
            false => "nothing was observed",
        }
    }

    fn zone_name(&self) -> String {
        match self.zone.iana_name() {
            Some(name) => name.to_owned(),
            None => self.at(self.statement.made, "%Z"),
        }
    }

    fn at(&self, at: Timestamp, form: &str) -> String {
        at.to_zoned(self.zone.clone()).strftime(form).to_string()
    }

    fn moment(&self, at: Timestamp) -> String {
        self.at(at, "%Y-%m-%d %H:%M")
    }

    fn host(&self) -> String {
        let host = self.statement.host.as_ref();
        host.map_or_else(
            || "this host".to_owned(),
            |host| gua_model::text::sanitize(&host.name),
        )
    }
}

/// One line of an account: key, label and value.
type Line = (&'static str, &'static str, Cell);

/// Returns the amounts of a person.
fn amounts(account: &Account) -> Vec<Line> {
    let sums = &account.sums;
    vec![
        ("held_hours", "held", Cell::Hours(sums.hours())),
        ("used_hours", "used", Cell::Hours(account.used_hours())),
        (
            "idle_held_hours",
            "idle-held",
            Cell::Hours(sums.idle_hours()),
        ),
        ("charged_hours", "charged", Cell::time(sums.charged_time())),
        ("energy_kwh", "energy", Cell::energy(sums.counted_energy())),
    ]
}

/// Returns the lower-bound sign for an amount that was only partly measured, as in the quota.
fn bound(account: &Account, key: &str, cell: &Cell) -> &'static str {
    let is_all = match key {
        "charged_hours" => account.sums.charged_is_all(),
        "energy_kwh" => account.sums.energy_is_all(),
        _ => true,
    };
    match is_all || matches!(cell, Cell::Missing) {
        true => "",
        false => "≥ ",
    }
}

/// Divides the time of all GPUs: the person's part, if there is one, and everything else.
fn parts(statement: &Statement, account: Option<&Account>) -> Vec<(&'static str, String, Micros)> {
    let balance = &statement.balance;
    let mut parts = Vec::new();
    let mut others = ("people", "people".to_owned(), balance.people);
    // A person known only from imported rows has no part: those rows are charged to no one.
    if let Some(account) = account
        && account.sums.charged_time().is_some()
    {
        let own = account.sums.own.charged;
        parts.push(("charged", gua_model::text::sanitize(&account.name), own));
        others = (
            "others",
            "other people".to_owned(),
            Micros(balance.people.0.saturating_sub(own.0)),
        );
    }
    parts.push(others);
    parts.push(("unowned", "unowned".to_owned(), balance.unowned));
    parts.push(("free", "free".to_owned(), balance.free));
    parts.push(("gap", "gap".to_owned(), balance.gap));
    if balance.old > Micros(0) {
        parts.push(("old", "old rows".to_owned(), balance.old));
    }
    parts
}

/// Explains a part of the time of all GPUs to the reader.
fn explained(key: &str) -> &'static str {
    match key {
        "charged" => "charged: time on a card, shared equally among the people on it",
        "people" | "others" => "charged to people",
        "unowned" => "busy or held, and nobody to name",
        "free" => "nobody on the card",
        "gap" => "nobody looked",
        _ => "known from old files alone, charged to nobody",
    }
}

/// Formats `ada 8.00 + other people 40.00 + ... = 1488.00`, so that readers can verify the sum.
fn equation(statement: &Statement, account: Option<&Account>) -> String {
    let parts = parts(statement, account);
    let terms: Vec<String> = parts
        .iter()
        .map(|(_, name, micros)| format!("{name} {:.2}", micros.hours()))
        .collect();
    let capacity = statement.balance.capacity.hours();
    let terms = terms.join(" + ");
    match statement.balance.difference() {
        0 => format!(
            "{terms} = capacity {capacity:.2} GPU-hours (exact to the microsecond; rounded here)"
        ),
        // This is a bug if it happens, and the numbers cannot be trusted.
        off => format!(
            "{terms} is not the capacity {capacity:.2}: off by {off} microseconds, please report this"
        ),
    }
}

fn sessions(sheet: &Sheet<'_>, account: &Account) -> Table {
    let mut table = Table::new([
        ("from", "from"),
        ("to", "to"),
        ("gpu", "GPU"),
        ("program", "program"),
        ("hours", "hours"),
        ("util_mean_percent", "mean util"),
    ]);
    for hold in &account.sessions {
        table.rows.push(vec![
            Cell::Text(sheet.at(hold.period.from(), "%m-%d %H:%M")),
            Cell::Text(sheet.at(hold.period.to(), "%m-%d %H:%M")),
            Cell::Text(card(hold)),
            Cell::Text(hold.process.clone().unwrap_or_else(|| "?".to_owned())),
            Cell::Hours(session_time(hold).hours()),
            hold.util
                .map_or(Cell::Missing, |(util, _)| Cell::Percent(util)),
        ]);
    }
    table
}

fn card(hold: &Hold) -> String {
    match hold.index {
        Some(index) => index.to_string(),
        None => hold.gpu.to_string(),
    }
}

/// Formats a limit: `charged 8.00 of 100.00 h a month, 92.00 left`.
fn limit(standing: &Standing) -> String {
    let limit = &standing.limit;
    let shown = |amount| quota::amount(limit.measure, amount).shown();
    let whose = match &standing.who {
        gua_model::quota::Who::Person(_) => String::new(),
        other => format!("{} together: ", quota::who(other)),
    };
    let unit = quota::unit(limit.measure);
    let (measure, most) = (limit.measure.as_str(), shown(Some(limit.most)));
    let rest = match (standing.used, standing.is_over()) {
        (_, true) => "OVER".to_owned(),
        (None, false) if standing.at_least == 0 => {
            return format!("{whose}{measure} at most {most} {unit} a month, not measured");
        }
        (None, false) => "not all of it was measured".to_owned(),
        (Some(_), false) => format!("{} left", shown(standing.left())),
    };
    let used = quota::used(standing).shown();
    format!("{whose}{measure} {used} of {most} {unit} a month, {rest}")
}

/// Returns the notes needed to interpret the numbers.
fn remarks(sheet: &Sheet<'_>) -> Vec<String> {
    let statement = sheet.statement;
    let mut remarks = Vec::new();
    if !statement.is_over {
        let until = sheet.moment(statement.period.to());
        remarks.push(format!(
            "the month is not over: this is what was known by {until}"
        ));
    }
    if statement.unjudged > Micros(0) {
        let hours = statement.unjudged.hours();
        remarks.push(format!(
            "for {hours:.2} GPU-hours of this month a card was held and gave no utilisation; that time counts as used"
        ));
    }
    if statement.energy.is_none() {
        remarks.push("no energy was counted on these cards".to_owned());
    }
    for note in &statement.notes {
        match note {
            Note::Widened { .. } => remarks.push("single ticks at an edge of the month are no longer kept: its edges are whole quarter hours".to_owned()),
            Note::Damaged { ticks } => remarks.push(format!("{ticks} damaged ticks could not be read; their time is a gap")),
            Note::Mixed => remarks.push("part of the month is known from rows of older tools: they count for held and idle-held hours, and are charged to nobody".to_owned()),
            Note::Overlap { micros } => remarks.push(format!("old rows overlap by {:.2} GPU-hours, and each counts in full", micros.hours())),
            _ => {}
        }
    }
    remarks
}

#[cfg(test)]
mod tests {
    use gua_model::Period;
    use gua_model::report::HoldSums;
    use gua_model::statement::Balance;

    use super::*;

    fn account(sums: HoldSums) -> Account {
        Account {
            name: "ada".to_owned(),
            sums,
            days: Vec::new(),
            sessions: Vec::new(),
            session_count: 0,
            standings: Vec::new(),
        }
    }

    /// Two GPUs for an hour.
    fn statement(people: Micros, free: Micros) -> Statement {
        let hour = Micros(3_600_000_000);
        Statement {
            month: jiff::civil::date(2026, 10, 1),
            period: Period::new(Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH),
            is_over: true,
            made: Timestamp::UNIX_EPOCH,
            host: None,
            cards: 2,
            balance: Balance {
                people,
                free,
                capacity: hour + hour,
                ..Balance::default()
            },
            energy: None,
            unjudged: Micros(0),
            people: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_part_of_what_was_charged_is_told_as_a_part() {
        let hour = Micros(3_600_000_000);
        let mut sums = HoldSums::default();
        sums.own.held = hour;
        sums.own.charged = hour;
        sums.own.energy_known = hour;
        let told = |account: &Account| -> Vec<&'static str> {
            let lines = amounts(account);
            let bounds = lines.iter().map(|(key, _, cell)| bound(account, key, cell));
            bounds.collect()
        };
        assert_eq!(told(&account(sums)), ["", "", "", "", ""]);
        assert!(json::Person::new(&account(sums)).charged_is_all);
        sums.add_old(12, 0, 300_000_000_000);
        assert_eq!(told(&account(sums)), ["", "", "", "≥ ", "≥ "]);
        assert!(!json::Person::new(&account(sums)).charged_is_all);
        // With imported rows only, nothing is known, so there is no lower bound.
        sums.own = gua_model::OwnerTotal::default();
        assert_eq!(told(&account(sums)), ["", "", "", "", ""]);
    }

    #[test]
    fn a_page_whose_books_do_not_balance_says_so() {
        let hour = Micros(3_600_000_000);
        let with = |free: Micros| equation(&statement(hour, free), None);
        assert!(with(hour).contains("= capacity 2.00 GPU-hours (exact"));
        let off = with(Micros(hour.0 - 1));
        assert!(off.contains("is not the capacity 2.00: off by 1 microseconds"));
    }

    #[test]
    fn who_is_known_from_old_rows_alone_has_no_part_of_what_was_charged() {
        let hour = Micros(3_600_000_000);
        let books = statement(hour, hour);
        let mut sums = HoldSums::default();
        sums.add_old(12, 0, 300_000_000_000);
        let told = equation(&books, Some(&account(sums)));
        assert!(told.starts_with("people 1.00 + unowned 0.00"), "{told}");
        sums.own.held = hour;
        sums.own.charged = hour;
        let told = equation(&books, Some(&account(sums)));
        assert!(
            told.starts_with("ada 1.00 + other people 0.00 + "),
            "{told}"
        );
    }
}
