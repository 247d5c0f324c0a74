//! What people had in the terms of their limits, from the report of each term; and who is in which group.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gua_model::Period;
use gua_model::quota::{Limit, Standing, Subject, Term, Usage, Who, standings};
use gua_model::report::Report;
use gua_model::text::harmless;
use gua_probe::process::{groups_of, is_group, is_user};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::config::quota::Quota;
use crate::failure::{Exit, Failure};
use crate::report::{self, ask::Ask};

/// How everyone stands.
#[derive(Debug)]
pub(crate) struct Accounts {
    pub(crate) now: Timestamp,
    pub(crate) standings: Vec<Standing>,
    /// What is odd about the limits themselves.
    pub(crate) notes: Vec<String>,
}

impl Accounts {
    /// Reads the history once for each term.
    pub(crate) fn of(
        quotas: &[Quota],
        db: &Path,
        zone: &TimeZone,
        now: Timestamp,
    ) -> anyhow::Result<Self> {
        let mut usages: BTreeMap<Term, Usage> = BTreeMap::new();
        for quota in quotas {
            let per = quota.limit.per;
            if let Entry::Vacant(place) = usages.entry(per) {
                let period = per.period(now, zone);
                let report = report::read(db, &Ask::of_window(period, zone.clone(), now))?;
                place.insert(usage(&report, period, now));
            }
        }
        Ok(Self::under(quotas, &usages, now)?)
    }

    /// How everyone stands, where the use in every term is known.
    pub(crate) fn under(
        quotas: &[Quota],
        usages: &BTreeMap<Term, Usage>,
        now: Timestamp,
    ) -> Result<Self, Failure> {
        let limits: Vec<Limit> = quotas.iter().map(|quota| quota.limit.clone()).collect();
        let names: BTreeSet<&String> = usages
            .values()
            .flat_map(|usage| usage.people.iter().map(|row| &row.name))
            .collect();
        let groups = groups(&limits, &names)?;
        let members = |group: &str| {
            let of_group = groups.iter().filter(|(_, groups)| groups.contains(group));
            of_group.map(|(name, _)| name.clone()).collect()
        };
        let usage = |per: Term| usages.get(&per).expect("every limit's term was read");
        Ok(Self {
            now,
            standings: standings(&limits, usage, members),
            notes: notes(quotas, &names),
        })
    }

    /// What concerns one person.
    pub(crate) fn of_person(&self, user: &str) -> Result<Vec<Standing>, Failure> {
        let shared = |standing: &Standing| matches!(standing.who, Who::Group(_));
        let groups = match self.standings.iter().any(shared) {
            true => groups_of(&[user.to_owned()]).ok_or_else(no_answer)?,
            false => BTreeMap::new(),
        };
        let groups = groups.into_values().next().unwrap_or_default();
        let concerns = |standing: &&Standing| standing.concerns(user, &groups);
        Ok(self.standings.iter().filter(concerns).cloned().collect())
    }
}

/// What people had in a term up to now, as its report tells it.
pub(crate) fn usage(report: &Report, period: Period, now: Timestamp) -> Usage {
    Usage {
        period,
        now,
        known_from: report.known.from(),
        observed_share: report.coverage.share(),
        people: report.people.clone(),
    }
}

/// The groups of everyone; none are asked for where no limit is for a group.
fn groups(
    limits: &[Limit],
    names: &BTreeSet<&String>,
) -> Result<BTreeMap<String, BTreeSet<String>>, Failure> {
    if !limits
        .iter()
        .any(|limit| matches!(limit.subject, Subject::Group(_)))
    {
        return Ok(BTreeMap::new());
    }
    let names: Vec<String> = names.iter().map(|name| (*name).clone()).collect();
    groups_of(&names).ok_or_else(no_answer)
}

fn no_answer() -> Failure {
    Failure {
        exit: Exit::Failed,
        message: "the host's directory of users does not answer, so that groups are not known"
            .to_owned(),
        hint: None,
    }
}

/// Limits for users and groups that nobody knows.
fn notes(quotas: &[Quota], names: &BTreeSet<&String>) -> Vec<String> {
    let mut notes = Vec::new();
    for Quota { limit, source } in quotas {
        let note = match &limit.subject {
            Subject::User(name) if !names.contains(name) && is_user(name) == Some(false) => {
                format!("{source}: this host knows no user `{}`", harmless(name))
            }
            Subject::Group(name) if is_group(name) == Some(false) => {
                format!("{source}: this host knows no group `{}`", harmless(name))
            }
            _ => continue,
        };
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}
