//! A handful of values by key, in the order of the keys. A quarter hour of a card has one or two states and owners:
//! in a vector they are found at once, and the room is used again for the next quarter.

use std::ops::Index;

/// A map for few entries. It is cleared without giving its room back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sorted<K, V>(Vec<(K, V)>);

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> Sorted<K, V> {
    /// The value of a key, made anew where there is none.
    pub fn entry(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let place = match self.0.binary_search_by(|(mine, _)| mine.cmp(&key)) {
            Ok(place) => place,
            Err(place) => {
                self.0.insert(place, (key, V::default()));
                place
            }
        };
        &mut self.0[place].1
    }

    /// Adds an entry behind all others; `false` where its key does not come after theirs.
    #[must_use]
    pub fn push(&mut self, key: K, value: V) -> bool {
        let follows = self.0.last().is_none_or(|(last, _)| *last < key);
        if follows {
            self.0.push((key, value));
        }
        follows
    }

    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        let place = self.0.binary_search_by(|(mine, _)| mine.cmp(key)).ok()?;
        self.0.get(place).map(|(_, value)| value)
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.0.binary_search_by(|(mine, _)| mine.cmp(key)).ok()?;
        Some(self.0.remove(place).1)
    }
}

impl<K, V> Sorted<K, V> {
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
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

impl<'a, K, V> IntoIterator for &'a Sorted<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = std::iter::Map<std::slice::Iter<'a, (K, V)>, fn(&'a (K, V)) -> Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(key, value)| (key, value))
    }
}

impl<K: Ord, V> Index<&K> for Sorted<K, V> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        self.get(key)
            .expect("the caller knows that the key is there")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0u8..12, any::<bool>()), 0..60)) {
            let mut map = BTreeMap::new();
            let mut sorted: Sorted<u8, u32> = Sorted::default();
            for (key, add) in steps {
                if add {
                    *map.entry(key).or_default() += 1;
                    *sorted.entry(key) += 1;
                } else {
                    prop_assert_eq!(sorted.remove(&key), map.remove(&key));
                }
                prop_assert!(sorted.iter().eq(map.iter()));
                prop_assert_eq!(sorted.get(&key), map.get(&key));
            }
        }
    }

    #[test]
    fn what_is_not_in_order_is_not_taken() {
        let mut sorted = Sorted::default();
        assert!(sorted.push(3, 'a'));
        assert!(!sorted.push(3, 'b') && !sorted.push(2, 'c'));
        assert!(sorted.push(4, 'd'));
        assert_eq!(sorted.values().collect::<String>(), "ad");
    }
}
