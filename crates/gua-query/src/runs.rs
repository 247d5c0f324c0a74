//! Watched runs: those that are recorded, and those that no collector has taken in yet.

use gua_model::Period;
use jiff::Timestamp;

use crate::error::{QueryError, quoted};
use crate::protocol::Source;
use crate::question::{RecordedRunsQuestion, RunsQuestion};
use crate::records::WatchedRun;

/// The name for the latest run.
const LAST: &str = "last";

/// Maximum number of recorded runs that a search by user reads.
const SEARCHED: u32 = 10_000;

/// The runs of a host, from a source and from a list of those that are not recorded yet.
#[derive(Debug)]
pub struct Runs<'a> {
    /// `None` before the first history exists.
    pub source: Option<&'a dyn Source>,
    /// Runs that no collector has taken in yet, the latest first.
    pub pending: Vec<WatchedRun>,
}

impl Runs<'_> {
    /// The runs of a window and a user, the latest first.
    pub fn list(&self, question: &RunsQuestion) -> Result<Vec<WatchedRun>, QueryError> {
        let RunsQuestion {
            window,
            ref user,
            limit,
        } = *question;
        let limit_read = if user.is_some() { SEARCHED } else { limit };
        let mut runs = self.recorded(&RecordedRunsQuestion::Window {
            window,
            limit: limit_read,
        })?;
        self.add_pending(&mut runs, |run| {
            (window.from()..window.to()).contains(&run.started)
        });
        if let Some(user) = user {
            runs.retain(|run| {
                run.owner.name.as_ref() == Some(user) || run.owner.uid.to_string() == *user
            });
        }
        runs.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(runs)
    }

    /// The one run that `asked` names: its id, the beginning of its id, or `last`.
    pub fn one(&self, asked: &str) -> Result<WatchedRun, QueryError> {
        if asked == LAST {
            let latest = RunsQuestion {
                window: Period::new(Timestamp::MIN, Timestamp::MAX),
                user: None,
                limit: 1,
            };
            let last = self.list(&latest)?.into_iter().next();
            return last.ok_or(QueryError::NoRuns);
        }
        let mut runs = self.recorded(&RecordedRunsQuestion::Prefix(asked.to_owned()))?;
        self.add_pending(&mut runs, |run| run.run.starts_with(asked));
        if let Some(exact) = runs.iter().position(|run| run.run == asked) {
            return Ok(runs.swap_remove(exact));
        }
        let asked = quoted(asked);
        match runs.len() {
            0 => Err(QueryError::NoSuchRun { asked }),
            1 => Ok(runs.swap_remove(0)),
            _ => Err(QueryError::AmbiguousRun {
                asked,
                found: runs.into_iter().map(|run| run.run).collect(),
            }),
        }
    }

    fn recorded(&self, question: &RecordedRunsQuestion) -> Result<Vec<WatchedRun>, QueryError> {
        let source = self.source;
        source.map_or(Ok(Vec::new()), |source| source.recorded_runs(question))
    }

    /// Adds pending runs that are not recorded, or whose end is not.
    fn add_pending(&self, runs: &mut Vec<WatchedRun>, is_wanted: impl Fn(&WatchedRun) -> bool) {
        for run in self.pending.iter().filter(|run| is_wanted(run)) {
            let same =
                |known: &&mut WatchedRun| known.run == run.run && known.owner.uid == run.owner.uid;
            match runs.iter_mut().find(same) {
                Some(known) if known.ended.is_none() => *known = run.clone(),
                Some(_) => {}
                None => runs.push(run.clone()),
            }
        }
        runs.sort_by_key(|run| std::cmp::Reverse(run.started));
    }
}
