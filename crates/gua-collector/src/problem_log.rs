//! The problems of single cards, told when they begin and when they end; not at every tick.

use gua_model::{GpuUuid, Problem, Sample};

/// Problems that were there at the last tick, each with its count of ticks.
#[derive(Debug, Default)]
pub(crate) struct ProblemLog {
    open: Vec<(Problem, u64)>,
}

impl ProblemLog {
    /// The lines to log for this sample.
    pub(crate) fn hear(&mut self, sample: &Sample) -> Vec<String> {
        let mut notes = Vec::new();
        self.open.retain(|(open, ticks)| {
            let goes_on = sample.problems.iter().any(|now| is_same(open, now));
            if !goes_on {
                notes.push(format!("over after {ticks} ticks: {open}"));
            }
            goes_on
        });
        for problem in &sample.problems {
            match self
                .open
                .iter_mut()
                .find(|(open, _)| is_same(open, problem))
            {
                Some((_, ticks)) => *ticks += 1,
                None => {
                    notes.push(format!("reading unavailable: {problem}"));
                    self.open.push((problem.clone(), 1));
                }
            }
        }
        notes
    }
}

/// The text may carry changing numbers; place, call and code make a problem.
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
