//! Rules for sessions: when an imported one counts as current, and how much of one was observed within a window.

use jiff::{SignedDuration, Timestamp};

use super::Hold;
use crate::gap::Gap;
use crate::period::Period;
use crate::state::Thresholds;
use crate::unit::{Bytes, Centipercent, Micros};

/// Maximum time between the end of a current imported session and the last tick, as in gpu-usage-audit.
pub const IMPORTED_SLACK: SignedDuration = SignedDuration::from_secs(120);

/// Whether a session of imported rows, last seen at `last_row`, counts as current at the last tick of a window.
pub fn is_imported_current(last_row: Timestamp, last_tick: Option<Timestamp>) -> bool {
    let recent = last_tick.and_then(|last| last.checked_sub(IMPORTED_SLACK).ok());
    recent.is_some_and(|recent| last_row >= recent)
}

/// Whether a session held a GPU without using it: its mean utilisation is below the threshold `active_util`, and its peak memory is
/// above `held_mb`. If the driver hides the memory, `hidden` says whether it counts as above.
pub(super) fn is_without_use(
    util: Option<f64>,
    peak_memory: Option<Bytes>,
    hidden: bool,
    thresholds: &Thresholds,
) -> bool {
    let low = util.is_some_and(|util| util < f64::from(thresholds.active_util.get()));
    let over = |memory: Bytes| memory.whole_mb() > thresholds.held_mb;
    low && peak_memory.map_or(hidden, over)
}

/// Converts a mean utilisation to percent, the unit of reports.
pub fn percent(util: Centipercent) -> f64 {
    f64::from(util.0) / 100.0
}

/// Time of a session that was observed within a window; `None` for imported rows, or outside of the window.
///
/// A session that the window cuts does not record when it was observed. Its part in the window counts, less the gaps of its
/// GPU: a gap that is only a part of its period counts in proportion.
pub fn observed_within(hold: &Hold, window: Period, gaps: &[Gap]) -> Option<Micros> {
    let observed = hold.observed?;
    let part = hold.period.overlap(window)?;
    if part == hold.period {
        return Some(observed);
    }
    let missing = gaps.iter().filter_map(|gap| {
        let inside = gap.period.overlap(part)?.micros();
        let whole = gap.period.micros().0.max(1);
        let missing = u128::from(gap.micros.0) * u128::from(inside.0) / u128::from(whole);
        u64::try_from(missing).ok()
    });
    let seen = part.micros().0.saturating_sub(missing.sum());
    Some(Micros(seen.min(observed.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gap::GapReason;

    fn at(minute: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute)
    }

    fn period(from: i64, to: i64) -> Period {
        Period::new(at(from), at(to))
    }

    fn minutes(count: u64) -> Micros {
        Micros::from_secs(count * 60)
    }

    #[test]
    fn an_imported_session_is_current_up_to_two_minutes_before_the_last_tick() {
        let check = |last: Option<i64>, expected| {
            assert_eq!(is_imported_current(at(20), last.map(at)), expected);
        };
        check(Some(20), true);
        check(Some(22), true);
        check(Some(23), false);
        check(None, false);
    }

    #[test]
    fn a_session_that_the_window_cuts_was_observed_in_its_part_less_the_gaps_there() {
        let check = |window: Period, gap: Option<(Period, u64)>, expected: Option<u64>| {
            let gaps: Vec<Gap> = gap
                .into_iter()
                .map(|(period, micros)| Gap {
                    period,
                    micros: minutes(micros),
                    reason: GapReason::CollectorDown,
                })
                .collect();
            let hold = Hold {
                observed: Some(minutes(50)),
                ..super::super::longest::tests::hold(0, "ada", 1, 0)
            };
            let found = observed_within(&hold, window, &gaps);
            assert_eq!(found, expected.map(minutes));
        };
        // The whole session is in the window: what was observed of it counts.
        check(period(0, 60), None, Some(50));
        check(period(30, 90), None, Some(30));
        check(period(30, 90), Some((period(30, 40), 10)), Some(20));
        // Half of the time of this gap was missing, and half of it is in the part.
        check(period(30, 90), Some((period(20, 40), 10)), Some(25));
        // Never more than was observed in all.
        check(period(1, 90), None, Some(50));
        check(period(60, 90), None, None);
    }
}
