//! The accounting unit of MIG: a physical GPU is one GPU of capacity, however it is partitioned.
//!
//! A partitioned GPU consists of equal compute slices. An instance has some of them, and the parent keeps those that no
//! instance has. Time and energy of the physical GPU are dealt out to the slices in whole microseconds and millijoules:
//! slice `k` of `n` gets `floor((amount + k) / n)`. These parts add up to the amount, and none of them falls as the amount
//! grows (Hermite's identity). So the hours of the instances and of their parent add up to those of the physical GPU
//! exactly, also where a period is cut, and nothing has to be rounded later.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::GpuUuid;
use crate::sample::{Gpu, Place, Slice};

/// The slices of a physical GPU that a span accounts for: `count` of `of`, from number `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slices {
    first: u64,
    count: u64,
    of: u64,
}

impl Slices {
    /// All of a GPU.
    pub const WHOLE: Self = Self {
        first: 0,
        count: 1,
        of: 1,
    };

    /// Nothing: a parent whose instances have all slices, or a GPU that a sample names twice.
    pub const NONE: Self = Self {
        first: 0,
        count: 0,
        of: 1,
    };

    /// Returns whether there are any slices. Without one, the time of a GPU is in no state and no capacity.
    pub fn any(self) -> bool {
        self.count > 0
    }

    /// Returns what these slices have of an amount of the physical GPU.
    pub(crate) fn part(self, amount: u64) -> u64 {
        let (each, rest) = (amount / self.of, amount % self.of);
        // Slices with these numbers get one more, so that nothing is left over.
        let with_more = self.first.max(self.of - rest);
        let more = (self.first + self.count).saturating_sub(with_more);
        each * self.count + more
    }
}

/// Assigns the slices of each physical GPU to the GPUs of a sample, in their order.
///
/// Instances whose slices cannot be read share equally what the others leave. Of several physical GPUs with one UUID, the
/// first counts.
pub(crate) fn assign<'a>(gpus: &[&'a Gpu]) -> Vec<Slices> {
    let mut parents: BTreeMap<&GpuUuid, Division> = BTreeMap::new();
    for gpu in gpus {
        if let Place::Instance { parent, slice, .. } = &gpu.place {
            parents.entry(parent).or_default().count(slice.ok());
        }
    }
    let mut seen: Vec<&GpuUuid> = Vec::new();
    let assign = |gpu: &&'a Gpu| match &gpu.place {
        Place::Instance { parent, slice, .. } => parents
            .get_mut(parent)
            .map_or(Slices::NONE, |division| division.next(slice.ok())),
        _ if seen.contains(&&gpu.uuid) => Slices::NONE,
        _ => {
            seen.push(&gpu.uuid);
            let division = parents.get(&gpu.uuid);
            division.map_or(Slices::WHOLE, |division| division.rest())
        }
    };
    gpus.iter().map(assign).collect()
}

/// The slices of one physical GPU while they are assigned to its instances.
#[derive(Clone, Copy, Debug, Default)]
struct Division {
    /// Slices of the physical GPU; zero while unknown.
    of: u64,
    /// Slices of instances that report them, at most `of`.
    taken: u64,
    /// Instances that do not report their slices.
    unknown: u64,
    /// Slices that were assigned, in the unit of [`Division::unit`].
    assigned: u64,
}

impl Division {
    fn count(&mut self, slice: Option<Slice>) {
        match slice.filter(|slice| slice.of > 0) {
            Some(slice) => {
                self.of = self.of.max(slice.of.into());
                self.taken = (self.taken + u64::from(slice.slices)).min(self.of);
            }
            None => self.unknown += 1,
        }
    }

    /// Number of parts that a slice is divided into, so that instances of unknown size have equal shares.
    fn unit(self) -> u64 {
        self.unknown.max(1)
    }

    fn all(self) -> u64 {
        self.of.max(1) * self.unit()
    }

    fn next(&mut self, slice: Option<Slice>) -> Slices {
        let wanted = match slice.filter(|slice| slice.of > 0) {
            Some(slice) => u64::from(slice.slices) * self.unit(),
            None => self.of.max(1) - self.taken,
        };
        let first = self.assigned;
        let count = wanted.min(self.all() - first);
        self.assigned += count;
        Slices {
            first,
            count,
            of: self.all(),
        }
    }

    /// The slices that no instance has.
    fn rest(self) -> Slices {
        let taken = match self.unknown {
            0 => self.taken,
            _ => self.all(),
        };
        Slices {
            first: taken,
            count: self.all() - taken,
            of: self.all(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reading::{Missing, Reading};

    fn instance(parent: &str, slice: Reading<Slice>) -> Gpu {
        let uuid = format!("MIG-{parent}").parse().unwrap();
        let mut gpu = Gpu::without_readings(uuid, 0, Missing::Unsupported);
        gpu.place = Place::Instance {
            parent: parent.parse().unwrap(),
            gpu_instance: Ok(1),
            compute_instance: Ok(0),
            slice,
        };
        gpu
    }

    fn parent(uuid: &str, instances: u32) -> Gpu {
        let mut gpu = Gpu::without_readings(uuid.parse().unwrap(), 0, Missing::Unsupported);
        gpu.place = Place::Parent { instances };
        gpu
    }

    #[track_caller]
    fn check(instances: &[Option<(u32, u32)>], expected: &str) {
        let instances = instances.iter().map(|slice| {
            let slice = slice.map(|(slices, of)| Slice { slices, of });
            instance("GPU-0", slice.ok_or(Missing::Failed))
        });
        let gpus: Vec<Gpu> = std::iter::once(parent("GPU-0", 9))
            .chain(instances)
            .collect();
        let found = assign(&gpus.iter().collect::<Vec<_>>());
        let show = |it: &Slices| format!("{}+{}/{}", it.first, it.count, it.of);
        let words: Vec<String> = found.iter().map(show).collect();
        assert_eq!(words.join(" "), expected);
        for amount in [0, 1, 6, 7, 30_000_000, 30_000_001] {
            let sum: u64 = found.iter().map(|slices| slices.part(amount)).sum();
            assert_eq!(sum, amount, "{expected}");
        }
    }

    #[test]
    fn a_parent_keeps_the_slices_that_no_instance_has() {
        check(&[], "0+1/1");
        check(&[Some((3, 7))], "3+4/7 0+3/7");
        check(&[Some((3, 7)), Some((4, 7))], "7+0/7 0+3/7 3+4/7");
        check(&[Some((1, 4)), Some((2, 4))], "3+1/4 0+1/4 1+2/4");
    }

    #[test]
    fn instances_of_unknown_size_share_equally_what_the_others_leave() {
        check(&[None], "1+0/1 0+1/1");
        check(&[None, None], "2+0/2 0+1/2 1+1/2");
        check(&[Some((3, 7)), None, None], "14+0/14 0+6/14 6+4/14 10+4/14");
        check(&[None, Some((3, 7)), None], "14+0/14 0+4/14 4+6/14 10+4/14");
    }

    #[test]
    fn instances_never_have_more_than_their_parent() {
        check(&[Some((5, 7)), Some((5, 7))], "7+0/7 0+5/7 5+2/7");
        check(&[Some((7, 7)), None], "7+0/7 0+7/7 7+0/7");
        check(&[Some((9, 7)), Some((1, 0))], "7+0/7 0+7/7 7+0/7");
    }

    #[test]
    fn of_two_gpus_with_one_uuid_the_first_counts() {
        let gpus = [parent("GPU-0", 0), parent("GPU-0", 0), parent("GPU-1", 0)];
        assert_eq!(
            assign(&gpus.each_ref()),
            [Slices::WHOLE, Slices::NONE, Slices::WHOLE]
        );
    }

    proptest! {
        #[test]
        fn the_parts_of_any_cut_add_up_and_never_fall(amount in 0u64..1 << 50, more in 0u64..100, taken in prop::collection::vec(0u64..4, 1..9)) {
            let of = taken.iter().sum::<u64>().max(1);
            let mut first = 0;
            let mut sum = 0;
            for count in taken {
                let slices = Slices { first, count, of };
                first += count;
                let part = slices.part(amount);
                prop_assert!(part <= slices.part(amount + more));
                prop_assert!(part.abs_diff(amount * count / of) <= count);
                sum += part;
            }
            prop_assert_eq!(sum, if first == 0 { 0 } else { amount });
        }
    }
}
