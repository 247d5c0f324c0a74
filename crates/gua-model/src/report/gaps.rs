//! Rows of the gap table: equal gaps of several GPUs are joined into one row.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::GapRow;
use crate::cadence::Cadence;
use crate::gap::{Gap, GapReason, Outage};
use crate::period::{Period, micros_between};
use crate::period_set::PeriodSet;
use crate::unit::Micros;

/// Returns one row per period and reason, the largest first, with the detail of a matching outage.
#[must_use]
pub fn gap_rows<'a>(gaps: impl IntoIterator<Item = &'a Gap>, outages: &[Outage]) -> Vec<GapRow> {
    let mut joined: BTreeMap<(Period, GapReason), (usize, Micros)> = BTreeMap::new();
    for gap in gaps {
        let (cards, micros) = joined.entry((gap.period, gap.reason)).or_default();
        *cards += 1;
        *micros += gap.micros;
    }
    let (joined, late) = without_late_ticks(over_late_ticks(joined));
    let detail = |period: Period, reason: GapReason| {
        let matches = |outage: &&Outage| {
            outage.reason == reason
                && !outage.detail.is_empty()
                && outage.period().overlap(period).is_some()
        };
        outages
            .iter()
            .find(matches)
            .map(|outage| outage.detail.clone())
    };
    let row =
        |((period, reason), (cards, micros)): ((Period, GapReason), (usize, Micros))| GapRow {
            reason,
            period,
            cards,
            micros,
            detail: detail(period, reason),
            late: false,
        };
    let mut rows: Vec<GapRow> = joined.into_iter().map(row).collect();
    rows.extend(late);
    rows.sort_by_key(|row| (std::cmp::Reverse(row.micros), row.period));
    rows
}

/// When nobody looked at a GPU that is known `since` then: before that, and where most of a gap's period is missing. What
/// late ticks leave is none of it.
#[must_use]
pub fn unseen(window: Period, since: Timestamp, gaps: &[Gap]) -> Vec<Period> {
    let before = Period::new(window.from(), since.clamp(window.from(), window.to()));
    let is_missing = |gap: &&Gap| {
        gap.micros > Cadence::JITTER && gap.micros.0 >= gap.period.micros().0.div_ceil(2)
    };
    let missing = gaps.iter().filter(is_missing);
    let missing = missing.filter_map(|gap| gap.period.overlap(window));
    let mut all: Vec<Period> = missing.chain([before]).collect();
    all.retain(|period| !period.is_empty());
    all.sort();
    let mut joined: Vec<Period> = Vec::new();
    for period in all {
        match joined.last_mut() {
            Some(last) if period.from() <= last.to() => {
                *last = Period::new(last.from(), last.to().max(period.to()));
            }
            _ => joined.push(period),
        }
    }
    joined
}

/// Removes covered time from gaps, and returns how much that is. A gap that is less than its period stays: its place is
/// unknown.
pub fn fill_gaps(gaps: &mut Vec<Gap>, covered: &[Period]) -> Micros {
    let mut set = PeriodSet::default();
    covered.iter().for_each(|period| set.add(*period));
    let mut filled = Micros(0);
    let rest = gaps.iter().flat_map(|gap| match gap.is_whole() {
        false => vec![*gap],
        true => {
            filled += set.parts(gap.period).map(Period::micros).sum::<Micros>();
            let holes = set.holes(gap.period).map(|period| Gap {
                period,
                micros: period.micros(),
                reason: gap.reason,
            });
            holes.collect()
        }
    });
    *gaps = rest.collect();
    filled
}

/// Joins gaps of one reason that only a late tick divides: a GPU that is lost is lost in between too.
fn over_late_ticks(joined: Joined) -> Joined {
    let mut rows = Joined::new();
    let mut open: BTreeMap<GapReason, (Period, usize, Micros)> = BTreeMap::new();
    for ((period, reason), (cards, micros)) in joined {
        if reason == GapReason::CollectorDown {
            rows.insert((period, reason), (cards, micros));
            continue;
        }
        let Some((before, others, sum)) = open.get_mut(&reason) else {
            open.insert(reason, (period, cards, micros));
            continue;
        };
        let between = micros_between(before.to(), period.from());
        if before.to() <= period.from() && between <= Cadence::JITTER && *others == cards {
            *before = Period::new(before.from(), period.to());
            *sum += micros;
        } else {
            rows.insert((*before, reason), (*others, *sum));
            (*before, *others, *sum) = (period, cards, micros);
        }
    }
    for (reason, (period, cards, micros)) in open {
        rows.insert((period, reason), (cards, micros));
    }
    rows
}

type Joined = BTreeMap<(Period, GapReason), (usize, Micros)>;

/// What ticks that come a little late leave between them, of one reason as one row: where each of them was is no news.
fn without_late_ticks(joined: Joined) -> (Joined, Vec<GapRow>) {
    let mut rows = Joined::new();
    let mut late: BTreeMap<GapReason, (Period, usize, Micros)> = BTreeMap::new();
    for ((period, reason), (cards, micros)) in joined {
        let each = Micros(micros.0 / u64::try_from(cards.max(1)).unwrap_or(u64::MAX));
        // Whatever else is wrong for so short is no matter of lateness.
        if each > Cadence::JITTER || reason != GapReason::CollectorDown {
            rows.insert((period, reason), (cards, micros));
            continue;
        }
        let (hull, most, sum) = late.entry(reason).or_insert((period, 0, Micros(0)));
        *hull = Period::new(hull.from().min(period.from()), hull.to().max(period.to()));
        *most = cards.max(*most);
        *sum += micros;
    }
    let row = |(reason, (period, cards, micros))| GapRow {
        reason,
        period,
        cards,
        micros,
        detail: None,
        late: true,
    };
    (rows, late.into_iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(gaps: &[(i64, i64, GapReason)], expected: &[(i64, i64, GapReason, bool)]) {
        let period = |from, to| {
            let at = |millis| Timestamp::from_millisecond(millis).unwrap();
            Period::new(at(from), at(to))
        };
        let gaps: Vec<Gap> = gaps
            .iter()
            .map(|(from, to, reason)| Gap {
                period: period(*from, *to),
                micros: period(*from, *to).micros(),
                reason: *reason,
            })
            .collect();
        let rows: Vec<_> = gap_rows(&gaps, &[])
            .into_iter()
            .map(|row| (row.period, row.reason, row.late))
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(from, to, reason, late)| (period(*from, *to), *reason, *late))
            .collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_late_tick_does_not_divide_a_lost_gpu() {
        use GapReason::{CollectorDown, GpuLost};
        check(
            &[
                (70_000, 70_990, GpuLost),
                (70_990, 71_080, CollectorDown),
                (71_080, 80_000, GpuLost),
            ],
            &[
                (70_000, 80_000, GpuLost, false),
                (70_990, 71_080, CollectorDown, true),
            ],
        );
    }

    #[test]
    fn holes_of_late_ticks_are_one_row_and_a_short_loss_is_none_of_them() {
        use GapReason::{CollectorDown, GpuLost};
        check(
            &[
                (0, 5, CollectorDown),
                (1000, 1005, CollectorDown),
                (2000, 2500, GpuLost),
                (9000, 20_000, CollectorDown),
            ],
            &[
                (9000, 20_000, CollectorDown, false),
                (2000, 2500, GpuLost, false),
                (0, 1005, CollectorDown, true),
            ],
        );
    }

    #[test]
    fn a_gpu_is_unseen_before_its_first_sight_and_where_most_of_a_stretch_is_missing() {
        let at = |secs| Timestamp::from_second(secs).unwrap();
        let period = |from, to| Period::new(at(from), at(to));
        let gap = |from, to, secs| Gap {
            period: period(from, to),
            micros: Micros::from_secs(secs),
            reason: GapReason::CollectorDown,
        };
        let window = period(0, 10_000);
        let gaps = [
            gap(2000, 3000, 1000),
            gap(3000, 3900, 450),
            gap(5000, 5900, 449),
            gap(6000, 6001, 1),
            gap(9000, 12_000, 3000),
        ];
        let found = unseen(window, at(2000), &gaps);
        assert_eq!(found, [period(0, 3900), period(9000, 10_000)]);
        assert_eq!(unseen(window, at(-5), &[]), []);
        assert_eq!(unseen(window, at(20_000), &[]), [window]);
    }
}
