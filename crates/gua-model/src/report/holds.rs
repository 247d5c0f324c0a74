//! People by the name that a report shows.

use std::collections::BTreeMap;

use super::PersonRow;
use crate::lookup::entry;
use crate::total::{OwnerTotal, QuarterTotal};

pub use crate::owner::UNKNOWN;

/// Sums per person.
#[derive(Clone, Debug, Default)]
pub struct Holds {
    people: BTreeMap<String, OwnerTotal>,
}

impl Holds {
    /// Adds the sums of each owner of a total.
    pub(super) fn add(&mut self, total: &QuarterTotal) {
        for (owner, sums) in &total.owners {
            entry(&mut self.people, &*owner.shown()).merge(sums);
        }
    }

    pub fn get(&self, name: &str) -> OwnerTotal {
        self.people.get(name).copied().unwrap_or_default()
    }

    /// The longest holder first; ties by name, the last first, as the replaced tool has them.
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
