//! Collects the use in the periods of the limits, from a report for each period, and the members of groups.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};

use gua_model::GpuUuid;
use gua_model::chain::chain;
use gua_model::failure::Failure;
use gua_model::quota::{
    Limit, LimitNote, LimitProblem, Standing, Subject, Term, Usage, Who, standings,
};
use gua_probe::process::{groups_of, is_group, is_user};
use gua_query::{QueryError, UsageQuestion};
use gua_settings::quota::{Quota, stricter};
use gua_settings::{Layer, Loaded};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::location;

/// Use of every limit.
#[derive(Debug)]
pub struct Accounts {
    pub now: Timestamp,
    pub standings: Vec<Standing>,
    /// Problems with the limits themselves.
    pub notes: Vec<LimitNote>,
    /// GPUs that are left out, because their stored hours do not add up.
    pub unbalanced: Vec<GpuUuid>,
}

impl Accounts {
    /// Reads each history once per period; `db` returns the history by which the limits of a file are judged.
    ///
    /// # Errors
    /// If a history cannot be read, or the groups of users cannot be looked up.
    pub fn of<E: From<QueryError> + From<Failure>>(
        loaded: &Loaded,
        db: impl Fn(Layer) -> PathBuf,
        zone: &TimeZone,
        now: Timestamp,
    ) -> Result<Self, E> {
        let quotas = &loaded.settings.quotas;
        let (of_host, of_user) = (db(Layer::Host), db(Layer::User));
        let db = |layer: Layer| match layer {
            Layer::Host => of_host.as_path(),
            Layer::User => of_user.as_path(),
        };
        let mut usages: BTreeMap<(&Path, Term), Usage> = BTreeMap::new();
        for quota in quotas {
            let (db, per) = (db(quota.layer), quota.value.per);
            if let Entry::Vacant(place) = usages.entry((db, per)) {
                let question = UsageQuestion {
                    period: per.period(now, zone),
                    zone: zone.clone(),
                    now,
                };
                let source = location::source_for_limits(db, quota.layer, loaded);
                place.insert(source.usage(&question)?);
            }
        }
        let of_file = |layer: Layer, per: Term| usages.get(&(db(layer), per));
        Ok(Self::evaluate(quotas, of_file, usages.values(), now)?)
    }

    /// Evaluates the limits, given the use in every period.
    ///
    /// # Errors
    /// If the groups of users cannot be looked up.
    pub fn under(
        quotas: &[Quota],
        usages: &BTreeMap<Term, Usage>,
        now: Timestamp,
    ) -> Result<Self, Failure> {
        Self::evaluate(quotas, |_, per| usages.get(&per), usages.values(), now)
    }

    fn evaluate<'usage>(
        quotas: &[Quota],
        usage: impl Fn(Layer, Term) -> Option<&'usage Usage>,
        usages: impl Iterator<Item = &'usage Usage> + Clone,
        now: Timestamp,
    ) -> Result<Self, Failure> {
        let unbalanced: BTreeSet<&GpuUuid> =
            usages.clone().flat_map(|usage| &usage.unbalanced).collect();
        let is_counting = |quota: &&Quota| stricter(quotas, quota).is_none();
        let counting: Vec<&Quota> = quotas.iter().filter(is_counting).collect();
        let people = usages.flat_map(|usage| &usage.people);
        let names: BTreeSet<&String> = people.map(|row| &row.name).collect();
        let is_of_group = |quota: &&Quota| matches!(quota.value.subject, Subject::Group(_));
        // Groups are looked up only if a limit applies to one.
        let groups = match counting.iter().any(is_of_group) {
            true => {
                let names: Vec<String> = names.iter().map(|name| (*name).clone()).collect();
                groups_of(&names).ok_or_else(no_answer)?
            }
            false => BTreeMap::new(),
        };
        let members = |group: &str| {
            let of_group = groups.iter().filter(|(_, groups)| groups.contains(group));
            of_group.map(|(name, _)| name.clone()).collect()
        };
        // Each file is evaluated separately, so that a more specific limit of a user cannot bypass the host's.
        let mut found = Vec::new();
        for layer in Layer::ALL {
            let of_file = counting.iter().filter(|quota| quota.layer == layer);
            let of_file: Vec<Limit> = of_file.map(|quota| quota.value.clone()).collect();
            let usage = |per: Term| usage(layer, per).expect("every limit's term was read");
            found.extend(standings(&of_file, usage, members));
        }
        Ok(Self {
            now,
            standings: found,
            notes: notes(quotas, &names),
            unbalanced: unbalanced.into_iter().cloned().collect(),
        })
    }

    /// Returns the limits that apply to one person.
    ///
    /// # Errors
    /// If the groups of the person cannot be looked up.
    pub fn of_person(&self, user: &str) -> Result<Vec<Standing>, Failure> {
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

/// Returns the use of every limit, computed from one history.
pub(crate) fn standings_of(
    loaded: &Loaded,
    history: &Path,
    zone: &TimeZone,
    now: Timestamp,
) -> Result<Vec<Standing>, Failure> {
    let accounts = Accounts::of::<Box<dyn Error>>(loaded, |_| history.to_owned(), zone, now);
    let accounts = accounts.map_err(|error| Failure::failed(chain(error.as_ref())))?;
    Ok(accounts.standings)
}

fn no_answer() -> Failure {
    Failure::failed("the user directory of this host does not respond, so groups are unknown")
}

/// Notes about limits that the host overrules, and those for unknown users and groups.
fn notes(quotas: &[Quota], names: &BTreeSet<&String>) -> Vec<LimitNote> {
    let mut notes = Vec::new();
    for quota in quotas {
        let problem = match (&quota.value.subject, stricter(quotas, quota)) {
            (_, Some(host)) => LimitProblem::Overruled {
                by: host.value.clone(),
                source: host.source.to_string(),
            },
            (Subject::User(name), _) if !names.contains(name) && is_user(name) == Some(false) => {
                LimitProblem::UnknownUser(name.clone())
            }
            (Subject::Group(name), _) if is_group(name) == Some(false) => {
                LimitProblem::UnknownGroup(name.clone())
            }
            _ => continue,
        };
        let source = quota.source.to_string();
        let note = LimitNote { source, problem };
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use gua_model::OwnerTotal;
    use gua_model::quota::{Measure, Sharing};
    use gua_model::report::PersonRow;
    use gua_model::{Micros, Period};

    use super::*;
    use gua_settings::Source;

    const HOUR: u64 = 3_600_000_000;

    fn quota(layer: Layer, subject: Subject, hours: u64) -> Quota {
        Quota {
            value: Limit {
                subject,
                sharing: Sharing::Each,
                measure: Measure::Held,
                per: Term::Day,
                most: hours * HOUR,
            },
            source: Source::Default,
            layer,
        }
    }

    /// Ada held five hours; `own` is what she set for herself.
    #[track_caller]
    fn check(host: &[(Subject, u64)], own: &[(Subject, u64)], limits: &[u64], is_over: bool) {
        let of = |layer, all: &[(Subject, u64)]| -> Vec<Quota> {
            let all = all.iter().cloned();
            all.map(|(subject, hours)| quota(layer, subject, hours))
                .collect()
        };
        let quotas = [of(Layer::Host, host), of(Layer::User, own)].concat();
        let day = Period::new(
            "2026-11-01T00:00:00Z".parse().unwrap(),
            "2026-11-02T00:00:00Z".parse().unwrap(),
        );
        let usage = Usage {
            period: day,
            now: day.to(),
            known_from: day.from(),
            observed_share: Some(1.0),
            people: vec![PersonRow {
                name: "ada".to_owned(),
                sums: OwnerTotal {
                    held: Micros(5 * HOUR),
                    ..OwnerTotal::default()
                },
            }],
            unbalanced: Vec::new(),
            only: None,
        };
        let usages = BTreeMap::from([(Term::Day, usage)]);
        let accounts = Accounts::under(&quotas, &usages, day.to()).unwrap();
        let found = accounts.of_person("ada").unwrap();
        let most: Vec<u64> = found.iter().map(|one| one.limit.most / HOUR).collect();
        assert_eq!(most, limits);
        assert_eq!(found.iter().any(Standing::is_over), is_over);
    }

    #[test]
    fn what_people_set_for_themselves_is_stricter_than_the_host_or_nothing() {
        let ada = || Subject::User("ada".to_owned());
        let all = || Subject::Everyone;
        // In one file, the limit of one person goes before that of everyone.
        check(&[(all(), 3), (ada(), 9)], &[], &[9], false);
        check(&[], &[(all(), 3), (ada(), 9)], &[9], false);
        // Her own file takes nothing away from what the host says.
        check(&[(all(), 3)], &[(ada(), 1000)], &[3, 1000], true);
        check(&[(all(), 3)], &[(all(), 1000)], &[3], true);
        check(&[(ada(), 3)], &[(ada(), 1000)], &[3], true);
        check(&[(ada(), 3)], &[(ada(), 3)], &[3], true);
        // It can be stricter.
        check(&[(all(), 9)], &[(ada(), 4)], &[9, 4], true);
        check(&[(ada(), 9)], &[(ada(), 4)], &[9, 4], true);
    }
}
