//! Maps whose keys are costly to copy, such as names.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use crate::id::GpuUuid;

/// Returns the value of a key, and inserts the default if it is absent. Unlike [`BTreeMap::entry`], it copies the key only to
/// insert it.
pub(crate) fn entry<'m, K, V, Q>(map: &'m mut BTreeMap<K, V>, key: &Q) -> &'m mut V
where
    K: Borrow<Q> + Ord,
    V: Default,
    Q: Ord + ToOwned<Owned = K> + ?Sized,
{
    if !map.contains_key(key) {
        map.insert(key.to_owned(), V::default());
    }
    map.get_mut(key).expect("it was inserted if it was absent")
}

/// Values by GPU, for moments that list the same GPUs in the same order one after the other: finding the next GPU takes one
/// comparison.
#[derive(Clone, Debug)]
pub(crate) struct InTurn<V> {
    places: BTreeMap<GpuUuid, usize>,
    values: Vec<(GpuUuid, V)>,
    next: usize,
}

impl<V> Default for InTurn<V> {
    fn default() -> Self {
        Self {
            places: BTreeMap::new(),
            values: Vec::new(),
            next: 0,
        }
    }
}

impl<V: Default> InTurn<V> {
    /// Returns the value of a GPU, and inserts the default if it is absent.
    pub(crate) fn entry(&mut self, gpu: &GpuUuid) -> &mut V {
        let mut place = self.next;
        if self.values.get(place).is_none_or(|(name, _)| name != gpu) {
            place = self.places.get(gpu).copied().unwrap_or_else(|| {
                self.places.insert(gpu.clone(), self.values.len());
                self.values.push((gpu.clone(), V::default()));
                self.values.len() - 1
            });
        }
        self.next = (place + 1) % self.values.len();
        &mut self.values[place].1
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.values.iter_mut().map(|(_, value)| value)
    }

    /// Calls `each` with every GPU, in the order of their names.
    pub(crate) fn for_each(&mut self, mut each: impl FnMut(&GpuUuid, &mut V)) {
        for (gpu, place) in &self.places {
            each(gpu, &mut self.values[*place].1);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn gpus_in_any_order_have_the_values_of_a_map(steps in prop::collection::vec(0_usize..6, 0..40)) {
            let mut expected: BTreeMap<GpuUuid, usize> = BTreeMap::new();
            let mut found: InTurn<usize> = InTurn::default();
            for number in steps {
                let gpu: GpuUuid = format!("GPU-{number}").parse().unwrap();
                *entry(&mut expected, &gpu) += 1;
                *found.entry(&gpu) += 1;
            }
            let mut all = Vec::new();
            found.for_each(|gpu, count| all.push((gpu.clone(), *count)));
            prop_assert!(expected.into_iter().eq(all));
        }
    }
}
