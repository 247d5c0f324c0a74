//! Quotas: limits on the GPU use of people per day, week, month or rolling window, with the amount used, the amount
//! left and a forecast at the current rate.
//!
//! Amounts come from a report; nothing is folded a second time. They are whole numbers: microseconds of GPU time, or
//! millijoules of energy. An unmeasured amount is not zero and is never judged against a limit.

pub mod percent;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use serde::{Deserialize, Serialize};

use crate::calendar::{monday, start_of_day};
use crate::duration;
use crate::id::GpuUuid;
use crate::period::{Period, micros_between};
use crate::report::{PersonRow, UNKNOWN};
use crate::total::OwnerTotal;
use crate::unit::{Micros, float};

/// One limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    pub subject: Subject,
    pub sharing: Sharing,
    pub measure: Measure,
    pub per: Term,
    /// Limit, in whole units of the measure.
    pub most: u64,
}

/// Subject of a limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Subject {
    Everyone,
    /// A Unix group of the host.
    Group(String),
    User(String),
}

crate::words! {
    /// Whether the limit applies to each person of a subject, or to all of them together.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum Sharing {
        Each = "each",
        Together = "together",
    }
}

crate::words! {
    /// The limited quantity.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum Measure {
        Held = "held",
        IdleHeld = "idle-held",
        Charged = "charged",
        Energy = "energy",
    }
}

impl Measure {
    /// Returns the measured amount from a person's sums, and whether it includes everything that the person used.
    fn of(self, sums: &OwnerTotal) -> (u64, bool) {
        match self {
            Measure::Held => (sums.held.0, true),
            Measure::IdleHeld => (sums.idle_held.0, true),
            Measure::Charged => (sums.charged.0, sums.charged_is_all()),
            Measure::Energy => (sums.energy.0, sums.energy_is_all()),
        }
    }
}

/// Period that a limit applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Term {
    /// Calendar periods in the configured zone; a week begins on Monday.
    Day,
    Week,
    Month,
    /// A window of this length that ends now.
    Rolling(Duration),
}

impl Term {
    /// Returns the period that contains a moment; for a rolling window, the period that ends there.
    pub fn period(self, now: Timestamp, zone: &TimeZone) -> Period {
        let today = now.to_zoned(zone.clone()).date();
        let (first, next) = match self {
            Term::Rolling(length) => {
                let length = SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX);
                return Period::new(now.checked_sub(length).unwrap_or(Timestamp::MIN), now);
            }
            Term::Day => (today, today.tomorrow()),
            Term::Week => {
                let monday = monday(today);
                (monday, monday.checked_add(7.days()))
            }
            Term::Month => (today.first_of_month(), today.last_of_month().tomorrow()),
        };
        let from = start_of_day(first, zone).unwrap_or(Timestamp::MIN);
        let next = next.ok().and_then(|next| start_of_day(next, zone));
        Period::new(from, next.unwrap_or(Timestamp::MAX))
    }
}

/// A problem of a configured limit, for the person who set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitNote {
    /// Place at which the limit is configured.
    pub source: String,
    pub problem: LimitProblem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitProblem {
    /// The host's limit `by`, which is configured in `source`, is as low or lower.
    Overruled {
        by: Limit,
        source: String,
    },
    UnknownUser(String),
    UnknownGroup(String),
}

/// Use by people in a term up to now.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Usage {
    pub period: Period,
    pub now: Timestamp,
    /// Time from which the history has data within the period.
    pub known_from: Timestamp,
    /// Share of the time since then in which the GPUs were observed.
    pub observed_share: Option<f64>,
    pub people: Vec<PersonRow>,
    /// GPUs that are left out, because their states and gaps do not add up to their capacity.
    pub unbalanced: Vec<GpuUuid>,
    /// The only person whose use is known, if that of other people is hidden from the requester.
    pub only: Option<String>,
}

impl Usage {
    /// Reports whether all use of a person or a group is known.
    fn knows(&self, who: &Who) -> bool {
        let is_only = |only: &String| matches!(who, Who::Person(person) if person == only);
        self.only.as_ref().is_none_or(is_only)
    }

    /// Returns the observed time in which the amounts accumulated.
    fn observed(&self) -> Micros {
        let elapsed = micros_between(self.known_from, self.now);
        let share = self.observed_share.unwrap_or(0.0).clamp(0.0, 1.0);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a length of time, for a forecast"
        )]
        Micros((elapsed.0 as f64 * share) as u64)
    }

    /// Returns the minimum observed time for a forecast: an hour (or the whole period, if that is shorter), and at
    /// least a hundredth of the period.
    fn enough(&self) -> Micros {
        let period = self.period.micros();
        EARLIEST.min(period).max(Micros(period.0 / 100))
    }

    /// Returns the time that is still unaccounted for: the rest of a calendar period, or the part of a rolling window
    /// before the history begins.
    fn remaining(&self, per: Term) -> Micros {
        match per {
            Term::Rolling(_) => micros_between(self.period.from(), self.known_from.min(self.now)),
            Term::Day | Term::Week | Term::Month => micros_between(self.now, self.period.to()),
        }
    }
}

/// Minimum observed time for a forecast.
const EARLIEST: Micros = Micros::from_secs(3600);

crate::words! {
    /// Reason why there is no forecast.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum NoForecast {
        /// A part of the use was not measured.
        NotMeasured = "not_measured",
        /// Too little of the period was observed to compute a rate.
        TooEarly = "too_early",
    }
}

/// Subject of a standing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Who {
    Person(String),
    Group(String),
    Everyone,
}

/// Standing of a person or a group under a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    pub who: Who,
    pub limit: Limit,
    pub period: Period,
    /// Measured amount; the actual use may be larger.
    pub at_least: u64,
    /// Total amount used; `None` if a part of it was not measured.
    pub used: Option<u64>,
    /// Forecast for the end of the period, at the rate so far.
    pub forecast: Result<u64, NoForecast>,
    /// Time at which the limit is reached at that rate, if that is within the period.
    pub reached: Option<Timestamp>,
}

impl Standing {
    pub fn left(&self) -> Option<u64> {
        self.used.map(|used| self.limit.most.saturating_sub(used))
    }

    /// Reports whether more than the limit was used. Using exactly the limit is allowed.
    pub fn is_over(&self) -> bool {
        self.at_least > self.limit.most
    }

    /// Reports whether compliance can be decided: the measured amount exceeds the limit, or everything was measured.
    pub fn is_judged(&self) -> bool {
        self.is_over() || self.used.is_some()
    }

    /// Reports whether the forecast exceeds the limit.
    pub fn will_be_over(&self) -> bool {
        self.forecast
            .is_ok_and(|forecast| forecast > self.limit.most)
    }

    /// Reports whether the standing applies to this person: by name, or as a member of a group with a shared limit.
    pub fn concerns(&self, name: &str, groups: &BTreeSet<String>) -> bool {
        match &self.who {
            Who::Person(person) => person == name,
            Who::Group(group) => groups.contains(group),
            Who::Everyone => true,
        }
    }
}

/// Returns the standings under every limit: by limit, the largest user first.
///
/// Among per-person limits that differ only in their subject, the most specific applies: a limit for the user before a
/// limit for a group before a limit for everyone; of several groups, the largest limit. `members` returns the members
/// of a group.
pub fn standings<'usage>(
    limits: &[Limit],
    usage: impl Fn(Term) -> &'usage Usage,
    members: impl Fn(&str) -> BTreeSet<String>,
) -> Vec<Standing> {
    let mut found = Vec::new();
    for limit in limits {
        let usage = usage(limit.per);
        let among: Option<BTreeSet<String>> = match &limit.subject {
            Subject::Everyone => None,
            Subject::Group(group) => Some(members(group)),
            Subject::User(user) => Some(BTreeSet::from([user.clone()])),
        };
        let together = match (limit.sharing, &limit.subject) {
            (Sharing::Together, Subject::Everyone) => Some(Who::Everyone),
            (Sharing::Together, Subject::Group(group)) => Some(Who::Group(group.clone())),
            // A limit for one person is the same whether shared or not.
            (_, Subject::User(user)) => Some(Who::Person(user.clone())),
            (Sharing::Each, _) => None,
        };
        let is_among = |row: &&PersonRow| among.as_ref().is_none_or(|all| all.contains(&row.name));
        let people = usage.people.iter().filter(is_among);
        let mut of_limit: Vec<Standing> = match together {
            Some(who) => {
                let mut sums = OwnerTotal::default();
                people.for_each(|row| sums.merge(&row.sums));
                vec![stand(who, limit, usage, &sums)]
            }
            None => people
                .filter(|row| row.name != UNKNOWN)
                .filter(|row| !has_more_special(limits, limit, &row.name, &members))
                .map(|row| stand(Who::Person(row.name.clone()), limit, usage, &row.sums))
                .collect(),
        };
        of_limit.sort_by(|one, other| (other.at_least, &one.who).cmp(&(one.at_least, &other.who)));
        found.extend(of_limit);
    }
    found
}

/// Reports whether a more specific per-person limit applies to this person instead.
fn has_more_special(
    limits: &[Limit],
    limit: &Limit,
    name: &str,
    members: &impl Fn(&str) -> BTreeSet<String>,
) -> bool {
    let is_for_them = |other: &Limit| match &other.subject {
        Subject::Everyone => other.sharing == Sharing::Each,
        Subject::Group(group) => other.sharing == Sharing::Each && members(group).contains(name),
        Subject::User(user) => user == name,
    };
    let rank = |limit: &Limit| match limit.subject {
        Subject::Everyone => 0,
        Subject::Group(_) => 1,
        Subject::User(_) => 2,
    };
    limits.iter().any(|other| {
        let alike = other.measure == limit.measure && other.per == limit.per;
        let before = (rank(other), other.most) > (rank(limit), limit.most);
        alike && before && is_for_them(other)
    })
}

fn stand(who: Who, limit: &Limit, usage: &Usage, sums: &OwnerTotal) -> Standing {
    let (at_least, is_all) = limit.measure.of(sums);
    let used = (is_all && usage.knows(&who)).then_some(at_least);
    let (observed, remaining) = (usage.observed(), usage.remaining(limit.per));
    let wide = u128::from;
    let is_early = remaining > Micros(0) && observed < usage.enough();
    let forecast = match used {
        None => Err(NoForecast::NotMeasured),
        Some(_) if is_early => Err(NoForecast::TooEarly),
        Some(used) => {
            let more = (wide(used) * wide(remaining.0)).checked_div(wide(observed.0));
            let more = u64::try_from(more.unwrap_or(0)).unwrap_or(u64::MAX);
            Ok(used.saturating_add(more))
        }
    };
    let reached = used.filter(|_| forecast.is_ok()).and_then(|used| {
        let left = limit.most.checked_sub(used)?;
        let micros = (wide(left) * wide(observed.0)).checked_div(wide(used))?;
        let micros = i64::try_from(micros).ok()?;
        let is_within = u64::try_from(micros).is_ok_and(|micros| micros <= remaining.0);
        let at = usage
            .now
            .checked_add(SignedDuration::from_micros(micros))
            .ok()?;
        (is_within && observed > Micros(0) && !matches!(limit.per, Term::Rolling(_))).then_some(at)
    });
    Standing {
        who,
        limit: limit.clone(),
        period: usage.period,
        at_least,
        used,
        forecast,
        reached,
    }
}

/// Formats an amount as in a configuration file.
pub fn amount_word(measure: Measure, most: u64) -> String {
    match measure {
        Measure::Energy => {
            let watthours = most / 3_600_000;
            match watthours * 3_600_000 == most && watthours.is_multiple_of(1000) {
                true => format!("{}kWh", watthours / 1000),
                false => format!("{}Wh", float(most) / 3_600_000.0),
            }
        }
        _ => duration::written(Duration::from_micros(most)),
    }
}

#[cfg(test)]
mod tests;
