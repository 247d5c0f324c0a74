//! People by the name that a report shows.

use super::PersonRow;
use crate::total::{OwnerTotal, QuarterTotal};
use crate::vec_map::VecMap;

pub use crate::owner::UNKNOWN;

/// Sums per person.
#[derive(Clone, Debug, Default)]
pub struct Holds {
    people: VecMap<String, OwnerTotal>,
}

impl Holds {
    /// Adds the sums of each owner of a total.
    pub(super) fn add(&mut self, total: &QuarterTotal) {
        for (owner, sums) in &total.owners {
            let name = &*owner.shown();
            let place = |known: &String| known.as_str().cmp(name);
            self.people.entry_by(place, || name.to_owned()).merge(sums);
        }
    }

    pub fn get(&self, name: &str) -> OwnerTotal {
        self.people
            .get(&name.to_owned())
            .copied()
            .unwrap_or_default()
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
