//! The limits of a configuration file, `[[quota]]`: whom they are for, what they limit, and for how long.
//!
//! ```toml
//! [[quota]]
//! user = "ada"          # or group = "students"; without either, everyone
//! charged = "100h"      # and held, idle_held, energy: one or more of them
//! per = "month"         # day, week, month, or a rolling window such as 30d
//! ```

use std::cell::Cell;
use std::time::Duration;

use gua_model::quota::{Limit, Measure, Sharing, Subject, Term};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Source;
use crate::duration;
use crate::file::{nearest, shown};

/// The name of the tables.
pub const TABLE: &str = "quota";

/// The keys of a table.
pub const KEYS: [&str; 8] = [
    "user",
    "group",
    "share",
    "per",
    "held",
    "idle_held",
    "charged",
    "energy",
];

/// A limit and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    pub limit: Limit,
    pub source: Source,
    pub set_by: SetBy,
}

/// In whose file a limit stands. Those of the two files are looked at apart, and all of them hold: a user's own can be
/// stricter than the host's, and takes none of them away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetBy {
    Host,
    User,
}

impl SetBy {
    pub const ALL: [Self; 2] = [SetBy::Host, SetBy::User];
}

/// The limit of the host that leaves nothing to a user's own: it is about the same, and no larger.
#[must_use]
pub fn stricter<'q>(quotas: &'q [Quota], quota: &Quota) -> Option<&'q Quota> {
    let of_host = |host: &&Quota| host.set_by == SetBy::Host && quota.set_by == SetBy::User;
    let mut of_host = quotas.iter().filter(of_host);
    of_host.find(|host| host.is_same(&quota.limit) && host.limit.most <= quota.limit.most)
}

impl Quota {
    /// Whether two limits are about the same.
    #[must_use]
    pub fn is_same(&self, other: &Limit) -> bool {
        let own = &self.limit;
        (&own.subject, own.sharing, own.measure, own.per)
            == (&other.subject, other.sharing, other.measure, other.per)
    }
}

/// The key of a measure.
#[must_use]
pub fn key(measure: Measure) -> &'static str {
    match measure {
        Measure::Held => "held",
        Measure::IdleHeld => "idle_held",
        Measure::Charged => "charged",
        Measure::Energy => "energy",
    }
}

/// How a subject shares a limit where nothing is said.
#[must_use]
pub fn usual_sharing(subject: &Subject) -> Sharing {
    match subject {
        Subject::Everyone | Subject::User(_) => Sharing::Each,
        Subject::Group(_) => Sharing::Together,
    }
}

/// Reads the term of a limit.
pub fn term(text: &str) -> Result<Term, String> {
    match text {
        "day" => Ok(Term::Day),
        "week" => Ok(Term::Week),
        "month" => Ok(Term::Month),
        text => match duration::parse(text) {
            Ok(length) if length >= Duration::from_secs(900) => Ok(Term::Rolling(length)),
            _ => Err(format!(
                "expected day, week, month, or a duration of 15m or more such as 30d, found `{}`",
                shown(text)
            )),
        },
    }
}

/// A term as it is written.
#[must_use]
pub fn term_word(term: Term) -> String {
    match term {
        Term::Day => "day".to_owned(),
        Term::Week => "week".to_owned(),
        Term::Month => "month".to_owned(),
        Term::Rolling(length) => duration::written(length),
    }
}

/// Reads an amount of a measure, in its whole units.
pub fn amount(measure: Measure, text: &str) -> Result<u64, String> {
    match measure {
        Measure::Energy => energy(text)
            .ok_or_else(|| format!("expected an energy such as 50kWh, found `{}`", shown(text))),
        _ => {
            let hours = duration::parse(text).map_err(|_| {
                format!(
                    "expected hours on a card such as 100h, found `{}`",
                    shown(text)
                )
            })?;
            Ok(u64::try_from(hours.as_micros()).unwrap_or(u64::MAX))
        }
    }
}

/// Millijoules from `50kWh`, `800Wh` or `1.5MWh`.
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
        reason = "it was just seen to be within the range"
    )]
    (0.0..1e18)
        .contains(&millijoules)
        .then_some(millijoules.round() as u64)
}

/// The limits of one table; every mistake in it goes to `tell`, with where it stands.
pub(crate) fn limits(
    table: &DeTable<'_>,
    whole: usize,
    tell: &mut dyn FnMut(usize, String),
) -> Vec<Limit> {
    let mut texts: Vec<(&str, &str, usize)> = Vec::new();
    let is_sound = Cell::new(true);
    let mut wrong = |at: usize, message: String| {
        is_sound.set(false);
        tell(at, message);
    };
    for (name, value) in table.iter() {
        let key: &str = name.get_ref();
        let at = value.span().start;
        match (KEYS.contains(&key), value.get_ref()) {
            (false, _) => wrong(name.span().start, unknown_key(key)),
            (true, DeValue::String(text)) => texts.push((key, text.as_ref(), at)),
            (true, _) => wrong(at, format!("{TABLE}.{key}: expected a text in quotes")),
        }
    }
    let find = |key: &str| texts.iter().find(|(name, ..)| *name == key).copied();
    let subject = match (find("user"), find("group")) {
        (Some(_), Some((_, _, at))) => {
            wrong(
                at,
                format!("{TABLE}: a limit is for a user or for a group, not for both"),
            );
            Subject::Everyone
        }
        (Some((_, name, at)), None) | (None, Some((_, name, at))) if !is_name(name) => {
            wrong(at, format!("{TABLE}: `{}` cannot be a name", shown(name)));
            Subject::Everyone
        }
        (Some((_, name, _)), None) => Subject::User(name.to_owned()),
        (None, Some((_, name, _))) => Subject::Group(name.to_owned()),
        (None, None) => Subject::Everyone,
    };
    let sharing = match find("share") {
        None => usual_sharing(&subject),
        Some((_, "each", _)) => Sharing::Each,
        Some((_, "together", _)) => Sharing::Together,
        Some((_, other, at)) => {
            wrong(
                at,
                format!(
                    "{TABLE}.share: expected each or together, found `{}`",
                    shown(other)
                ),
            );
            Sharing::Each
        }
    };
    let per = match find("per") {
        None => {
            wrong(
                whole,
                format!("{TABLE}: per is missing; write per = \"month\""),
            );
            Term::Month
        }
        Some((_, text, at)) => term(text).unwrap_or_else(|message| {
            wrong(at, format!("{TABLE}.per: {message}"));
            Term::Month
        }),
    };
    let mut limits = Vec::new();
    for measure in Measure::ALL {
        let Some((key, text, at)) = find(key(measure)) else {
            continue;
        };
        match amount(measure, text) {
            Ok(most) => limits.push(Limit {
                subject: subject.clone(),
                sharing,
                measure,
                per,
                most,
            }),
            Err(message) => wrong(at, format!("{TABLE}.{key}: {message}")),
        }
    }
    if limits.is_empty() && is_sound.get() {
        let message =
            format!("{TABLE}: nothing is limited; write held, idle_held, charged or energy");
        wrong(whole, message);
    }
    // Half a limit would be another one.
    if is_sound.get() { limits } else { Vec::new() }
}

/// What a user or a group can be called.
#[must_use]
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 256 && !name.chars().any(gua_model::text::is_harmful)
}

fn unknown_key(key: &str) -> String {
    match nearest(key, KEYS.into_iter()) {
        Some(near) => format!(
            "unknown key `{}` in [[{TABLE}]]; did you mean `{near}`?",
            shown(key)
        ),
        None => format!(
            "unknown key `{}` in [[{TABLE}]]; there are {}",
            shown(key),
            KEYS.join(", ")
        ),
    }
}

/// The tables of a file's `quota`; `None` where it is something else.
pub(crate) fn tables<'v>(value: &'v Spanned<DeValue<'_>>) -> Option<Vec<(&'v DeTable<'v>, usize)>> {
    let DeValue::Array(all) = value.get_ref() else {
        return None;
    };
    let table =
        |entry: &'v Spanned<DeValue<'_>>| Some((entry.get_ref().as_table()?, entry.span().start));
    all.iter().map(table).collect()
}

/// A limit as tables of a file, for showing.
#[must_use]
pub fn shown_toml(limit: &Limit) -> String {
    let text = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let mut lines = format!("[[{TABLE}]]\n");
    match &limit.subject {
        Subject::Everyone => {}
        Subject::User(name) => lines.push_str(&format!("user = {}\n", text(name))),
        Subject::Group(name) => lines.push_str(&format!("group = {}\n", text(name))),
    }
    if limit.sharing != usual_sharing(&limit.subject) {
        lines.push_str(&format!("share = \"{}\"\n", sharing_word(limit.sharing)));
    }
    let amount = amount_word(limit.measure, limit.most);
    lines.push_str(&format!("{} = \"{amount}\"\n", key(limit.measure)));
    lines.push_str(&format!("per = \"{}\"\n", term_word(limit.per)));
    lines
}

#[must_use]
pub fn sharing_word(sharing: Sharing) -> &'static str {
    match sharing {
        Sharing::Each => "each",
        Sharing::Together => "together",
    }
}

/// An amount in the form that [`amount`] reads.
#[must_use]
pub fn amount_word(measure: Measure, most: u64) -> String {
    match measure {
        Measure::Energy => {
            let watthours = most / 3_600_000;
            match watthours * 3_600_000 == most && watthours.is_multiple_of(1000) {
                true => format!("{}kWh", watthours / 1000),
                #[expect(clippy::cast_precision_loss, reason = "for showing")]
                false => format!("{}Wh", most as f64 / 3_600_000.0),
            }
        }
        _ => duration::written(Duration::from_micros(most)),
    }
}
