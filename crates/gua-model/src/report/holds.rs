//! People by the name that a report shows.

use std::collections::{BTreeMap, HashMap};

use super::PersonRow;
use crate::id::Uid;
use crate::total::{OwnerKey, OwnerTotal, QuarterTotal};

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

    /// The name of an owner of totals.
    pub fn of_key<'a>(&'a mut self, owner: &'a OwnerKey) -> &'a str {
        match owner {
            OwnerKey::Name(name) => name,
            OwnerKey::Unknown | OwnerKey::User(_) => self.of(owner.uid()),
        }
    }
}

/// What each person had.
#[derive(Clone, Debug, Default)]
pub struct Holds {
    people: HashMap<String, OwnerTotal>,
}

impl Holds {
    /// Looked up before it is inserted, so that a known person costs no copy of the name.
    fn of(&mut self, name: &str) -> &mut OwnerTotal {
        if !self.people.contains_key(name) {
            self.people.insert(name.to_owned(), OwnerTotal::default());
        }
        self.people
            .get_mut(name)
            .expect("it was inserted if it was not there")
    }

    /// Adds what each owner of a total had.
    pub(super) fn add(&mut self, total: &QuarterTotal, names: &mut PersonNames) {
        for (owner, sums) in &total.owners {
            self.of(names.of_key(owner)).merge(sums);
        }
    }

    #[must_use]
    pub fn get(&self, name: &str) -> OwnerTotal {
        self.people.get(name).copied().unwrap_or_default()
    }

    /// The longest holder first; ties by name, the last first, as the replaced tool has them.
    #[must_use]
    pub fn rows(&self) -> Vec<PersonRow> {
        let row = |(name, sums): (&String, &OwnerTotal)| PersonRow {
            name: name.clone(),
            sums: *sums,
        };
        let mut rows: Vec<_> = self.people.iter().map(row).collect();
        rows.sort_by(|one, other| {
            let by_time = other.sums.held.cmp(&one.sums.held);
            by_time.then_with(|| other.name.cmp(&one.name))
        });
        rows
    }
}
