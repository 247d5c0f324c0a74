//! Since when a GPU has been in its state: the unbroken run of one roll-up that reaches to now.
//!
//! A missed sample ([`Cadence::is_missed`]) ends the run. The state may have begun earlier than observed, so the answer
//! is then a bound.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cadence::Cadence;
use crate::id::GpuUuid;
use crate::period::{Period, Quarter};
use crate::span::Span;
use crate::state::RollUp;
use crate::total::{QuarterTotal, Totals};
use crate::unit::Micros;

/// The start of the run, and whether it is exact or a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Since {
    pub at: Timestamp,
    pub start: Start,
}

/// Certainty of the beginning of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Start {
    /// Another state was observed right before it.
    Seen,
    /// Nothing was observed right before it: it may have begun earlier.
    AtLatest,
}

/// Walks back from the quarter hour of `now` over quarters that contain only this roll-up, and returns the first of
/// them. [`within`] finds where in the quarter before it the run began.
pub fn whole_quarters(totals: &Totals, gpu: &GpuUuid, roll_up: RollUp, now: Timestamp) -> Quarter {
    let present = Quarter::of(now);
    let mut first = present;
    while let Some(before) = first.0.checked_sub(1).map(Quarter)
        && let Some(total) = totals.quarters.get(&before).and_then(|gpus| gpus.get(gpu))
        && is_whole(total, before, roll_up)
    {
        first = before;
    }
    first
}

fn is_whole(total: &QuarterTotal, quarter: Quarter, roll_up: RollUp) -> bool {
    let in_it = total.time_in(roll_up);
    let others = total
        .states
        .iter()
        .any(|((state, _), time)| state.roll_up() != Some(roll_up) && time.micros > Micros(0));
    let missing = quarter.period().micros().0.saturating_sub(in_it.0);
    let interval = total.gpu.present.0 / total.gpu.ticks.max(1);
    let cadence = Cadence::new(Duration::from_micros(interval));
    !others && !cadence.is_break(Micros(missing))
}

/// Finds the run of this roll-up at the end of a GPU's spans, which are in order of time. `None` if the last span has
/// another roll-up, or is too old to apply to `now`.
pub fn within<'a>(
    spans: impl DoubleEndedIterator<Item = &'a Span>,
    roll_up: RollUp,
    now: Timestamp,
) -> Option<Since> {
    let mut since = None;
    let mut reached = now;
    for span in spans.rev() {
        let missing = Period::new(span.to.min(reached), reached).micros();
        if span.cadence().is_break(missing) {
            break;
        }
        let is_of_it = |share: &crate::span::Share| {
            share.weight == 0 || share.verdict.state.roll_up() == Some(roll_up)
        };
        if !span.shares.iter().all(is_of_it) {
            let was_seen = span
                .shares
                .iter()
                .any(|share| share.verdict.state.roll_up().is_some());
            return since.map(|since: Since| Since {
                start: if was_seen {
                    Start::Seen
                } else {
                    Start::AtLatest
                },
                ..since
            });
        }
        reached = span.from;
        since = Some(Since {
            at: span.from,
            start: Start::AtLatest,
        });
    }
    since
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::{Basis, classify};
    use crate::reading::Missing;
    use crate::sample::Gpu;
    use crate::slices::Slices;
    use crate::span::Share;
    use crate::state::{Evidence, State, Thresholds, Verdict};
    use crate::unit::Centipercent;

    fn evidence() -> Evidence {
        let gpu = Gpu::without_readings("GPU-0".parse().unwrap(), 0, Missing::Failed);
        classify(&gpu, &Thresholds::default(), None).evidence
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Parses `0-30 active | 30-60 idle-held`; a state with `/` between two is divided.
    fn spans(text: &str) -> Vec<Span> {
        let span = |part: &str| {
            let (time, states) = part.trim().split_once(' ').unwrap();
            let (from, to) = time.split_once('-').unwrap();
            let share = |word: &str| {
                let state = State::ALL.into_iter().find(|state| state.as_str() == word);
                Share {
                    verdict: Verdict {
                        state: state.unwrap(),
                        evidence: evidence(),
                    },
                    weight: 1,
                }
            };
            Span {
                gpu: "GPU-0".parse().unwrap(),
                parent: None,
                slices: Slices::WHOLE,
                from: at(from.parse().unwrap()),
                to: at(to.parse().unwrap()),
                shares: states.split('/').map(share).collect(),
                basis: Basis::Instant,
                util: Ok(Centipercent(0)),
                energy: Err(Missing::Failed),
                holders: Vec::new(),
            }
        };
        text.split('|').map(span).collect()
    }

    #[track_caller]
    fn check(text: &str, now: i64, expected: Option<(i64, Start)>) {
        let spans = spans(text);
        let found = within(spans.iter(), RollUp::IdleHeld, at(now));
        let expected = expected.map(|(second, start)| Since {
            at: at(second),
            start,
        });
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn a_stretch_begins_where_another_state_was_seen_last() {
        check(
            "0-30 active | 30-60 idle-held | 60-90 orphan-held",
            80,
            Some((30, Start::Seen)),
        );
    }

    #[test]
    fn without_an_earlier_state_the_beginning_is_a_bound() {
        check("30-60 idle-held", 60, Some((30, Start::AtLatest)));
        check(
            "0-30 unobserved | 30-60 idle-held",
            60,
            Some((30, Start::AtLatest)),
        );
    }

    #[test]
    fn a_missed_sample_ends_it_and_a_late_one_does_not() {
        check(
            "0-30 idle-held | 60-90 idle-held",
            91,
            Some((0, Start::AtLatest)),
        );
        check(
            "0-30 idle-held | 61-91 idle-held",
            91,
            Some((61, Start::AtLatest)),
        );
        check(
            "0-30 idle-held | 31-60 idle-held",
            61,
            Some((0, Start::AtLatest)),
        );
        check(
            "0-30 idle-held | 90-120 idle-held",
            120,
            Some((90, Start::AtLatest)),
        );
    }

    #[test]
    fn a_divided_span_was_not_idle() {
        check(
            "0-30 active/idle-held | 30-60 idle-held",
            60,
            Some((30, Start::Seen)),
        );
    }

    #[test]
    fn what_ended_long_ago_says_nothing_about_now() {
        check("0-30 idle-held", 300, None);
        check("0-30 idle-held | 30-60 active", 60, None);
    }

    #[test]
    fn whole_quarters_are_followed_back_to_the_first_with_something_else_in_it() {
        let mut totals = Totals::default();
        for span in spans("0-900 active | 900-1800 idle-held | 1800-2700 idle-held") {
            totals.add(&span);
        }
        let gpu = "GPU-0".parse().unwrap();
        let first = |totals: &Totals, now| whole_quarters(totals, &gpu, RollUp::IdleHeld, at(now));
        assert_eq!(first(&totals, 2750), Quarter(1));
        assert_eq!(
            first(&totals, 3700),
            Quarter(4),
            "the last quarter was not observed"
        );
        assert_eq!(first(&Totals::default(), 2750), Quarter(3));
    }
}
