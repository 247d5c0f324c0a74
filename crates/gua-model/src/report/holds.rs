//! People by the name that a report shows.

use std::collections::{BTreeMap, HashMap};

use super::{HoldSums, PersonRow};
use crate::id::Uid;

/// What an owner whom nobody can name is called.
pub const UNKNOWN: &str = "unknown";

/// The names of users, by uid.
#[derive(Clone, Debug, Default)]
pub struct PersonNames {
    names: HashMap<Uid, String>,
}

impl PersonNames {
    #[must_use]
    pub fn new(known: BTreeMap<Uid, String>) -> Self {
        Self {
            names: known.into_iter().collect(),
        }
    }

    /// A user without a name is called by the number.
    pub fn of(&mut self, owner: Option<Uid>) -> &str {
        match owner {
            None => UNKNOWN,
            Some(uid) => self
                .names
                .entry(uid)
                .or_insert_with(|| format!("uid {}", uid.0)),
        }
    }

    /// The login user of an old row.
    #[must_use]
    pub fn of_old(name: Option<&str>) -> &str {
        name.unwrap_or(UNKNOWN)
    }
}

/// What each person had.
#[derive(Clone, Debug, Default)]
pub struct Holds {
    people: HashMap<String, HoldSums>,
}

impl Holds {
    /// Looked up before it is inserted, so that a known person costs no copy of the name.
    pub(super) fn of(&mut self, name: &str) -> &mut HoldSums {
        if !self.people.contains_key(name) {
            self.people.insert(name.to_owned(), HoldSums::default());
        }
        self.people
            .get_mut(name)
            .expect("it was inserted if it was not there")
    }

    #[must_use]
    pub fn get(&self, name: &str) -> HoldSums {
        self.people.get(name).copied().unwrap_or_default()
    }

    /// The longest holder first; ties by name, the last first, as the replaced tool has them.
    #[must_use]
    pub fn rows(&self) -> Vec<PersonRow> {
        let row = |(name, sums): (&String, &HoldSums)| PersonRow {
            name: name.clone(),
            sums: *sums,
        };
        let mut rows: Vec<_> = self.people.iter().map(row).collect();
        rows.sort_by(|one, other| {
            let by_time = other.sums.nanos().cmp(&one.sums.nanos());
            by_time.then_with(|| other.name.cmp(&one.name))
        });
        rows
    }
}
