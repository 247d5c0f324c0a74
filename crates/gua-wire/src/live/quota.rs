//! Use of a host's quotas, for the alerts of a board.

use std::time::Duration;

use gua_model::Period;
use gua_model::quota::{Limit, Measure, NoForecast, Sharing, Standing, Subject, Term, Who};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::users::UserPolicy;

/// Maximum number of quotas in a report.
pub const MAX_QUOTAS: usize = 256;

/// Use of a quota by a person, a group or everyone together. Amounts are microseconds of GPU time, or millijoules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LiveQuota {
    /// Names have the form that the setting `cloud.users` permits.
    #[serde(with = "WhoWord")]
    pub who: Who,
    #[serde(with = "MeasureWord")]
    pub measure: Measure,
    pub per: QuotaTerm,
    /// Period in which the use is counted. A rolling window ends when the use was counted.
    pub from: Timestamp,
    pub to: Timestamp,
    /// Measured amount.
    pub used: u64,
    /// Whether everything that was used was measured.
    pub is_complete: bool,
    pub limit: u64,
}

impl LiveQuota {
    /// Returns the part of a standing that may leave the host; `None` if nothing was used, or if the name may not leave.
    pub fn new(users: &UserPolicy, standing: &Standing) -> Option<Self> {
        let Standing { limit, period, .. } = standing;
        let name = |name: &str| users.apply(name).map(Into::into);
        Some(Self {
            who: match &standing.who {
                _ if standing.at_least == 0 => return None,
                Who::Person(person) => Who::Person(name(person)?),
                Who::Group(group) => Who::Group(name(group)?),
                Who::Everyone => Who::Everyone,
            },
            measure: limit.measure,
            per: match limit.per {
                Term::Day => QuotaTerm::Day,
                Term::Week => QuotaTerm::Week,
                Term::Month => QuotaTerm::Month,
                Term::Rolling(_) => QuotaTerm::Rolling,
            },
            from: period.from(),
            to: period.to(),
            used: standing.at_least,
            is_complete: standing.used.is_some(),
            limit: limit.most,
        })
    }

    /// Returns the name of the person or group.
    pub fn name(&self) -> Option<&str> {
        match &self.who {
            Who::Person(name) | Who::Group(name) => Some(name),
            Who::Everyone => None,
        }
    }

    /// Returns the standing without a forecast, because forecasts do not leave the host.
    pub fn standing(&self) -> Standing {
        let period = Period::new(self.from, self.to);
        let (subject, sharing) = match &self.who {
            Who::Person(name) => (Subject::User(name.clone()), Sharing::Each),
            Who::Group(name) => (Subject::Group(name.clone()), Sharing::Together),
            Who::Everyone => (Subject::Everyone, Sharing::Together),
        };
        Standing {
            who: self.who.clone(),
            limit: Limit {
                subject,
                sharing,
                measure: self.measure,
                per: match self.per {
                    QuotaTerm::Day => Term::Day,
                    QuotaTerm::Week => Term::Week,
                    QuotaTerm::Month => Term::Month,
                    QuotaTerm::Rolling => Term::Rolling(Duration::from_micros(period.micros().0)),
                },
                most: self.limit,
            },
            period,
            at_least: self.used,
            used: self.is_complete.then_some(self.used),
            forecast: Err(NoForecast::TooEarly),
            reached: None,
        }
    }
}

/// Term of a quota. The window of a rolling quota is its period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QuotaTerm {
    Day,
    Week,
    Month,
    Rolling,
}

/// Serialized form of [`Who`].
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Who", rename_all = "kebab-case")]
enum WhoWord {
    Person(String),
    Group(String),
    Everyone,
}

/// Serialized form of [`Measure`].
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Measure", rename_all = "kebab-case")]
enum MeasureWord {
    Held,
    IdleHeld,
    Charged,
    Energy,
}
