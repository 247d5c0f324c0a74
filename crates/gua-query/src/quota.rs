//! People's use in the term of a limit.

use gua_model::Period;
use gua_model::quota::Usage;
use gua_model::report::{Report, unbalanced};
use jiff::Timestamp;

use crate::error::QueryError;
use crate::question::{Detail, Question, UsageQuestion};
use crate::records::Records;
use crate::report::report;

/// Returns people's use in a term up to now.
pub(crate) fn usage(records: &dyn Records, question: &UsageQuestion) -> Result<Usage, QueryError> {
    let UsageQuestion { period, now, .. } = *question;
    let of_term = Question {
        detail: Detail::Sums,
        ..Question::of_window(period, question.zone.clone(), now)
    };
    let report = report(records, &of_term)?;
    Ok(of_report(&report, period, now, records.only_person()?))
}

/// Computes people's use in a term up to a moment from the report of the term. `only` is the person whose use is known
/// if the records hide the others'.
pub(crate) fn of_report(
    report: &Report,
    period: Period,
    now: Timestamp,
    only: Option<String>,
) -> Usage {
    let mut people = report.people.clone();
    if let Some(only) = &only {
        people.retain(|row| row.name == *only);
    }
    Usage {
        period,
        now,
        known_from: report.known.from(),
        observed_share: report.coverage.share(),
        people,
        unbalanced: unbalanced(&report.notes).to_vec(),
        only,
    }
}
