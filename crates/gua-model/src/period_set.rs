//! A set of moments in time, stored as periods that neither overlap nor touch. Its size is the number of separate
//! periods, not the number of ticks.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::period::{Period, micros_between};
use crate::unit::Micros;

/// A set of moments in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeriodSet(BTreeMap<Timestamp, Timestamp>);

impl FromIterator<Period> for PeriodSet {
    fn from_iter<I: IntoIterator<Item = Period>>(periods: I) -> Self {
        let mut set = Self::default();
        periods.into_iter().for_each(|period| set.add(period));
        set
    }
}

impl PeriodSet {
    /// Adds all of `period`.
    pub fn add(&mut self, period: Period) {
        // Nearly always the period starts inside or at the end of the last one.
        if let Some(mut last) = self.0.last_entry()
            && (*last.key()..=*last.get()).contains(&period.from())
        {
            let end = period.to().max(*last.get());
            last.insert(end);
            return;
        }
        let holes: Vec<Period> = self.holes(period).collect();
        for hole in holes {
            self.join(hole);
        }
    }

    /// Adds all of `period`, and the time before it if that is at most `slack` after an earlier one.
    pub(crate) fn add_near(&mut self, period: Period, slack: Micros) {
        let before = self.0.range(..=period.from()).next_back();
        let is_near = |to: &Timestamp| micros_between(*to, period.from()) <= slack;
        let from = before.map(|(_, to)| *to).filter(is_near);
        let from = from.unwrap_or(period.from()).min(period.from());
        self.add(Period::new(from, period.to()));
    }

    /// Adds the leading part of `period` that is not in the set yet and returns it; `None` if its first moment is
    /// already in the set.
    pub(crate) fn claim(&mut self, period: Period) -> Option<Period> {
        let free = self
            .holes(period)
            .next()
            .filter(|hole| hole.from() == period.from())?;
        self.join(free);
        Some(free)
    }

    /// Removes the periods that end at or before this moment.
    pub(crate) fn forget_before(&mut self, at: Timestamp) {
        while let Some(first) = self.0.first_entry()
            && *first.get() <= at
        {
            first.remove();
        }
    }

    /// Returns whether any of `period` is in the set.
    pub fn touches(&self, period: Period) -> bool {
        self.parts(period).next().is_some()
    }

    /// The parts of `period` that are in the set.
    pub(crate) fn parts(&self, period: Period) -> impl Iterator<Item = Period> {
        let before = self.0.range(..=period.from()).next_back();
        let after = self.0.range(period.from()..period.to());
        let after = after.filter(move |(from, _)| **from > period.from());
        before
            .into_iter()
            .chain(after)
            .filter_map(move |(from, to)| Period::new(*from, *to).overlap(period))
    }

    /// The parts of `period` that are not in the set.
    pub(crate) fn holes(&self, period: Period) -> impl Iterator<Item = Period> {
        let end = std::iter::once(Period::new(period.to(), period.to()));
        let mut cursor = period.from();
        self.parts(period).chain(end).filter_map(move |part| {
            let hole = Period::new(cursor, part.from());
            cursor = part.to();
            (!hole.is_empty()).then_some(hole)
        })
    }

    /// Adds a period that does not overlap the set, and merges it with its neighbours.
    fn join(&mut self, free: Period) {
        let before = self.0.range(..free.from()).next_back();
        let start = before
            .filter(|(_, to)| **to == free.from())
            .map_or(free.from(), |(from, _)| *from);
        let end = self.0.remove(&free.to()).unwrap_or(free.to());
        self.0.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn period((from, length): (i64, i64)) -> Period {
        let at = |micros| Timestamp::from_microsecond(micros).unwrap();
        Period::new(at(from), at(from + length))
    }

    fn has(set: &PeriodSet, moment: i64) -> bool {
        set.touches(period((moment, 1)))
    }

    #[test]
    fn a_period_touches_the_set_when_they_have_any_time_in_common() {
        let mut set = PeriodSet::default();
        for one in [(10, 10), (12, 3), (20, 10), (50, 10)] {
            set.add(period(one));
        }
        for (from, to, expected) in [
            (0, 10, false),
            (0, 11, true),
            (15, 16, true),
            (29, 40, true),
            (30, 50, false),
            (30, 51, true),
            (0, 100, true),
            (60, 70, false),
        ] {
            assert_eq!(
                set.touches(period((from, to - from))),
                expected,
                "{from}..{to}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_moment_is_in_the_set_if_any_period_had_it(added in prop::collection::vec((0i64..60, 0i64..12), 0..12)) {
            let mut set = PeriodSet::default();
            for one in &added {
                set.add(period(*one));
            }
            for moment in 0..80 {
                let expected = added.iter().any(|(from, length)| (*from..from + length).contains(&moment));
                prop_assert_eq!(has(&set, moment), expected, "{}", moment);
            }
            let touching = set.0.iter().zip(set.0.iter().skip(1)).any(|(one, two)| one.1 >= two.0);
            prop_assert!(!touching);
        }

        #[test]
        fn parts_and_holes_lie_end_to_end(added in prop::collection::vec((0i64..60, 0i64..12), 0..12), asked in (0i64..60, 0i64..30)) {
            let mut set = PeriodSet::default();
            added.iter().for_each(|one| set.add(period(*one)));
            let asked = period(asked);
            let mut all: Vec<Period> = set.parts(asked).chain(set.holes(asked)).collect();
            all.sort();
            let mut cursor = asked.from();
            for part in all {
                prop_assert_eq!(part.from(), cursor);
                cursor = part.to();
            }
            prop_assert_eq!(cursor, asked.to());
        }

        #[test]
        fn forgetting_the_past_changes_nothing_after_it(added in prop::collection::vec((0i64..60, 0i64..12), 0..12), at in 0i64..80) {
            let mut set = PeriodSet::default();
            added.iter().for_each(|one| set.add(period(*one)));
            let mut later = set.clone();
            later.forget_before(period((at, 0)).from());
            for moment in at..80 {
                prop_assert_eq!(has(&set, moment), has(&later, moment));
            }
            prop_assert!(later.0.values().all(|to| *to > period((at, 0)).from()));
        }

        #[test]
        fn what_is_claimed_was_free(claims in prop::collection::vec((0i64..60, 0i64..12), 0..20)) {
            let mut set = PeriodSet::default();
            let mut seen = [false; 80];
            for one in claims {
                let Some(free) = set.claim(period(one)) else {
                    prop_assert!(one.1 == 0 || seen[usize::try_from(one.0).unwrap()]);
                    continue;
                };
                prop_assert_eq!(free.from(), period(one).from());
                for moment in free.from().as_microsecond()..free.to().as_microsecond() {
                    let moment = usize::try_from(moment).unwrap();
                    prop_assert!(!seen[moment]);
                    seen[moment] = true;
                }
            }
        }
    }
}
