//! The utilisation of one GPU in the last hour, one value per second.

use std::fmt;

/// Seconds that a curve covers.
const SECONDS: usize = 3600;
/// Marks a second without a frame: unobserved, not zero.
const NONE: u8 = u8::MAX;

/// Ring of utilisation values.
#[derive(Clone)]
pub struct Curve {
    values: Box<[u8]>,
    /// Second of the newest value.
    newest: Option<i64>,
}

impl Default for Curve {
    fn default() -> Self {
        Self {
            values: vec![NONE; SECONDS].into_boxed_slice(),
            newest: None,
        }
    }
}

impl Curve {
    /// Adds a value. Seconds without a value in between stay empty, and a value older than the newest is ignored.
    pub fn add(&mut self, second: i64, util: u8) {
        let newest = self.newest.unwrap_or(second - 1);
        if second < newest {
            return;
        }
        let skipped = usize::try_from(second - newest).unwrap_or(SECONDS);
        for step in 1..skipped.min(SECONDS) {
            let place = place(second - i64::try_from(step).expect("at most an hour"));
            self.values[place] = NONE;
        }
        self.values[place(second)] = util.min(100);
        self.newest = Some(second);
    }

    /// Returns the values of the seconds up to and including `until`, oldest first; `None` for an unobserved second.
    pub fn last(&self, seconds: usize, until: i64) -> impl Iterator<Item = Option<u8>> {
        let count = i64::try_from(seconds.min(SECONDS)).expect("at most an hour");
        (until - count + 1..=until).map(|second| {
            let newest = self.newest?;
            let reach = i64::try_from(SECONDS).expect("an hour has few seconds");
            if second > newest || second <= newest - reach {
                return None;
            }
            Some(self.values[place(second)]).filter(|value| *value != NONE)
        })
    }
}

fn place(second: i64) -> usize {
    let length = i64::try_from(SECONDS).expect("an hour has few seconds");
    usize::try_from(second.rem_euclid(length)).expect("a remainder is not negative")
}

impl fmt::Debug for Curve {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Curve(until {:?})", self.newest)
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
    fn a_second_without_a_frame_is_a_gap() {
        let mut curve = Curve::default();
        check(&curve, 100, "- - - - -");
        curve.add(100, 10);
        curve.add(102, 30);
        check(&curve, 103, "- 10 - 30 -");
        curve.add(101, 99);
        check(&curve, 103, "- 10 - 30 -");
        curve.add(102 + 3600, 200);
        check(&curve, 102 + 3600, "- - - - 100");
        check(&curve, 103, "- - - - -");
    }
}
