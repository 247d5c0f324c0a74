//! The statement of a month: one report for all people, cut into days.

use gua_model::calendar::CalendarUnit;
use gua_model::quota::Usage;
use gua_model::report::{Cross, UNKNOWN};
use gua_model::statement::{Account, Statement, month_period};
use serde::{Deserialize, Serialize};

use crate::error::QueryError;
use crate::question::{Detail, Question, StatementQuestion};
use crate::quota::usage;
use crate::records::Records;
use crate::report::{report_and_sessions, require_person};

/// A statement, and what people used in the month. Limits are judged by the caller, who knows them and who is in which
/// group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MonthAnswer {
    pub statement: Statement,
    pub usage: Usage,
}

/// Gathers the statement of a month.
pub fn statement(
    records: &dyn Records,
    question: &StatementQuestion,
) -> Result<MonthAnswer, QueryError> {
    let StatementQuestion { month, now, .. } = *question;
    let period = month_period(month, &question.zone);
    let of_month = Question {
        unit: Some(CalendarUnit::Day),
        cross: Some(Cross::Slot),
        detail: Detail::Accounts,
        ..Question::of_window(period, question.zone.clone(), now)
    };
    let (all, sessions) = report_and_sessions(records, &of_month)?;
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
        usage: usage(&all, period, period.to().min(now), records.only_person()?),
        statement,
    })
}
