//! Since when a card is in its state, without a break. Where the beginning was not seen, the answer is "at least".

use std::collections::HashMap;
use std::time::Duration;

use gua_model::{GpuUuid, RollUp, Sample, State, Thresholds, classify};
use jiff::Timestamp;

/// When a state began, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    pub at: Timestamp,
    /// Whether the beginning was seen; otherwise it may lie before `at`.
    pub is_exact: bool,
}

/// What counts as the same state: the roll-up, and the finer state where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Same {
    RollUp(RollUp),
    State(State),
}

impl Same {
    fn of(state: State) -> Self {
        state.roll_up().map_or(Same::State(state), Same::RollUp)
    }
}

#[derive(Clone, Copy, Debug)]
struct Streak {
    same: Same,
    since: Since,
    seen: Timestamp,
}

/// The running states of all cards, from one sample to the next.
#[derive(Clone, Debug)]
pub struct Streaks {
    thresholds: Thresholds,
    cards: HashMap<GpuUuid, Streak>,
}

/// A pause longer than this many intervals is time that nobody observed.
const MOST_INTERVALS: u32 = 3;

/// At short intervals one late answer is no gap.
const SHORTEST_GAP: Duration = Duration::from_secs(3);

impl Streaks {
    #[must_use]
    pub fn new(thresholds: Thresholds) -> Self {
        Self {
            thresholds,
            cards: HashMap::new(),
        }
    }

    /// Takes in the next sample. `interval` is how long the one before may stand for.
    pub fn see(&mut self, sample: &Sample, interval: Duration) {
        let longest = interval.saturating_mul(MOST_INTERVALS).max(SHORTEST_GAP);
        for gpu in &sample.gpus {
            let state = classify(gpu, &self.thresholds, None).state;
            let same = Same::of(state);
            let before = self.cards.get(&gpu.uuid).filter(|streak| {
                let pause = sample.at.duration_since(streak.seen);
                !pause.is_negative() && pause.unsigned_abs() <= longest
            });
            let since = match before {
                Some(streak) if streak.same == same => streak.since,
                // It was seen in another state a moment ago, so this one began now.
                Some(streak) => Since {
                    at: sample.at,
                    is_exact: streak.same != Same::State(State::Unobserved),
                },
                None => Since {
                    at: sample.at,
                    is_exact: false,
                },
            };
            let streak = Streak {
                same,
                since,
                seen: sample.at,
            };
            self.cards.insert(gpu.uuid.clone(), streak);
        }
    }

    /// What an earlier observer knows: where its last look and our first are close enough, its beginning is ours.
    pub fn continue_from(&mut self, earlier: &Streaks, interval: Duration) {
        let longest = interval.saturating_mul(MOST_INTERVALS).max(SHORTEST_GAP);
        for (uuid, streak) in &mut self.cards {
            let Some(before) = earlier.cards.get(uuid) else {
                continue;
            };
            let pause = streak.since.at.duration_since(before.seen);
            let is_close = pause.is_negative() || pause.unsigned_abs() <= longest;
            let is_older = before.since.at < streak.since.at;
            if before.same == streak.same && is_close && is_older && !streak.since.is_exact {
                streak.since = before.since;
            }
        }
    }

    #[must_use]
    pub fn since(&self, gpu: &GpuUuid) -> Option<Since> {
        self.cards.get(gpu).map(|streak| streak.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::fixture::{card, sample_of};

    /// `10 idle`, `40 busy`: what card `GPU-a` did at a second. The answer is the second and whether it is exact.
    fn fold(script: &[(i64, u32)], interval: u64) -> Streaks {
        let mut streaks = Streaks::new(Thresholds::default());
        for (second, util) in script {
            let gpu = card(0, "GPU-a", Ok(*util), &[(7, "ada", 2000)]);
            streaks.see(
                &sample_of(*second, vec![gpu]),
                Duration::from_secs(interval),
            );
        }
        streaks
    }

    fn check(streaks: &Streaks, second: i64, is_exact: bool) {
        let since = streaks.since(&"GPU-a".parse().unwrap()).unwrap();
        assert_eq!((since.at.as_second(), since.is_exact), (second, is_exact));
    }

    #[test]
    fn a_state_that_was_there_from_the_first_look_began_at_the_latest_then() {
        check(&fold(&[(10, 0), (11, 0), (12, 3)], 1), 10, false);
    }

    #[test]
    fn a_change_that_was_seen_is_the_exact_beginning() {
        check(&fold(&[(10, 90), (11, 0), (12, 0)], 1), 11, true);
    }

    #[test]
    fn a_gap_ends_what_is_known() {
        check(&fold(&[(10, 90), (11, 0), (60, 0), (61, 0)], 1), 60, false);
        check(&fold(&[(10, 90), (40, 0), (70, 0)], 30), 40, true);
    }

    #[test]
    fn the_recorded_history_lengthens_what_this_run_saw() {
        let recorded = fold(&[(1000, 90), (1030, 0), (1060, 0)], 30);
        let mut live = fold(&[(1070, 0), (1071, 0)], 1);
        live.continue_from(&recorded, Duration::from_secs(30));
        check(&live, 1030, true);
        let mut changed = fold(&[(1070, 90), (1071, 0)], 1);
        changed.continue_from(&recorded, Duration::from_secs(30));
        check(&changed, 1071, true);
        let mut late = fold(&[(2000, 0)], 1);
        late.continue_from(&recorded, Duration::from_secs(30));
        check(&late, 2000, false);
    }
}
