//! The phases of a run: each lasts until the next begins, or until the run ends.

use std::time::Duration;

use gua_wire::run::log::stamp;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::means::{Mean, rounded};

/// Maximum number of phases in a summary; the log has all of them.
const MAX_PHASES: usize = 64;

/// Maximum length of a name, in characters.
const MAX_NAME_LENGTH: usize = 120;

#[derive(Clone, Debug, Default)]
pub(crate) struct Phases {
    current: Option<Phase>,
    pub(crate) done: Vec<PhaseSummary>,
    /// Number of phases beyond [`MAX_PHASES`].
    pub(crate) dropped: u64,
}

#[derive(Clone, Debug)]
struct Phase {
    name: String,
    started: Timestamp,
    /// Since boot.
    began: Duration,
    util: Mean,
}

/// A phase in `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhaseSummary {
    pub name: String,
    /// UTC, as in RFC 3339.
    pub started: String,
    pub seconds: f64,
    /// Mean of the run's GPUs, over spans that lie in the phase; `null` if there are none.
    pub gpu_util_mean_pct: Option<f64>,
}

impl Phases {
    /// Begins a phase, and returns the one that ends with it.
    pub(crate) fn begin(
        &mut self,
        name: &str,
        at: Timestamp,
        now: Duration,
    ) -> Option<PhaseSummary> {
        let ended = self.end(now);
        self.current = Some(Phase {
            name: name.chars().take(MAX_NAME_LENGTH).collect(),
            started: at,
            began: now,
            util: Mean::default(),
        });
        ended
    }

    /// Ends the current phase.
    pub(crate) fn end(&mut self, now: Duration) -> Option<PhaseSummary> {
        let phase = self.current.take()?;
        let ended = PhaseSummary {
            name: phase.name,
            started: stamp(phase.started),
            seconds: rounded(now.saturating_sub(phase.began).as_secs_f64(), 3),
            gpu_util_mean_pct: phase.util.mean().map(|util| rounded(util, 1)),
        };
        if self.done.len() < MAX_PHASES {
            self.done.push(ended.clone());
        } else {
            self.dropped += 1;
        }
        Some(ended)
    }

    /// Adds the utilisation of a GPU during a span, which begins at this time since boot. A span that began before the
    /// phase belongs in part to the phase before, in an unknown proportion, so it counts for neither.
    pub(crate) fn add(&mut self, util_pct: f64, from: Duration, time: Duration) {
        if let Some(phase) = &mut self.current
            && phase.began <= from
        {
            phase.util.add(util_pct, time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_lasts_until_the_next() {
        let at = Timestamp::UNIX_EPOCH;
        let mut phases = Phases::default();
        let second = Duration::from_secs(1);
        phases.add(50.0, Duration::ZERO, second);
        assert_eq!(phases.begin("load", at, Duration::from_secs(1)), None);
        phases.add(20.0, second, second);
        let ended = phases.begin("train", at, Duration::from_millis(3500));
        let ended = ended.unwrap();
        assert_eq!((ended.name.as_str(), ended.seconds), ("load", 2.5));
        assert_eq!(ended.gpu_util_mean_pct, Some(20.0));
        phases.end(Duration::from_secs(4));
        assert_eq!(phases.done.len(), 2);
        assert_eq!(phases.end(Duration::from_secs(5)), None);
    }

    #[test]
    fn phases_beyond_the_maximum_are_counted_and_not_kept() {
        let mut phases = Phases::default();
        for second in 0..1000 {
            phases.begin("step", Timestamp::UNIX_EPOCH, Duration::from_secs(second));
        }
        assert_eq!(phases.done.len(), MAX_PHASES);
        assert_eq!(phases.dropped, 999 - 64);
    }
}
