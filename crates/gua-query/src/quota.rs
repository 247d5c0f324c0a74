//! People's use in the term of a limit.

use gua_model::Period;
use gua_model::quota::Usage;
use gua_model::report::{Report, unbalanced};
use jiff::Timestamp;

/// Computes people's use in a term up to a moment from the report of the term. `only` is the person whose use is known
/// if the records hide the others'.
#[must_use]
pub fn usage(report: &Report, period: Period, now: Timestamp, only: Option<String>) -> Usage {
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
