//! The statement of a month: one report for all people, cut into days.

use gua_model::quota::Usage;
use gua_model::report::{Report, UNKNOWN};
use gua_model::statement::{Account, Statement, month_period};
use serde::{Deserialize, Serialize};

use crate::error::QueryError;
use crate::question::StatementQuestion;
use crate::quota::of_report;
use crate::records::Records;
use crate::report::{report_and_sessions, require_person};

/// A statement, and what people used in the month. The caller knows the limits and prices: it checks the limits and
/// computes the costs of the report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MonthAnswer {
    pub statement: Statement,
    pub usage: Usage,
    /// The report of the month, for all people.
    pub report: Report,
}

/// Gathers the statement of a month.
pub fn statement(
    records: &dyn Records,
    question: &StatementQuestion,
) -> Result<MonthAnswer, QueryError> {
    let StatementQuestion { month, now, .. } = *question;
    let period = month_period(month, &question.zone);
    let (all, sessions) = report_and_sessions(records, &question.report())?;
    let everyone = all.people.iter().map(|row| row.name.as_str());
    let names: Vec<&str> = match question.person.as_deref() {
        Some(person) => {
            if person != UNKNOWN && !everyone.into_iter().any(|name| name == person) {
                require_person(records, person)?;
            }
            vec![person]
        }
        // Time without a known owner has no page.
        None => everyone.filter(|name| *name != UNKNOWN).collect(),
    };
    let mut statement = Statement::of(&all, month, period.to() <= now);
    for name in names {
        let account = Account::of(month, &all, name, sessions.of(name));
        statement.people.push(account);
    }
    Ok(MonthAnswer {
        usage: of_report(&all, period, period.to().min(now), records.only_person()?),
        statement,
        report: all,
    })
}
