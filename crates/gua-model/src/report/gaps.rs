//! Gaps of single cards, told once for all the cards that they hit.

use std::collections::BTreeMap;

use super::GapRow;
use crate::gap::{Gap, GapReason, Outage};
use crate::period::Period;
use crate::unit::Micros;

/// One row for each stretch and reason, the largest first. Outages lend their words.
#[must_use]
pub fn gap_rows<'a>(gaps: impl IntoIterator<Item = &'a Gap>, outages: &[Outage]) -> Vec<GapRow> {
    let mut joined: BTreeMap<(Period, GapReason), (usize, Micros)> = BTreeMap::new();
    for gap in gaps {
        let (cards, micros) = joined.entry((gap.period, gap.reason)).or_default();
        *cards += 1;
        *micros += gap.micros;
    }
    let (joined, late) = without_late_ticks(joined);
    let detail = |period: Period, reason: GapReason| {
        let told = |outage: &&Outage| {
            outage.reason == reason
                && !outage.detail.is_empty()
                && outage.period().overlap(period).is_some()
        };
        outages
            .iter()
            .find(told)
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

type Joined = BTreeMap<(Period, GapReason), (usize, Micros)>;

/// What ticks that come a little late leave between them, of one reason as one row: where each of them was is no news.
fn without_late_ticks(joined: Joined) -> (Joined, Vec<GapRow>) {
    const LATE: Micros = Micros::from_secs(1);
    let mut rows = Joined::new();
    let mut late: BTreeMap<GapReason, (Period, usize, Micros)> = BTreeMap::new();
    for ((period, reason), (cards, micros)) in joined {
        let each = Micros(micros.0 / u64::try_from(cards.max(1)).unwrap_or(u64::MAX));
        if each > LATE {
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
