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
        };
    let mut rows: Vec<GapRow> = joined.into_iter().map(row).collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.micros), row.period));
    rows
}
