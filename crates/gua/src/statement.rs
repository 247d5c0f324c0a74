//! `gua statement`: a month on one page for each person, in the numbers of `gua report`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use gua_model::calendar::start_of_day;
use gua_model::quota::Term;
use gua_model::report::UNKNOWN;
use gua_model::statement::{Account, Statement};
use gua_model::{CalendarUnit, Period};
use gua_probe::clock;
use gua_query::{Question, Source as _};
use gua_render::statement::{Sheet, html, json, text};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use crate::cli::{StatementArgs, StatementFormat};
use crate::config::Loaded;
use crate::config::quota::Quota;
use crate::dispatch::VERSION;
use crate::failure::{self, Failure};
use crate::quota::{Accounts, usage};
use crate::report::question;
use crate::{output, which};

pub fn run(args: &StatementArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let now = clock::now();
    let zone = args
        .tz
        .as_deref()
        .map_or_else(|| Ok(TimeZone::system()), question::zone)?;
    let month = month(args.month.as_deref(), now, &zone)?;
    let statement = Asked {
        month,
        period: period(month, &zone),
        zone: &zone,
        now,
        user: args.user.as_deref(),
        db: &which::history(loaded),
        quotas: &loaded.settings.quotas,
    }
    .read()?;
    let sheet = Sheet {
        statement: &statement,
        zone,
        only: args.user.as_deref(),
        version: VERSION,
    };
    let form = if args.json {
        StatementFormat::Json
    } else {
        args.format
    };
    output::data(&match form {
        StatementFormat::Text => text(&sheet),
        StatementFormat::Html => html(&sheet),
        StatementFormat::Json => json(&sheet),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The first day of the month that was asked for.
fn month(asked: Option<&str>, now: Timestamp, zone: &TimeZone) -> Result<Date, Failure> {
    let this = now.to_zoned(zone.clone()).date().first_of_month();
    let Some(text) = asked else {
        return Ok(this.checked_sub(1.month()).unwrap_or(this));
    };
    let found = match text.len() {
        7 => format!("{text}-01").parse::<Date>().ok(),
        _ => None,
    };
    match found {
        Some(month) if month <= this => Ok(month),
        Some(_) => Err(Failure::usage(format!("--month: {text} has not begun yet"))),
        None => {
            let text: String = text.chars().take(20).flat_map(char::escape_debug).collect();
            Err(Failure::usage(format!(
                "--month: `{text}` is not a month; write it like 2026-10"
            )))
        }
    }
}

fn period(month: Date, zone: &TimeZone) -> Period {
    let next = month.checked_add(1.month()).ok();
    let next = next.and_then(|next| start_of_day(next, zone));
    let first = start_of_day(month, zone).unwrap_or(Timestamp::MIN);
    Period::new(first, next.unwrap_or(Timestamp::MAX))
}

struct Asked<'a> {
    month: Date,
    period: Period,
    zone: &'a TimeZone,
    now: Timestamp,
    user: Option<&'a str>,
    db: &'a Path,
    quotas: &'a [Quota],
}

impl Asked<'_> {
    fn read(&self) -> anyhow::Result<Statement> {
        let source = which::source_at(self.db.to_owned());
        let question = Question {
            unit: Some(CalendarUnit::Day),
            ..Question::of_window(self.period, self.zone.clone(), self.now)
        };
        let all = source.report(&question).map_err(failure::of_query)?;
        let is_over = self.period.to() <= self.now;
        let mut statement = Statement::of(&all, self.month, is_over);
        // Limits of a day or of a rolling window say nothing about a month.
        let monthly = |quota: &&Quota| quota.value.per == Term::Month;
        let quotas: Vec<Quota> = self.quotas.iter().filter(monthly).cloned().collect();
        let until = self.period.to().min(self.now);
        let used = BTreeMap::from([(Term::Month, usage(&all, self.period, until))]);
        let accounts = Accounts::under(&quotas, &used, until)?;
        let everyone = all.people.iter().map(|row| row.name.as_str());
        let names: Vec<&str> = match self.user {
            Some(user) => vec![user],
            // Nobody gets a page for time that nobody can be named for.
            None => everyone.filter(|name| *name != UNKNOWN).collect(),
        };
        for name in names {
            let of_person = Question {
                person: Some(name.to_owned()),
                ..question.clone()
            };
            let own = source.report(&of_person).map_err(failure::of_query)?;
            let standings = accounts.of_person(name)?;
            statement
                .people
                .push(Account::of(self.month, &all, &own, standings));
        }
        Ok(statement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_is_written_like_2026_10_and_without_one_it_is_the_last() {
        let now: Timestamp = "2026-01-16T05:00:00Z".parse().unwrap();
        let check = |text: Option<&str>, expected: Result<&str, &str>| {
            let found = month(text, now, &TimeZone::UTC);
            let found = found
                .map(|month| month.to_string())
                .map_err(|failure| failure.message);
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned));
        };
        check(None, Ok("2025-12-01"));
        check(Some("2026-01"), Ok("2026-01-01"));
        check(Some("2024-02"), Ok("2024-02-01"));
        check(Some("2026-02"), Err("--month: 2026-02 has not begun yet"));
        for bad in [
            "2026",
            "2026-13",
            "2026-1",
            "10-2026",
            "2026-01-01",
            "\u{1b}[31m",
        ] {
            assert!(month(Some(bad), now, &TimeZone::UTC).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_month_has_the_hours_that_its_zone_gives_it() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let hours = |month: &str| period(month.parse().unwrap(), &zone).micros().hours();
        assert_eq!(hours("2026-03-01"), 743.0);
        assert_eq!(hours("2026-10-01"), 745.0);
        assert_eq!(hours("2026-02-01"), 672.0);
    }
}
