//! Usage under limits as a table for all formats, and the percentages of gpu_stats.

use gua_model::quota::percent::Percentages;
use gua_model::quota::{
    Limit, LimitNote, LimitProblem, Measure, NoForecast, Standing, Term, Who, amount_word,
};
use gua_model::text::sanitize;
use gua_model::unit::float;
use gua_model::{Micros, Millijoules};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::document::{Number, Rows, Share, documents, local, pretty, rows};
use crate::table::{Cell, Table, table};

/// Returns the status of a limit as one word.
pub fn status(standing: &Standing) -> &'static str {
    match standing.used {
        _ if standing.is_over() => "over",
        None => "unknown",
        Some(_) if standing.will_be_over() => "pace",
        Some(_) => "fine",
    }
}

/// Formats a term for display. A rolling window is written as a duration.
pub fn term(per: Term) -> String {
    match per {
        Term::Day => "day".to_owned(),
        Term::Week => "week".to_owned(),
        Term::Month => "month".to_owned(),
        Term::Rolling(length) => {
            let hours = length.as_secs_f64() / 3600.0;
            match hours / 24.0 {
                days if days >= 1.0 && days.fract() == 0.0 => format!("{days} d"),
                _ => format!("{} h", (hours * 100.0).round() / 100.0),
            }
        }
    }
}

pub fn who(who: &Who) -> String {
    match who {
        Who::Person(name) => name.clone(),
        Who::Group(name) => format!("group {name}"),
        Who::Everyone => "everyone".to_owned(),
    }
}

/// Returns an amount as a cell: GPU-hours or kilowatt-hours.
pub fn amount(measure: Measure, amount: Option<u64>) -> Cell {
    match (measure, amount) {
        (_, None) => Cell::Missing,
        (Measure::Energy, Some(energy)) => Cell::energy(Some(Millijoules(energy))),
        (_, Some(time)) => Cell::Hours(Micros(time).hours()),
    }
}

/// Returns the usage for display. If only a part was measured, it is shown as a lower bound.
pub fn used(standing: &Standing) -> Cell {
    let of = |number| amount(standing.limit.measure, number);
    match (standing.used, standing.at_least) {
        (None, 1..) => Cell::Text(format!("≥ {}", of(Some(standing.at_least)).shown())),
        (used, _) => of(used),
    }
}

/// Returns the unit of a measure.
pub fn unit(measure: Measure) -> &'static str {
    match measure {
        Measure::Energy => "kWh",
        _ => "h",
    }
}

/// Returns the use of a limit as words: `charged 80.0 of 100.0 h per month`.
pub fn use_of(standing: &Standing) -> String {
    let limit = &standing.limit;
    let most = amount(limit.measure, Some(limit.most)).shown();
    let (used, measure) = (used(standing).shown(), limit.measure.as_str());
    let (unit, per) = (unit(limit.measure), term(limit.per));
    format!("{measure} {used} of {most} {unit} per {per}")
}

rows! {
    /// One limit and how much of it is used. Amounts are in the unit of the row.
    pub struct QuotaRow from (standing: &Standing) {
        /// `user`, `group` or `everyone`.
        subject: &'static str = match standing.who {
            Who::Person(_) => "user",
            Who::Group(_) => "group",
            Who::Everyone => "everyone",
        },
        name: Option<String> = match &standing.who {
            Who::Person(name) | Who::Group(name) => Some(name.clone()),
            Who::Everyone => None,
        },
        /// `each` or `together`.
        share: &'static str = standing.limit.sharing.as_str(),
        /// `held`, `idle_held`, `charged` or `energy`.
        measure: &'static str = standing.limit.measure.as_str(),
        /// `h` or `kWh`.
        unit: &'static str = unit(standing.limit.measure),
        /// `day`, `week`, `month` or a rolling window.
        per: String = term(standing.limit.per),
        from: Timestamp = standing.period.from(),
        to: Timestamp = standing.period.to(),
        /// Null if a part was not measured.
        used: Option<Number> = number(standing, standing.used),
        limit: Option<Number> = number(standing, Some(standing.limit.most)),
        left: Option<Number> = number(standing, standing.left()),
        used_share: Option<Share> = share_of(standing).map(Share),
        /// Usage at the end of the period at the current pace.
        forecast: Option<Number> = number(standing, standing.forecast.ok()),
        /// Time at which the limit is reached at the current pace.
        reached_at: Option<Timestamp> = standing.reached,
        /// `fine`, `pace` (over at the current pace), `over` or `unknown`.
        status: &'static str = status(standing),
        /// The measured part of the usage.
        used_at_least: Option<Number> = number(standing, Some(standing.at_least)),
        /// Why there is no forecast: `too_early` or `not_measured`.
        no_forecast: Option<&'static str> = standing.forecast.err().map(NoForecast::as_str),
    }
}

fn number(standing: &Standing, number: Option<u64>) -> Option<Number> {
    amount(standing.limit.measure, number).measure().map(Number)
}

/// Returns one row per limit and subject, for machine-readable output.
pub fn quota_rows(standings: &[Standing]) -> Vec<QuotaRow> {
    standings.iter().map(QuotaRow::new).collect()
}

/// Format name of [`QuotaDocument`].
pub const SCHEMA: &str = "gua.quota.v1";
/// Format name of [`PercentagesDocument`].
pub const PERCENTAGES: &str = "gua.quota-percentages.v1";

documents! {
    /// Output of `gua quota show --json` and `gua quota check --json`. Keys may be added under the same version; none
    /// changes its meaning.
    pub struct QuotaDocument from (standings: &[Standing], at: Timestamp, zone: &TimeZone) {
        schema_version: u32 = 1,
        at: Timestamp = at,
        /// The zone of days, weeks and months.
        time_zone: Option<String> = zone.iana_name().map(str::to_owned),
        quotas: Vec<QuotaRow> = quota_rows(standings),
    }

    /// Output of `gua quota show --formula percent --json`.
    pub struct PercentagesDocument from (percentages: Table, at: Timestamp, zone: &TimeZone) {
        schema_version: u32 = 1,
        at: Timestamp = at,
        time_zone: Option<String> = zone.iana_name().map(str::to_owned),
        percentages: Rows = Rows(percentages),
    }
}

/// Returns the limits as JSON.
pub fn json(standings: &[Standing], at: Timestamp, zone: &TimeZone) -> String {
    pretty(&QuotaDocument::new(standings, at, zone))
}

/// Returns the table of [`percentages`] as JSON.
pub fn percentages_json(percentages: Table, at: Timestamp, zone: &TimeZone) -> String {
    pretty(&PercentagesDocument::new(percentages, at, zone))
}

/// Returns the rows of [`quota_rows`] as a table.
pub fn table(standings: &[Standing]) -> Table {
    Table::of(QuotaRow::COLUMNS, quota_rows(standings))
}

/// Formats the limits for display, with fewer columns than [`quota_rows`] and more words.
pub fn text(standings: &[Standing], zone: &TimeZone) -> String {
    let words = |standing: &Standing| match (status(standing), standing.reached) {
        ("pace", Some(at)) => format!("over on {}", local(at, zone, "%a %Y-%m-%d %H:%M")),
        ("pace", None) => "over by then".to_owned(),
        ("over", _) => "OVER".to_owned(),
        ("unknown", _) if standing.at_least == 0 => "not measured".to_owned(),
        ("unknown", _) => "only a part was measured".to_owned(),
        _ => String::new(),
    };
    let described = |limit: &Limit| {
        let within = match limit.per {
            Term::Rolling(_) => "in",
            _ => "a",
        };
        let (measure, unit) = (limit.measure.as_str(), unit(limit.measure));
        format!("{measure} {unit} {within} {}", term(limit.per))
    };
    let of = |standing: &Standing, number| amount(standing.limit.measure, number);
    let table = table!(standing in standings =>
        "who" => who(&standing.who),
        "limit" => described(&standing.limit),
        "used" => used(standing),
        "most" as "of" => of(standing, Some(standing.limit.most)),
        "left" => of(standing, standing.left()),
        "share" => Cell::share(share_of(standing)),
        "forecast" as "at this pace" => match standing.forecast {
            Err(NoForecast::TooEarly) => "too early".into(),
            forecast => of(standing, forecast.ok()),
        },
        "status" as "" => words(standing),
    );
    table.text(0)
}

/// Returns a note about a limit as one sentence.
pub fn note(LimitNote { source, problem }: &LimitNote) -> String {
    match problem {
        LimitProblem::Overruled { by, source: host } => {
            let most = amount_word(by.measure, by.most);
            format!("{source}: this limit has no effect: the host's limit is {most} ({host})")
        }
        LimitProblem::UnknownUser(name) => format!("{source}: unknown user `{}`", sanitize(name)),
        LimitProblem::UnknownGroup(name) => format!("{source}: unknown group `{}`", sanitize(name)),
    }
}

/// Returns the used share of a limit; `None` if the usage is unknown or the limit is zero.
fn share_of(standing: &Standing) -> Option<f64> {
    let used = standing.used?;
    (standing.limit.most > 0).then(|| float(used) / float(standing.limit.most))
}

/// Returns the percentages of gpu_stats' notes: a row for each user, a column for each term.
pub fn percentages(terms: &[(Term, Percentages)], only: Option<&str>) -> Table {
    let users = terms.iter().flat_map(|(_, sums)| sums.users());
    let users = users.filter(|user| only.is_none_or(|only| only == *user));
    let users: std::collections::BTreeSet<&str> = users.collect();
    let mut table = table!(user in &users => "user" => *user,);
    for (per, sums) in terms {
        let name = match per {
            Term::Rolling(length) if length.as_secs() == 3600 => "hour".to_owned(),
            per => term(*per),
        };
        let key = format!("{}_percent", name.replace(' ', "_"));
        // gpu_stats' formulas give 0 to a user without samples in a term.
        let percent = |user| Cell::Percent(sums.of(user, *per).unwrap_or(0.0));
        table = table.beside(table!(user in &users => key as name => percent(user),));
    }
    table
}
