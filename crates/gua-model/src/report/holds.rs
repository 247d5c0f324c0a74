//! People by the name that a report shows.

use std::collections::HashMap;

use super::PersonRow;
use crate::total::{OwnerTotal, QuarterTotal};

pub use crate::owner::UNKNOWN;

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
    pub(super) fn add(&mut self, total: &QuarterTotal) {
        for (owner, sums) in &total.owners {
            self.of(&owner.shown()).merge(sums);
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
