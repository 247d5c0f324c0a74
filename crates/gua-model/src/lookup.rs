//! Maps whose keys are costly to copy, such as names.

use std::borrow::Borrow;
use std::collections::BTreeMap;

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
