//! A small ordered map backed by a vector. A GPU has one or two states and owners per quarter hour, so a binary search
//! in a vector beats a tree, and clearing the map keeps its allocation for the next quarter.

use std::cmp::Ordering;
use std::ops::Index;

use serde::{Deserialize, Serialize};

/// An ordered map for a few entries. Clearing it keeps its allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VecMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for VecMap<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> VecMap<K, V> {
    /// Returns the value of `key`, inserting the default if it is absent.
    pub fn entry(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let place = self.0.binary_search_by(|(mine, _)| mine.cmp(&key));
        self.at_or(place, || key)
    }

    /// Returns the value of the key to which `order` compares as equal; inserts the default for `key` if it is absent. `order` must
    /// order the keys as their type does.
    pub(crate) fn entry_by(
        &mut self,
        mut order: impl FnMut(&K) -> Ordering,
        key: impl FnOnce() -> K,
    ) -> &mut V
    where
        V: Default,
    {
        let place = self.0.binary_search_by(|(mine, _)| order(mine));
        self.at_or(place, || {
            let key = key();
            debug_assert!(order(&key).is_eq(), "the order finds the new key");
            key
        })
    }

    fn at_or(&mut self, place: Result<usize, usize>, key: impl FnOnce() -> K) -> &mut V
    where
        V: Default,
    {
        let place = place.unwrap_or_else(|place| {
            self.0.insert(place, (key(), V::default()));
            place
        });
        &mut self.0[place].1
    }

    /// Appends an entry; returns `false`, without adding it, unless its key is greater than all others.
    #[must_use]
    pub fn push(&mut self, key: K, value: V) -> bool {
        let follows = self.0.last().is_none_or(|(last, _)| *last < key);
        if follows {
            self.0.push((key, value));
        }
        follows
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        let place = self.0.binary_search_by(|(mine, _)| mine.cmp(key)).ok()?;
        self.0.get(place).map(|(_, value)| value)
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.0.binary_search_by(|(mine, _)| mine.cmp(key)).ok()?;
        Some(self.0.remove(place).1)
    }
}

impl<K, V> VecMap<K, V> {
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.0.iter_mut().map(|(key, value)| (&*key, value))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool) {
        self.0.retain(|(key, value)| keep(key, value));
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl<'a, K, V> IntoIterator for &'a VecMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = std::iter::Map<std::slice::Iter<'a, (K, V)>, fn(&'a (K, V)) -> Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(key, value)| (key, value))
    }
}

impl<K: Ord, V> Index<&K> for VecMap<K, V> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        self.get(key)
            .expect("the caller indexes with a key that is present")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_behaves_like_a_btree_map(steps in prop::collection::vec((0u8..12, any::<bool>()), 0..60)) {
            let mut expected = BTreeMap::new();
            let mut map: VecMap<u8, u32> = VecMap::default();
            for (key, add) in steps {
                if add {
                    *expected.entry(key).or_default() += 1;
                    *map.entry(key) += 1;
                } else {
                    prop_assert_eq!(map.remove(&key), expected.remove(&key));
                }
                prop_assert!(map.iter().eq(expected.iter()));
                prop_assert_eq!(map.get(&key), expected.get(&key));
            }
        }
    }

    #[test]
    fn an_entry_out_of_order_is_not_appended() {
        let mut map = VecMap::default();
        assert!(map.push(3, 'a'));
        assert!(!map.push(3, 'b') && !map.push(2, 'c'));
        assert!(map.push(4, 'd'));
        assert_eq!(map.values().collect::<String>(), "ad");
    }
}
