//! `gua statement`: one page per person and month, with the numbers of `gua report`.

use std::collections::BTreeMap;

use gua_collector::quota::Accounts;
use gua_model::price::Costs;
use gua_model::quota::Term;
use gua_model::report::unbalanced;
use gua_model::statement::Statement;
use gua_query::words::zone;
use gua_query::{MonthAnswer, StatementQuestion};
use gua_render::statement::{Sheet, html, json, text};
use gua_settings::quota::Quota;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use crate::commands::prelude::*;

pub fn run(args: &StatementArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let form = args.form()?;
    page_file::check(&args.file, form == StatementFormat::Html)?;
    let now = clock::now();
    let zone = zone(args.tz.as_deref(), context.zone())?;
    let month = month(args.month.as_deref(), now, &zone)?;
    let question = StatementQuestion {
        month,
        zone: zone.clone(),
        now,
        person: args.user.clone(),
    };
    let (statement, costs) = gather(context, &question)?;
    let sheet = Sheet {
        statement: &statement,
        zone,
        only: args.user.as_deref(),
        version: VERSION,
        costs: costs.as_ref(),
    };
    let written = match form {
        StatementFormat::Text if args.file.path().is_none() => output::wrapped(text(&sheet)),
        StatementFormat::Text => text(&sheet),
        StatementFormat::Html => html(&sheet),
        StatementFormat::Json => json(&sheet),
    };
    let is_page = form == StatementFormat::Html;
    page_file::write(&written, &args.file, is_page, context)?;
    let left_out = unbalanced(&statement.notes);
    Ok(balance::exit_code("gua statement", left_out, &args.strict))
}

/// Requests a statement, adds the use of monthly limits, and returns it with its costs. Limits with other periods do not apply to
/// a month.
pub(super) fn gather(
    context: &Context,
    question: &StatementQuestion,
) -> anyhow::Result<(Statement, Option<Costs>)> {
    let MonthAnswer {
        mut statement,
        usage,
        report,
    } = context.ask(|source| source.statement(question))?;
    let monthly = |quota: &&Quota| quota.value.per == Term::Month;
    let quotas = context.settings().quotas.iter().filter(monthly);
    let quotas: Vec<Quota> = quotas.cloned().collect();
    let until = usage.now;
    let accounts = Accounts::under(&quotas, &BTreeMap::from([(Term::Month, usage)]), until)?;
    for account in &mut statement.people {
        account.standings = accounts.of_person(&account.name)?;
    }
    let costs = super::report::costs(context, &question.report(), &report)?;
    Ok((statement, costs))
}

/// First day of the requested month.
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
}
