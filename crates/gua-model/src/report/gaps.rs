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
pub fn gap_rows<'a>(gaps: impl IntoIterator<Item = &'a Gap>, outages: &[Outage]) -> Vec<GapRow> {
    let mut joined: BTreeMap<(Period, GapReason), (usize, Micros)> = BTreeMap::new();
    for gap in gaps {
        let (gpus, micros) = joined.entry((gap.period, gap.reason)).or_default();
        *gpus += 1;
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
    let row = |((period, reason), (gpus, micros)): ((Period, GapReason), (usize, Micros))| GapRow {
        reason,
        period,
        gpus,
        micros,
        detail: detail(period, reason),
        late: false,
    };
    let mut rows: Vec<GapRow> = joined.into_iter().map(row).collect();
    rows.extend(late);
    rows.sort_by_key(|row| (std::cmp::Reverse(row.micros), row.period));
    rows
}

/// Periods in which a GPU was not observed: the time before `since`, when it was first known, and gaps of which at least
/// half of the period is missing. Short gaps before late ticks are excluded.
pub fn unseen(window: Period, since: Timestamp, gaps: &[Gap]) -> Vec<Period> {
    let before = Period::new(window.from(), since.clamp(window.from(), window.to()));
    let is_missing = |gap: &&Gap| {
        gap.micros > Cadence::JITTER && gap.micros.0 >= gap.period.micros().0.div_ceil(2)
    };
    let missing = gaps.iter().filter(is_missing).map(|gap| gap.period);
    let unseen: PeriodSet = missing.chain([before]).collect();
    unseen.parts(window).collect()
}

/// Removes covered time from gaps, and returns how much that is. A gap that is less than its period stays: its place is
/// unknown.
pub fn fill_gaps(gaps: &mut Vec<Gap>, covered: &[Period]) -> Micros {
    let set: PeriodSet = covered.iter().copied().collect();
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
    for ((period, reason), (gpus, micros)) in joined {
        if reason == GapReason::CollectorDown {
            rows.insert((period, reason), (gpus, micros));
            continue;
        }
        let Some((before, others, sum)) = open.get_mut(&reason) else {
            open.insert(reason, (period, gpus, micros));
            continue;
        };
        let between = micros_between(before.to(), period.from());
        if before.to() <= period.from() && between <= Cadence::JITTER && *others == gpus {
            *before = Period::new(before.from(), period.to());
            *sum += micros;
        } else {
            rows.insert((*before, reason), (*others, *sum));
            (*before, *others, *sum) = (period, gpus, micros);
        }
    }
    for (reason, (period, gpus, micros)) in open {
        rows.insert((period, reason), (gpus, micros));
    }
    rows
}

type Joined = BTreeMap<(Period, GapReason), (usize, Micros)>;

/// Removes the short gaps before ticks that were a little late, and returns them as one row. Their individual times are of no
/// interest.
fn without_late_ticks(mut joined: Joined) -> (Joined, Option<GapRow>) {
    let is_late = |(_, reason): &(Period, GapReason), (gpus, micros): &mut (usize, Micros)| {
        let each = micros.0 / u64::try_from((*gpus).max(1)).unwrap_or(u64::MAX);
        // A short gap with another reason is not caused by a late tick.
        *reason == GapReason::CollectorDown && Micros(each) <= Cadence::JITTER
    };
    let late = joined.extract_if(.., is_late);
    let rows = late.map(|((period, reason), (gpus, micros))| GapRow {
        reason,
        period,
        gpus,
        micros,
        detail: None,
        late: true,
    });
    let row = rows.reduce(|all, row| GapRow {
        period: all.period.hull(row.period),
        gpus: all.gpus.max(row.gpus),
        micros: all.micros + row.micros,
        ..all
    });
    (joined, row)
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
