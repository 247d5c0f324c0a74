//! Since when GPUs have been in their state, and when each was last in use.

use std::collections::BTreeMap;

use gua_model::period::{Period, Quarter, micros_between};
use gua_model::pick::{LastUse, note_use};
use gua_model::since::{Since, Start, whole_quarters, within};
use gua_model::{GpuQuarter, GpuUuid, RollUp, Span, Spans, Thresholds, Totals};
use jiff::{SignedDuration, Timestamp};

use crate::error::RecordsError;
use crate::question::{LastUseQuestion, SinceQuestion};
use crate::records::{Origin, Records};

type Result<T> = std::result::Result<T, RecordsError>;

/// Steps by which a search in the totals goes back in time. They grow, because most states are young.
pub(crate) const STEPS: [SignedDuration; 3] = [
    SignedDuration::from_hours(2),
    SignedDuration::from_hours(24),
    SignedDuration::from_hours(7 * 24),
];

/// Returns the time at which each GPU was last seen in use.
pub fn last_use(records: &dyn Records, question: &LastUseQuestion) -> Result<LastUse> {
    let LastUseQuestion { from, now, .. } = *question;
    // A tick covers the time after it, so the one before the window matters too.
    let before = from.saturating_sub(SignedDuration::from_mins(10));
    let window = Period::new(before.unwrap_or(from), now);
    let spans = spans(records, question.thresholds, window, now)?;
    let mut last_use = LastUse::new();
    note_use(&mut last_use, &spans, &question.as_free);
    for used in last_use.values_mut() {
        *used = (*used).min(now);
    }
    Ok(last_use)
}

/// Since when each GPU has been in its roll-up without a break. A GPU without an answer is absent.
pub fn since(records: &dyn Records, question: &SinceQuestion) -> Result<BTreeMap<GpuUuid, Since>> {
    let now = question.now;
    let recent_from = Quarter(Quarter::of(now).0.saturating_sub(1))
        .period()
        .from();
    let window = Period::new(recent_from, now);
    let recent = spans(records, question.thresholds, window, now)?;
    let mut found = BTreeMap::new();
    for (gpu, roll_up) in &question.gpus {
        let of_gpu = || recent.iter().filter(|span| span.gpu == *gpu);
        let Some(since) = within(of_gpu(), *roll_up, now) else {
            continue;
        };
        // A state that reaches back to the first tick that was read may be older than that.
        let first = of_gpu().next();
        let reaches = first.is_some_and(|first| {
            first.from == since.at
                && !first
                    .cadence()
                    .is_missed(since.at.duration_since(recent_from).unsigned_abs())
        });
        let earlier = match reaches {
            true => follow(records, question.thresholds, (gpu, *roll_up), recent_from)?,
            false => None,
        };
        found.insert(gpu.clone(), earlier.unwrap_or(since));
    }
    Ok(found)
}

/// Follows a roll-up back over closed quarters; `until` is where one begins.
fn follow(
    records: &dyn Records,
    thresholds: Thresholds,
    (gpu, roll_up): (&GpuUuid, RollUp),
    until: Timestamp,
) -> Result<Option<Since>> {
    let mut first = Quarter::of(until);
    for step in STEPS {
        let from = until.saturating_sub(step).unwrap_or(Timestamp::MIN);
        let from = Quarter::of(from);
        let totals = totals(records, Period::new(from.period().from(), until))?;
        first = whole_quarters(&totals, gpu, roll_up, until);
        if first > from {
            break;
        }
    }
    let begin = first.period().from();
    // The state began within the quarter before, or with this one.
    let before = Quarter(first.0.saturating_sub(1)).period();
    let spans = spans(records, thresholds, before, begin)?;
    let mut of_gpu = spans.iter().filter(|span| span.gpu == *gpu);
    if let Some(since) = within(of_gpu.clone(), roll_up, begin) {
        return Ok(Some(since));
    }
    if begin == until {
        return Ok(None);
    }
    let was_observed = of_gpu.next_back().is_some_and(|last| {
        let mut states = last.shares.iter().map(|share| share.verdict.state);
        !last.cadence().is_break(micros_between(last.to, begin))
            && states.any(|state| state.roll_up().is_some())
    });
    if was_observed {
        let (at, start) = (begin, Start::Seen);
        return Ok(Some(Since { at, start }));
    }
    // A quarter counts as whole if its first tick is a little late. Nothing is known of the time before that tick.
    let quarter = first.period();
    let spans = self::spans(records, thresholds, quarter, quarter.to())?;
    let first = spans.iter().find(|span| span.gpu == *gpu);
    Ok(Some(Since {
        at: first.map_or(begin, |first| first.from.max(begin)),
        start: Start::AtLatest,
    }))
}

/// Totals of a short window, by the stored thresholds.
pub(crate) fn totals(records: &dyn Records, window: Period) -> Result<Totals> {
    let mut totals = Totals::default();
    let mut put = |quarter: Quarter, gpus: &[GpuQuarter]| totals.put(quarter, gpus);
    records.totals(Origin::Own, window, records.thresholds()?, &mut put)?;
    Ok(totals)
}

fn spans(
    records: &dyn Records,
    thresholds: Thresholds,
    window: Period,
    now: Timestamp,
) -> Result<Vec<Span>> {
    let mut fold = Spans::new(thresholds, BTreeMap::new());
    let mut spans = Vec::new();
    records.ticks(window, &mut |tick| spans.extend(fold.push(&tick)))?;
    spans.extend(fold.finish(now));
    Ok(spans)
}
