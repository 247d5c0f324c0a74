//! Limits, `[[quota]]`: their subject, measure, amount and period.
//!
//! ```toml
//! [[quota]]
//! user = "ada"          # or group = "students"; without either, everyone
//! charged = "100h"      # and held, idle_held, energy: one or more of them
//! per = "month"         # day, week, month, or a rolling window such as 30d
//! ```

use std::time::Duration;

use gua_model::duration;
pub use gua_model::quota::amount_word;
use gua_model::quota::{Limit, Measure, Sharing, Subject, Term};

use crate::array::{Field, Layer, Listed, Mistakes, Pair, Row};
use crate::edit::{Document, EditError};
use crate::kind::{Home, Kind as _, Parsed, Raw, expected, texts};
use crate::name::shown;
use crate::table::QuotaFields;

/// A limit with its source.
pub type Quota = Listed<Limit>;

/// Returns the host's limit that overrides a user's own one: the same subject, measure and term, and not larger.
pub fn stricter<'q>(quotas: &'q [Quota], quota: &Quota) -> Option<&'q Quota> {
    let of_host = |host: &&Quota| host.layer == Layer::Host && quota.layer == Layer::User;
    let mut of_host = quotas.iter().filter(of_host);
    of_host.find(|host| host.value.is_same(&quota.value) && host.value.most <= quota.value.most)
}

impl Row for Limit {
    type Fields = QuotaFields;
    const NOUN: &'static str = "limit";

    fn of_table(fields: &QuotaFields, start: usize, mistakes: &mut Mistakes) -> Vec<Self> {
        if let (Some(_), Some(group)) = (fields.user.at, fields.group.at) {
            let message = "quota: a limit is for a user or for a group, not for both";
            mistakes.push(group, message);
        }
        let needed = [("per", fields.per.at, "\"month\"")];
        mistakes.require::<QuotaFields>(start, &needed);
        let subject = subject(fields);
        let sharing = sharing(fields, &subject);
        let limits: Vec<Limit> = Measure::ALL
            .into_iter()
            .filter_map(|measure| {
                Some(Limit {
                    subject: subject.clone(),
                    sharing,
                    measure,
                    per: fields.per.value?,
                    most: amount_field(fields, measure).value?,
                })
            })
            .collect();
        if limits.is_empty() && mistakes.is_empty() {
            let message = "quota: nothing is limited; write held, idle_held, charged or energy";
            mistakes.push(start, message);
        }
        limits
    }

    fn is_same(&self, other: &Limit) -> bool {
        (&self.subject, self.sharing, self.measure, self.per)
            == (&other.subject, other.sharing, other.measure, other.per)
    }

    fn pairs(&self) -> Vec<Pair> {
        let (user, group) = match &self.subject {
            Subject::Everyone => (None, None),
            Subject::User(name) => (Some(name.as_str()), None),
            Subject::Group(name) => (None, Some(name.as_str())),
        };
        let (key, amount) = (key(self.measure), amount_word(self.measure, self.most));
        let is_usual = self.sharing == usual_sharing(&self.subject);
        vec![
            Pair::new("user", user),
            Pair::new("group", group),
            Pair::new("share", self.sharing.as_str()).unless(is_usual),
            Pair::new(key, amount.as_str()).in_files_only(),
            Pair::new("measure", key).in_json_only(),
            Pair::new("limit", amount).in_json_only(),
            Pair::new("per", term_word(self.per)),
        ]
    }
}

/// Sets a limit in the table with the same subject and term, or else in a new table.
///
/// # Errors
/// If the limits are written as one inline array.
pub fn set(document: &mut Document, limit: &Limit) -> Result<(), EditError> {
    let is_it = |fields: &QuotaFields| {
        let subject = subject(fields);
        let sharing = sharing(fields, &subject);
        (&subject, sharing, fields.per.value) == (&limit.subject, limit.sharing, Some(limit.per))
    };
    let amount = amount_word(limit.measure, limit.most);
    let amount = (key(limit.measure), amount.into());
    document.set_row(is_it, &[amount], &limit.to_table())
}

/// Removes the limits of a subject: all of them, or only the ones with a given measure or term. Returns their number.
pub fn remove(
    document: &mut Document,
    whose: &Subject,
    measure: Option<Measure>,
    per: Option<Term>,
) -> usize {
    let is_it = |fields: &QuotaFields| {
        subject(fields) == *whose && per.is_none_or(|per| fields.per.value == Some(per))
    };
    let wanted = |one: &Measure| measure.is_none_or(|measure| measure == *one);
    let keys: Vec<&str> = Measure::ALL.into_iter().filter(wanted).map(key).collect();
    let limits_nothing = |fields: &QuotaFields| {
        let mut measures = Measure::ALL.into_iter();
        measures.all(|measure| amount_field(fields, measure).at.is_none())
    };
    document.remove(is_it, &keys, limits_nothing)
}

fn subject(fields: &QuotaFields) -> Subject {
    match (&fields.user.value, &fields.group.value) {
        (Some(user), _) => Subject::User(user.clone()),
        (None, Some(group)) => Subject::Group(group.clone()),
        (None, None) => Subject::Everyone,
    }
}

fn sharing(fields: &QuotaFields, subject: &Subject) -> Sharing {
    let given = fields.share.value;
    given.unwrap_or_else(|| usual_sharing(subject))
}

fn amount_field(fields: &QuotaFields, measure: Measure) -> &Field<u64> {
    match measure {
        Measure::Held => &fields.held,
        Measure::IdleHeld => &fields.idle_held,
        Measure::Charged => &fields.charged,
        Measure::Energy => &fields.energy,
    }
}

/// Returns the configuration key of a measure.
pub fn key(measure: Measure) -> &'static str {
    match measure {
        Measure::Held => "held",
        Measure::IdleHeld => "idle_held",
        Measure::Charged => "charged",
        Measure::Energy => "energy",
    }
}

/// Returns the default sharing for a subject.
pub fn usual_sharing(subject: &Subject) -> Sharing {
    match subject {
        Subject::Everyone | Subject::User(_) => Sharing::Each,
        Subject::Group(_) => Sharing::Together,
    }
}

/// Parses the term of a limit.
///
/// # Errors
/// If it is neither a calendar unit nor a duration of 15 minutes or more.
pub fn term(text: &str) -> Result<Term, String> {
    match text {
        "day" => Ok(Term::Day),
        "week" => Ok(Term::Week),
        "month" => Ok(Term::Month),
        text => match duration::parse(text) {
            Ok(length) if length >= Duration::from_secs(900) => Ok(Term::Rolling(length)),
            _ => Err(expected(TermName::WHAT, text)),
        },
    }
}

/// Formats a term so that [`term`] can parse it.
pub fn term_word(term: Term) -> String {
    match term {
        Term::Day => "day".to_owned(),
        Term::Week => "week".to_owned(),
        Term::Month => "month".to_owned(),
        Term::Rolling(length) => duration::written(length),
    }
}

/// Parses an amount: microseconds on a GPU, or millijoules.
///
/// # Errors
/// If it is neither a duration nor an energy.
pub fn amount(measure: Measure, text: &str) -> Result<u64, String> {
    match measure {
        Measure::Energy => energy(text).ok_or_else(|| expected(EnergyAmount::WHAT, text)),
        _ => {
            let hours = duration::parse(text).map_err(|_| expected(GpuHours::WHAT, text))?;
            Ok(u64::try_from(hours.as_micros()).unwrap_or(u64::MAX))
        }
    }
}

/// Parses an energy such as `50kWh`, `800Wh` or `1.5MWh` into millijoules.
fn energy(text: &str) -> Option<u64> {
    const PER_WATTHOUR: f64 = 3_600_000.0;
    let units = [("kWh", 1e3), ("MWh", 1e6), ("Wh", 1.0)];
    let (number, watthours) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    let plain = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    if number.is_empty() || !number.bytes().all(plain) {
        return None;
    }
    let millijoules = number.parse::<f64>().ok()? * watthours * PER_WATTHOUR;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the value is checked to be in range"
    )]
    (0.0..1e18)
        .contains(&millijoules)
        .then_some(millijoules.round() as u64)
}

/// Whether this is a valid name of a user or a group.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 256 && !name.chars().any(gua_model::text::is_harmful)
}

texts! {
    /// Name of a user or a group.
    AccountName: String, "a name", parse_name;
    /// Whether each person has the limit, or all of them together.
    SharingName: Sharing, "each or together",
        |text| Sharing::from_word(text).ok_or(None);
    /// Period that a limit is for.
    TermName: Term, "day, week, month, or a duration of 15m or more such as 30d", |text| term(text).map_err(Some);
    /// Hours on a GPU, in microseconds.
    GpuHours: u64, "GPU hours such as 100h", |text| amount(Measure::Held, text).map_err(Some);
    /// Energy, in millijoules.
    EnergyAmount: u64, "an energy such as 50kWh", |text| amount(Measure::Energy, text).map_err(Some);
}

fn parse_name(name: &str) -> Parsed<String> {
    match is_name(name) {
        true => Ok(name.to_owned()),
        false => Err(Some(format!("`{}` is not a valid name", shown(name)))),
    }
}

#[cfg(test)]
mod tests;
