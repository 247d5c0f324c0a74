//! The utilisation of one GPU in the last hour.

use std::fmt;

/// Seconds of one slot. A page draws far fewer points than this allows, and 100,000 GPUs fit into memory.
const SLOT_SECONDS: i64 = 10;
/// Slots that a curve covers.
const SLOTS: usize = 360;
/// Marks a slot without a value: unobserved, not zero.
const NONE: u8 = u8::MAX;

/// Ring of utilisation values. A slot keeps the newest value of its time.
#[derive(Clone)]
pub struct Curve {
    values: Box<[u8]>,
    /// Slot of the newest value.
    newest: Option<i64>,
}

impl Default for Curve {
    fn default() -> Self {
        Self {
            values: vec![NONE; SLOTS].into_boxed_slice(),
            newest: None,
        }
    }
}

impl Curve {
    /// Adds a value. Slots without a value in between stay empty, and a value older than the newest is ignored.
    pub fn add(&mut self, second: i64, util: u8) {
        let slot = second.div_euclid(SLOT_SECONDS);
        let newest = self.newest.unwrap_or(slot - 1);
        if slot < newest {
            return;
        }
        let skipped = usize::try_from(slot - newest).unwrap_or(SLOTS);
        for step in 1..skipped.min(SLOTS) {
            let place = place(slot - i64::try_from(step).expect("at most an hour"));
            self.values[place] = NONE;
        }
        self.values[place(slot)] = util.min(100);
        self.newest = Some(slot);
    }

    /// Returns the values of the slots up to and including that of the second `until`, oldest first; `None` for an
    /// unobserved slot.
    pub fn last(&self, slots: usize, until: i64) -> impl Iterator<Item = Option<u8>> {
        let until = until.div_euclid(SLOT_SECONDS);
        let count = i64::try_from(slots.min(SLOTS)).expect("at most an hour");
        (until - count + 1..=until).map(|slot| {
            let newest = self.newest?;
            let reach = i64::try_from(SLOTS).expect("an hour has few slots");
            if slot > newest || slot <= newest - reach {
                return None;
            }
            Some(self.values[place(slot)]).filter(|value| *value != NONE)
        })
    }

    /// Divides the last hour into points, oldest first: the mean of the known values of each, or `None` without any.
    pub fn points(&self, count: usize, until: i64) -> Vec<Option<u8>> {
        let values: Vec<Option<u8>> = self.last(SLOTS, until).collect();
        let parts = values.chunks(SLOTS.div_ceil(count.max(1)));
        let mean = |part: &[Option<u8>]| {
            let known: Vec<u32> = part
                .iter()
                .flatten()
                .map(|value| u32::from(*value))
                .collect();
            let sum: u32 = known.iter().sum();
            let mean = sum.checked_div(u32::try_from(known.len()).ok()?)?;
            u8::try_from(mean).ok()
        };
        parts.map(mean).collect()
    }
}

fn place(slot: i64) -> usize {
    let length = i64::try_from(SLOTS).expect("an hour has few slots");
    usize::try_from(slot.rem_euclid(length)).expect("a remainder is not negative")
}

impl fmt::Debug for Curve {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Curve(until slot {:?})", self.newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(curve: &Curve, until: i64, expected: &str) {
        let values = curve.last(5, until);
        let shown = values.map(|value| value.map_or("-".to_owned(), |value| value.to_string()));
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn a_slot_without_a_value_is_a_gap() {
        let mut curve = Curve::default();
        check(&curve, 1000, "- - - - -");
        curve.add(1000, 10);
        curve.add(1020, 30);
        check(&curve, 1039, "- 10 - 30 -");
        curve.add(1010, 99);
        check(&curve, 1030, "- 10 - 30 -");
        curve.add(1020 + 3600, 200);
        check(&curve, 1020 + 3600, "- - - - 100");
        check(&curve, 1030, "- - - - -");
    }

    #[test]
    fn a_point_is_the_mean_of_its_known_values() {
        let mut curve = Curve::default();
        for (second, util) in [(3400, 10), (3410, 20), (3590, 90)] {
            curve.add(second, util);
        }
        assert_eq!(curve.points(18, 3599)[16..], [None, Some(40)]);
        assert_eq!(curve.points(36, 3599)[33..], [None, Some(15), Some(90)]);
    }
}
