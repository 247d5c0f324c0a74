//! Monthly statements as text, as a printable page for each person, and as JSON. All formats print the same numbers.

mod html;
mod json;
mod text;

use gua_model::Micros;
use gua_model::price::Costs;
use gua_model::quota::Standing;
use gua_model::report::Note;
use gua_model::statement::{Account, Statement, session_time};
use gua_model::text::{counted, sanitize};
use jiff::Timestamp;
use jiff::tz::TimeZone;

pub use self::html::html;
pub use self::json::{StatementDocument, json};
pub use self::text::text;
use crate::document::{local, zone_name};
use crate::quota;
use crate::report::{costs_of_person, gpu_name};
use crate::table::{Cell, Table, table};

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
    /// Costs, if there are prices.
    pub costs: Option<&'a Costs>,
}

impl Sheet<'_> {
    fn month(&self) -> String {
        self.statement.month.strftime("%B %Y").to_string()
    }

    /// Returns the text shown in place of a name if the statement has no people.
    fn nobody(&self) -> &'static str {
        match self.was_observed() {
            true => "nobody held a GPU",
            false => "nothing was observed",
        }
    }

    /// Whether any GPU was observed in the month.
    fn was_observed(&self) -> bool {
        let balance = &self.statement.balance;
        balance.capacity > balance.gap
    }

    fn zone_name(&self) -> String {
        zone_name(&self.zone, self.statement.made)
    }

    fn at(&self, at: Timestamp, form: &str) -> String {
        local(at, &self.zone, form)
    }

    fn moment(&self, at: Timestamp) -> String {
        self.at(at, "%Y-%m-%d %H:%M")
    }

    fn host(&self) -> String {
        let host = self.statement.host.as_ref();
        host.map_or_else(|| "this host".to_owned(), |host| sanitize(&host.name))
    }
}

/// Whether a person held a GPU on any day.
fn was_held(account: &Account) -> bool {
    let mut held = account.days.iter().filter_map(|day| day.sums.as_ref());
    held.any(|sums| sums.hours() > 0.0)
}

/// One amount of a person.
struct Amount {
    key: &'static str,
    name: &'static str,
    value: Cell,
    /// Unit of the value.
    unit: String,
    /// The lower-bound sign if only a part was measured, as in the quota.
    bound: &'static str,
}

/// Returns the amounts of a person.
fn amounts(sheet: &Sheet<'_>, account: &Account) -> Vec<Amount> {
    let sums = &account.sums;
    let amount = |key, name, value: Cell, is_all: bool| {
        let is_all = is_all || value == Cell::Missing;
        let unit = match value {
            Cell::Hours(_) => "h",
            Cell::Kilowatthours(_) => "kWh",
            _ => "",
        };
        Amount {
            key,
            name,
            value,
            unit: unit.to_owned(),
            bound: if is_all { "" } else { "≥ " },
        }
    };
    let hours = |key, name, hours| amount(key, name, Cell::Hours(hours), true);
    let charged = Cell::time(sums.charged_time());
    let energy = Cell::energy(sums.counted_energy());
    let costs = costs_of_person(sheet.costs, &account.name);
    let costs = costs.into_iter().map(|(currency, money)| Amount {
        unit: currency.to_owned(),
        ..amount(
            "cost",
            "cost",
            Cell::Money(money.units()),
            sums.charged_is_all(),
        )
    });
    let mut amounts = vec![
        hours("held_hours", "held", sums.hours()),
        hours("used_hours", "used", sums.used().hours()),
        hours("idle_held_hours", "idle-held", sums.idle_hours()),
    ];
    if sums.free > Micros(0) {
        amounts.push(hours("held_free_hours", "GPU free", sums.free_hours()));
    }
    amounts.extend([
        amount("charged_hours", "charged", charged, sums.charged_is_all()),
        amount("energy_kwh", "energy", energy, sums.energy_is_all()),
    ]);
    amounts.extend(costs);
    amounts
}

/// A part of the time of all GPUs.
struct TimePart {
    key: &'static str,
    name: String,
    hours: f64,
    /// Fraction of the capacity.
    share: f64,
    /// Explains the part to the reader.
    why: &'static str,
}

/// Divides the time of all GPUs: the person's part, if there is one, and everything else.
fn parts(statement: &Statement, account: Option<&Account>) -> Vec<TimePart> {
    let balance = &statement.balance;
    let capacity = balance.capacity.hours();
    let part = |(key, name, time, why): (_, &str, Micros, _)| TimePart {
        key,
        name: name.to_owned(),
        hours: time.hours(),
        share: if capacity > 0.0 {
            time.hours() / capacity
        } else {
            0.0
        },
        why,
    };
    // A person known only from imported rows has no part: those rows are charged to no one.
    let own = account.filter(|account| account.sums.charged_time().is_some());
    let own = own.map(|account| (sanitize(&account.name), account.sums.charged));
    let to_people = "charged to people";
    let people = match &own {
        Some((name, charged)) => {
            let others = Micros(balance.people.0.saturating_sub(charged.0));
            let why = "charged: time on a GPU, shared equally among the people on it";
            vec![
                ("charged", name.as_str(), *charged, why),
                ("others", "other people", others, to_people),
            ]
        }
        None => vec![("people", "people", balance.people, to_people)],
    };
    let unowned = "busy or held by an unknown owner";
    let imported = "only in imported rows, charged to nobody";
    let rest = [
        ("unowned", "unowned", balance.unowned, unowned),
        (
            "free",
            "free",
            balance.free,
            "no process holds more than the memory limit (truly-idle)",
        ),
        ("gap", "gap", balance.gap, "not observed"),
    ];
    let imported = (balance.old > Micros(0)).then_some(("old", "old rows", balance.old, imported));
    let parts = people.into_iter().chain(rest).chain(imported);
    parts.map(part).collect()
}

/// Formats `ada 8.00 + other people 40.00 + ... = 1488.00`, so that readers can verify the sum.
fn equation(statement: &Statement, account: Option<&Account>) -> String {
    let parts = parts(statement, account);
    let terms = parts
        .iter()
        .map(|part| format!("{} {:.2}", part.name, part.hours));
    let terms = terms.collect::<Vec<_>>().join(" + ");
    let capacity = statement.balance.capacity.hours();
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

/// Names the GPUs of the statement.
fn all_gpus(statement: &Statement) -> String {
    match statement.gpus {
        1 => "1 GPU".to_owned(),
        count => format!("all {count} GPUs"),
    }
}

fn sessions(sheet: &Sheet<'_>, account: &Account) -> Table {
    table!(hold in &account.sessions =>
        "from" => sheet.at(hold.period.from(), "%m-%d %H:%M"),
        "to" => sheet.at(hold.period.to(), "%m-%d %H:%M"),
        "gpu" as "GPU" => gpu_name(hold.index, &hold.gpu, ""),
        "program" => hold.process.as_deref().unwrap_or("?"),
        "hours" => Cell::Hours(session_time(hold).hours()),
        "util_mean_percent" as "mean util" => hold.util.map(|(util, _)| Cell::Percent(util)),
    )
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
        (None, false) => "only a part was measured".to_owned(),
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
            "the month is not over: the statement covers the time until {until}"
        ));
    }
    if let Some(began) = statement.began {
        let (moment, this_month) = (sheet.moment(began), sheet.at(statement.made, "%Y-%m"));
        remarks.push(match began >= statement.period.to() {
            true => format!(
                "the history begins {moment}, after the month of this statement; current month: gua statement --month {this_month}"
            ),
            false => format!("the history begins {moment}; earlier time is not counted"),
        });
    }
    if statement.unjudged > Micros(0) {
        let hours = statement.unjudged.hours();
        remarks.push(format!(
            "for {hours:.2} GPU-hours of this month a GPU was held without a utilisation reading; that time counts as used"
        ));
    }
    if statement.energy.is_none() && sheet.was_observed() {
        remarks.push("these GPUs have no energy counter".to_owned());
    }
    for note in &statement.notes {
        match note {
            Note::Widened { .. } => remarks.push("single ticks at an edge of the month are no longer kept: its edges are whole quarter hours".to_owned()),
            Note::Damaged { records } => remarks.push(format!("{records} damaged ticks or totals could not be read; their time is a gap")),
            Note::DamagedRows { rows } => remarks.push(format!("{rows} damaged rows about sessions, GPUs, owners, outages, requests or collector runs could not be read and are left out")),
            Note::Mixed => remarks.push("part of the month comes from imported rows: they count for held and idle-held hours, and are charged to nobody".to_owned()),
            Note::Overlap { micros } => remarks.push(format!("old rows overlap by {:.2} GPU-hours, and each counts in full", micros.hours())),
            Note::Unbalanced { gpus } => {
                let number = u64::try_from(gpus.len()).unwrap_or(u64::MAX);
                let gpus = counted(number, "GPU");
                remarks.push(format!("left out, because states and gaps do not add up to the capacity: {gpus}"));
            }
            _ => {}
        }
    }
    remarks
}

#[cfg(test)]
mod tests {
    use gua_model::statement::Balance;
    use gua_model::{OwnerTotal, Period, RollUp};

    use super::*;

    fn account(sums: OwnerTotal) -> Account {
        Account {
            name: "ada".to_owned(),
            sums,
            days: Vec::new(),
            sessions: Vec::new(),
            session_count: 0,
            standings: Vec::new(),
        }
    }

    fn sheet(statement: &Statement) -> Sheet<'_> {
        Sheet {
            statement,
            zone: TimeZone::UTC,
            only: None,
            version: "",
            costs: None,
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
            began: None,
            host: None,
            gpus: 2,
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
    fn a_partial_cost_is_marked_as_partial() {
        let hour = Micros(3_600_000_000);
        let mut sums = OwnerTotal {
            held: hour,
            charged: hour,
            energy_known: hour,
            ..OwnerTotal::default()
        };
        let books = statement(hour, hour);
        let sheet = sheet(&books);
        let bounds = |account: &Account| -> Vec<&'static str> {
            let lines = amounts(&sheet, account);
            lines.iter().map(|amount| amount.bound).collect()
        };
        assert_eq!(bounds(&account(sums)), ["", "", "", "", ""]);
        assert!(json::Person::new(&sheet, &account(sums)).charged_is_all);
        sums.add_imported(12, RollUp::Active, Micros::from_secs(300));
        assert_eq!(bounds(&account(sums)), ["", "", "", "≥ ", "≥ "]);
        assert!(!json::Person::new(&sheet, &account(sums)).charged_is_all);
        // With imported rows only, nothing is known, so there is no lower bound.
        sums = OwnerTotal::default();
        sums.add_imported(12, RollUp::Active, Micros::from_secs(300));
        assert_eq!(bounds(&account(sums)), ["", "", "", "", ""]);
    }

    #[test]
    fn time_on_a_free_gpu_is_held_and_not_used() {
        let hour = Micros(3_600_000_000);
        let mut sums = OwnerTotal {
            held: hour + hour,
            charged: hour,
            ..OwnerTotal::default()
        };
        let books = statement(hour, hour);
        let shown = |sums: OwnerTotal| -> Vec<String> {
            let shown = amounts(&sheet(&books), &account(sums)).into_iter();
            let shown = shown.map(|amount| format!("{} {}", amount.name, amount.value.shown()));
            shown.take(4).collect()
        };
        assert_eq!(
            shown(sums),
            ["held 2.00", "used 2.00", "idle-held 0.00", "charged 1.00"]
        );
        sums.free = hour;
        assert_eq!(
            shown(sums),
            ["held 2.00", "used 1.00", "idle-held 0.00", "GPU free 1.00"]
        );
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
        let mut sums = OwnerTotal::default();
        sums.add_imported(12, RollUp::Active, Micros::from_secs(300));
        let text = equation(&books, Some(&account(sums)));
        assert!(text.starts_with("people 1.00 + unowned 0.00"), "{text}");
        sums.held += hour;
        sums.charged = hour;
        let text = equation(&books, Some(&account(sums)));
        assert!(
            text.starts_with("ada 1.00 + other people 0.00 + "),
            "{text}"
        );
    }
}
