//! A report's columns of time, and which part of a gap lies in which of them.

use gua_model::report::fold::ReportFold;
use gua_model::report::{Column, Cross, CrossRow, SlotRow};
use gua_model::{CalendarUnit, Gap, GpuUuid, Micros, Period, slots};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Every hour, day, week or month of the window, also those in which nothing was seen.
pub(super) fn slot_rows(
    fold: &ReportFold,
    seen: Period,
    unit: CalendarUnit,
    gaps: &[&Gap],
) -> Vec<SlotRow> {
    let mut rows: Vec<SlotRow> = Vec::new();
    for slot in slots(seen, &fold.question().zone, unit) {
        // An hour that the clock repeats is one row: its sums are kept by its label.
        match rows.last_mut() {
            Some(last) if last.label == slot.label => {
                last.period = Period::new(last.period.from(), slot.period.to());
            }
            _ => rows.push(SlotRow {
                label: slot.label,
                period: slot.period,
                sums: fold.slots.get(&slot.label).cloned().unwrap_or_default(),
                gap: Micros(0),
            }),
        }
    }
    for gap in gaps {
        for (place, micros) in in_slots(gap, &rows) {
            rows[place].gap += micros;
        }
    }
    rows
}

/// Time crossed with cards and people, with the gaps of each card; empty unless it was asked for.
pub(super) fn cross_rows<'a>(
    fold: &ReportFold,
    slots: &[SlotRow],
    cards: &[GpuUuid],
    people: &[String],
    gaps: &dyn Fn(&GpuUuid) -> &'a [Gap],
) -> Vec<CrossRow> {
    let Some(cross) = fold.question().cross else {
        return Vec::new();
    };
    let labels: Vec<DateTime> = slots.iter().map(|slot| slot.label).collect();
    let mut rows = fold.crossed(&labels, cards, people);
    for (card, gpu) in cards.iter().enumerate() {
        for gap in gaps(gpu) {
            let parts = match cross {
                Cross::Slot => in_slots(gap, slots),
                Cross::HourOfDay | Cross::WeekHour => in_hours(gap, &fold.question().zone, cross),
            };
            for (place, micros) in parts {
                let row = &mut rows[place];
                row.gap += micros;
                row.cards[card].gap += micros;
            }
        }
    }
    rows
}

/// Which slots a gap lies in. Of a gap that is only a part of its stretch, no more is known than its sum: the first slots
/// have it.
fn in_slots(gap: &Gap, rows: &[SlotRow]) -> Vec<(usize, Micros)> {
    let first = rows.partition_point(|row| row.period.to() <= gap.period.from());
    let overlapping = rows[first..]
        .iter()
        .map_while(|row| row.period.overlap(gap.period));
    laid(gap, (first..).zip(overlapping))
}

/// The same for hours of the day or of the week.
fn in_hours(gap: &Gap, zone: &TimeZone, cross: Cross) -> Vec<(usize, Micros)> {
    let pieces = slots(gap.period, zone, CalendarUnit::Hour).filter_map(|slot| {
        match cross.column(slot.label, slot.label) {
            Column::Hour(place) => Some((place, slot.period)),
            Column::Slot(_) => None,
        }
    });
    laid(gap, pieces)
}

fn laid(gap: &Gap, pieces: impl Iterator<Item = (usize, Period)>) -> Vec<(usize, Micros)> {
    let mut left = gap.micros;
    let mut parts = Vec::new();
    for (place, piece) in pieces {
        let here = piece.micros().min(left);
        left = Micros(left.0 - here.0);
        parts.push((place, here));
    }
    parts
}
