//! Logs the problems of single GPUs when they start and when they end, not at every tick.

use gua_model::{GpuUuid, Problem, Sample};
use tracing::{info, warn};

/// Problems of the previous sample, each with the number of ticks it has lasted.
#[derive(Debug, Default)]
pub(crate) struct ProblemLog {
    open: Vec<(Problem, u64)>,
}

impl ProblemLog {
    /// Compares a sample with the previous one and logs what changed.
    pub(crate) fn update(&mut self, sample: &Sample) {
        self.open.retain(|(open, ticks)| {
            let persists = sample.problems.iter().any(|now| is_same(open, now));
            if !persists {
                info!(ticks, error = %open, "reading available again");
            }
            persists
        });
        for problem in &sample.problems {
            match self
                .open
                .iter_mut()
                .find(|(open, _)| is_same(open, problem))
            {
                Some((_, ticks)) => *ticks += 1,
                None => {
                    warn!(error = %problem, "reading unavailable");
                    self.open.push((problem.clone(), 1));
                }
            }
        }
    }
}

/// Compares GPU, call and code; the text of a problem may contain changing numbers.
fn is_same(one: &Problem, other: &Problem) -> bool {
    fn key(problem: &Problem) -> (Option<&GpuUuid>, Option<u32>, &str, Option<u32>) {
        (
            problem.gpu.as_ref(),
            problem.index,
            &problem.call,
            problem.code,
        )
    }
    key(one) == key(other)
}
