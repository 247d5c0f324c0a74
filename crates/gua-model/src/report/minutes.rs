//! Time in buckets of minutes, for windows that are too short for hours. Quarter totals are too coarse for them, so they are
//! made of spans.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::cross::add_gaps;
use super::{SlotRow, Sums};
use crate::gap::Gap;
use crate::period::Period;
use crate::span::Span;
use crate::total::QuarterTotal;
use crate::unit::Micros;

/// Length of the buckets of a window; `None` if it is long enough for hours.
pub fn bucket_length(window: Period) -> Option<SignedDuration> {
    let minutes = match window.micros().0 / 60_000_000 {
        0..=90 => 1,
        91..=180 => 2,
        181..=420 => 5,
        _ => return None,
    };
    (!window.is_empty()).then_some(SignedDuration::from_mins(minutes))
}

/// Buckets of a window while spans are added.
#[derive(Clone, Debug)]
pub struct Buckets {
    rows: Vec<(SlotRow, QuarterTotal)>,
}

impl Buckets {
    /// Divides a window at multiples of `length`.
    pub fn new(window: Period, length: SignedDuration, zone: &TimeZone) -> Self {
        let step = i64::try_from(length.as_micros()).unwrap_or(i64::MAX).max(1);
        let mut rows = Vec::new();
        let mut from = window.from();
        while from < window.to() {
            let next = (from.as_microsecond().div_euclid(step) + 1).saturating_mul(step);
            let to = Timestamp::from_microsecond(next).unwrap_or(window.to());
            let period = Period::new(from, to.min(window.to()));
            let row = SlotRow {
                label: from.to_zoned(zone.clone()).datetime(),
                period,
                sums: Sums::default(),
                gap: Micros(0),
            };
            rows.push((row, QuarterTotal::default()));
            from = period.to();
        }
        Self { rows }
    }

    /// Adds a span to the buckets that it touches.
    pub fn push(&mut self, span: &Span) {
        let first = self
            .rows
            .partition_point(|(row, _)| row.period.to() <= span.from);
        for (row, total) in &mut self.rows[first..] {
            match row.period.overlap(span.period()) {
                Some(piece) => total.add(span, piece),
                None => break,
            }
        }
    }

    /// The rows, with the gaps among them. Of one person, only the person's own hours count.
    pub fn finish(self, gaps: &[&Gap], person: Option<&str>) -> Vec<SlotRow> {
        let row = |(mut row, mut total): (SlotRow, QuarterTotal)| {
            if let Some(person) = person {
                total = total.of_person(person);
            }
            row.sums.add(&total);
            row
        };
        let mut rows: Vec<SlotRow> = self.rows.into_iter().map(row).collect();
        add_gaps(&mut rows, gaps);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{at, fold, ticks};
    use crate::state::{RollUp, Thresholds};

    #[test]
    fn a_short_window_has_buckets_of_one_to_five_minutes() {
        let check = |minutes: i64, expected: Option<i64>| {
            let window = Period::new(at(0.0), at(0.0) + SignedDuration::from_mins(minutes));
            let found = bucket_length(window).map(|length| length.as_mins());
            assert_eq!(found, expected, "{minutes} min");
        };
        check(0, None);
        check(60, Some(1));
        check(120, Some(2));
        check(360, Some(5));
        check(24 * 60, None);
    }

    #[test]
    fn buckets_have_the_time_of_the_window() {
        let ticks =
            ticks("0 gpu0 util=90 ada:900; 30 gpu0 ada:900; 90 gpu0 util=90 ada:900; 120 gpu0");
        let window = Period::new(at(0.0), at(150.0));
        let mut buckets = Buckets::new(window, SignedDuration::from_mins(1), &TimeZone::UTC);
        for span in fold(&ticks, Thresholds::default()) {
            buckets.push(&span);
        }
        let rows = buckets.finish(&[], None);
        let seconds = |hours: f64| hours * 3600.0;
        let found: Vec<[f64; 2]> = rows
            .iter()
            .map(|row| {
                [RollUp::Active, RollUp::IdleHeld]
                    .map(|class| seconds(row.sums.hours(class)).round())
            })
            .collect();
        // The tick after 60 s was late: it covers 30 s, and the rest is a gap.
        assert_eq!(found, [[30.0, 30.0], [30.0, 0.0], [0.0, 0.0]]);
    }
}
