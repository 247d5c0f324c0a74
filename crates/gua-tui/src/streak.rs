//! Since when each GPU is in its state without interruption. If the beginning was not seen, the time is a lower bound.

use std::collections::HashMap;
use std::time::Duration;

use gua_model::since::{Since, Start};
use gua_model::{Cadence, GpuUuid, Sample, State, Thresholds, classify};
use jiff::Timestamp;

/// Returns what counts as the same state: that of the roll-up, or the finer state if there is none.
fn rolled_up(state: State) -> State {
    state.roll_up().map_or(state, State::from)
}

#[derive(Clone, Copy, Debug)]
struct Streak {
    state: State,
    since: Since,
    seen: Timestamp,
}

/// The current states of all GPUs, from one sample to the next.
#[derive(Clone, Debug)]
pub(crate) struct Streaks {
    thresholds: Thresholds,
    streaks: HashMap<GpuUuid, Streak>,
}

impl Streaks {
    pub(crate) fn new(thresholds: Thresholds) -> Self {
        Self {
            thresholds,
            streaks: HashMap::new(),
        }
    }

    /// Adds the next sample. `interval` is the planned time since the one before; if a sample was missed in between, the
    /// states before it say nothing about now.
    pub(crate) fn see(&mut self, sample: &Sample, interval: Duration) {
        let cadence = Cadence::new(interval);
        for gpu in &sample.gpus {
            let state = rolled_up(classify(gpu, &self.thresholds, None).state);
            let before = self.streaks.get(&gpu.uuid).filter(|streak| {
                let pause = sample.at.duration_since(streak.seen);
                !pause.is_negative() && !cadence.is_missed(pause.unsigned_abs())
            });
            let since = match before {
                Some(streak) if streak.state == state => streak.since,
                // It was in another state a moment ago, so this one began now.
                Some(streak) => Since {
                    at: sample.at,
                    start: match streak.state {
                        State::Unobserved => Start::AtLatest,
                        _ => Start::Seen,
                    },
                },
                None => Since {
                    at: sample.at,
                    start: Start::AtLatest,
                },
            };
            let streak = Streak {
                state,
                since,
                seen: sample.at,
            };
            self.streaks.insert(gpu.uuid.clone(), streak);
        }
    }

    /// Adds what the history knows of the state in which a GPU was at the first sample of this run. It is ignored if
    /// the state has changed since.
    pub(crate) fn lengthen(&mut self, gpu: &GpuUuid, since: Since) {
        if let Some(streak) = self.streaks.get_mut(gpu)
            && streak.since.start == Start::AtLatest
            && since.at < streak.since.at
        {
            streak.since = since;
        }
    }

    pub(crate) fn since(&self, gpu: &GpuUuid) -> Option<Since> {
        self.streaks.get(gpu).map(|streak| streak.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::fixture::{gpu, sample_of};

    /// Takes what `GPU-a` did at a second (`10 idle`, `40 busy`); expects the second and whether it is exact.
    fn fold(script: &[(i64, u32)], interval: u64) -> Streaks {
        let mut streaks = Streaks::new(Thresholds::default());
        for (second, util) in script {
            let gpu = gpu(0, "GPU-a", Ok(*util), &[(7, "ada", 2000)]);
            streaks.see(
                &sample_of(*second, vec![gpu]),
                Duration::from_secs(interval),
            );
        }
        streaks
    }

    fn check(streaks: &Streaks, second: i64, is_exact: bool) {
        let since = streaks.since(&"GPU-a".parse().unwrap()).unwrap();
        assert_eq!(
            (since.at.as_second(), since.start == Start::Seen),
            (second, is_exact)
        );
    }

    #[test]
    fn a_state_that_was_there_from_the_first_sample_began_at_the_latest_then() {
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
        check(&fold(&[(10, 90), (40, 0), (100, 0)], 30), 40, true);
        check(&fold(&[(10, 90), (40, 0), (101, 0)], 30), 101, false);
    }

    #[test]
    fn the_recorded_history_lengthens_what_this_run_saw_and_nothing_newer() {
        let recorded = |second| Since {
            at: Timestamp::from_second(second).unwrap(),
            start: Start::Seen,
        };
        let gpu = "GPU-a".parse().unwrap();
        let mut live = fold(&[(1070, 0), (1071, 0)], 1);
        live.lengthen(&gpu, recorded(1030));
        check(&live, 1030, true);
        let mut changed = fold(&[(1070, 90), (1071, 0)], 1);
        changed.lengthen(&gpu, recorded(1030));
        check(&changed, 1071, true);
    }
}
