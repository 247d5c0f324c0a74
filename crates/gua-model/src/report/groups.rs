//! Sums of a report by group, project, job, pod or container, in place of people.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Hold, PersonRow, Report};
use crate::owner::{Workload, is_match};
use crate::span::proportion;
use crate::state::Thresholds;
use crate::total::OwnerTotal;
use crate::unit::Micros;

/// Name of the row for people without a group, and for processes without a job, pod or container.
pub const NONE: &str = "none";

/// A group or a project of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub name: String,
    pub kind: GroupKind,
    /// Patterns of its members' names, as reports show them.
    pub members: Vec<String>,
}

crate::words! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum GroupKind {
        #[default]
        Group = "group",
        Project = "project",
    }
}

/// Kind of workload that a process belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkloadKind {
    Job,
    Pod,
    Container,
}

impl WorkloadKind {
    /// Returns the name of the job, pod or container, or else its ID.
    pub fn name(self, workload: &Workload) -> Option<String> {
        match self {
            Self::Job => workload.job.as_ref().map(ToString::to_string),
            Self::Pod => workload.pod_label(usize::MAX),
            Self::Container => workload.container_label(usize::MAX),
        }
    }
}

/// Returns the names of the groups of this kind that a person is in.
pub fn groups_of(person: &str, kind: GroupKind, groups: &[Group]) -> Vec<String> {
    let is_in = |group: &&Group| {
        group.kind == kind && group.members.iter().any(|member| is_match(member, person))
    };
    let names = groups.iter().filter(is_in).map(|group| group.name.clone());
    names.collect()
}

/// Adds up people by group, the longest holder first. A person in several groups counts in each of them, and one without a
/// group in [`NONE`].
pub fn grouped(people: &[PersonRow], groups_of: impl Fn(&str) -> Vec<String>) -> Vec<PersonRow> {
    let mut sums = NamedSums::default();
    for person in people {
        let groups = groups_of(&person.name);
        if groups.is_empty() {
            sums.add(NONE, &person.sums);
        }
        for group in groups {
            sums.add(&group, &person.sums);
        }
    }
    sums.rows()
}

impl Report {
    /// Shows groups in place of people, also in columns of time and as owners of sessions. Of a session whose owner is in
    /// several groups, all of them are named.
    pub fn regroup(&mut self, groups_of: impl Fn(&str) -> Vec<String>) {
        let groups = grouped(&self.people, &groups_of);
        for column in &mut self.cross {
            let sums = column.people.iter().zip(&self.people);
            let people = sums.map(|(sums, person)| PersonRow {
                name: person.name.clone(),
                sums: *sums,
            });
            let found = grouped(&people.collect::<Vec<_>>(), &groups_of);
            let of_group = |group: &PersonRow| {
                let same = found.iter().find(|row| row.name == group.name);
                same.map(|row| row.sums).unwrap_or_default()
            };
            column.people = groups.iter().map(of_group).collect();
        }
        for session in &mut self.sessions {
            if let Some(owner) = &mut session.owner {
                let groups = groups_of(owner);
                *owner = match groups.is_empty() {
                    true => NONE.to_owned(),
                    false => groups.join(", "),
                };
            }
        }
        self.people.clone_from(&groups);
        self.groups = groups;
    }
}

/// Sums by name.
#[derive(Clone, Debug, Default)]
pub struct NamedSums(BTreeMap<String, OwnerTotal>);

impl NamedSums {
    fn add(&mut self, name: &str, sums: &OwnerTotal) {
        self.0.entry(name.to_owned()).or_default().merge(sums);
    }

    /// Adds the part of a session that lies in the window. Its idle time is not recorded tick by tick, so that a session
    /// that the window cuts counts in proportion. How a shared GPU is charged is not recorded by session.
    pub fn add_session(&mut self, name: Option<&str>, hold: &Hold, thresholds: &Thresholds) {
        let observed = hold.observed.unwrap_or_default();
        let held = hold.observed_within.unwrap_or(observed);
        let within = |time: Option<Micros>| {
            Micros(proportion(time.unwrap_or_default().0, held.0, observed.0))
        };
        let sums = OwnerTotal {
            held,
            idle_held: within(hold.idle_held),
            free: within(hold.free(thresholds)),
            ticks: hold.samples,
            ..OwnerTotal::default()
        };
        self.add(name.unwrap_or(NONE), &sums);
    }

    /// Returns the rows, the longest holder first.
    pub fn rows(self) -> Vec<PersonRow> {
        let rows = self.0.into_iter();
        let mut rows: Vec<_> = rows.map(|(name, sums)| PersonRow { name, sums }).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.sums.held));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(name: &str, hours: u64) -> PersonRow {
        PersonRow {
            name: name.to_owned(),
            sums: OwnerTotal {
                held: Micros::from_secs(hours * 3600),
                ..OwnerTotal::default()
            },
        }
    }

    fn group(kind: GroupKind, name: &str, members: &str) -> Group {
        Group {
            name: name.to_owned(),
            kind,
            members: members.split(' ').map(str::to_owned).collect(),
        }
    }

    #[test]
    fn people_count_in_each_of_their_groups_and_the_rest_in_none() {
        let groups = [
            group(GroupKind::Group, "vision", "ada bob"),
            group(GroupKind::Group, "speech", "bob container:*"),
            group(GroupKind::Project, "mars", "ada"),
        ];
        let people = [
            person("ada", 5),
            person("bob", 2),
            person("container:llm-api", 9),
            person("eve", 1),
        ];
        let check = |kind, expected: &[(&str, f64)]| {
            let rows = grouped(&people, |name| groups_of(name, kind, &groups));
            let rows: Vec<_> = rows
                .iter()
                .map(|row| (row.name.as_str(), row.sums.held.hours()))
                .collect();
            assert_eq!(rows, expected);
        };
        check(
            GroupKind::Group,
            &[("speech", 11.0), ("vision", 7.0), (NONE, 1.0)],
        );
        check(GroupKind::Project, &[(NONE, 12.0), ("mars", 5.0)]);
    }

    #[test]
    fn a_session_that_the_window_cuts_counts_in_proportion() {
        let hours = |hours: u64| Micros::from_secs(hours * 3600);
        let hold = Hold {
            observed: Some(hours(8)),
            observed_within: Some(hours(2)),
            idle_held: Some(hours(4)),
            ..super::super::test_hold(0, "ada", 8, 0)
        };
        let mut sums = NamedSums::default();
        sums.add_session(Some("4711"), &hold, &Thresholds::default());
        sums.add_session(None, &hold, &Thresholds::default());
        let rows = sums.rows();
        let row = &rows[0];
        assert_eq!(
            (row.name.as_str(), row.sums.held, row.sums.idle_held),
            ("4711", hours(2), hours(1))
        );
        assert_eq!(rows[1].name, NONE);
    }
}
