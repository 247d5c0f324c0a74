//! Where runs are known from: the history, and the directory in which users' programs leave them for the collector.

use std::collections::HashSet;

use anyhow::{Context as _, bail};
use gua_claim::{ClaimDir, Event, EventId};
use gua_model::Period;
use gua_model::text::sanitize;
use gua_probe::process::{Passwd, ProcRoot, ProcessTable};
use gua_store::{FileKind, History, WatchedRun, what_is_this};
use jiff::Timestamp;

use super::no_such_run;
use crate::config::{Loaded, Source};
use crate::failure::Failure;
use crate::{claims, which};

/// The word for the last run of all.
const LAST: &str = "last";

/// With a filter that SQL does not know, so many are looked at.
const MOST: u32 = 10_000;

/// The directory is asked so many times for more: somebody who fills it meanwhile does not keep us here.
const MOST_TIMES: usize = 32;

pub(super) struct Known {
    history: Option<History>,
    /// Not in the history yet, the last first.
    fresh: Vec<WatchedRun>,
}

impl Known {
    pub(super) fn open(loaded: &Loaded) -> anyhow::Result<Self> {
        let path = which::history(loaded);
        let shown = path.display();
        let history = match what_is_this(&path) {
            FileKind::OurHistory { .. } | FileKind::NewerHistory { .. } => {
                Some(History::open(&path).with_context(|| format!("cannot read `{shown}`"))?)
            }
            kind => match (&loaded.settings.history.db.source, kind) {
                (Source::Flag(_), FileKind::Missing) => bail!(which::no_history(&path).message),
                // Runs are known before the first history is.
                (Source::Default, _) | (_, FileKind::Missing) => None,
                (_, kind) => bail!("`{shown}` is {kind}, and no history of gua"),
            },
        };
        Ok(Self {
            history,
            fresh: fresh(loaded),
        })
    }

    /// The runs of a window and a user, the last first.
    pub(super) fn runs(
        &self,
        window: Period,
        user: Option<&str>,
        most: u32,
    ) -> anyhow::Result<Vec<WatchedRun>> {
        let asked = if user.is_some() { MOST } else { most };
        let mut runs = match &self.history {
            Some(history) => history.watched_runs(window, asked)?,
            None => Vec::new(),
        };
        self.add_fresh(&mut runs, |run| {
            (window.from()..window.to()).contains(&run.started)
        });
        if let Some(user) = user {
            runs.retain(|run| {
                run.owner.name.as_deref() == Some(user) || run.owner.uid.to_string() == user
            });
        }
        runs.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        Ok(runs)
    }

    /// The one run that is meant.
    pub(super) fn one(&self, asked: &str) -> anyhow::Result<WatchedRun> {
        if asked == LAST {
            let all = Period::new(Timestamp::MIN, Timestamp::MAX);
            let last = self.runs(all, None, 1)?.into_iter().next();
            return last.ok_or_else(|| Failure::usage("there are no runs yet").into());
        }
        let mut runs = match &self.history {
            Some(history) => history.watched_runs_called(asked)?,
            None => Vec::new(),
        };
        self.add_fresh(&mut runs, |run| run.run.starts_with(asked));
        if let Some(exact) = runs.iter().position(|run| run.run == asked) {
            return Ok(runs.swap_remove(exact));
        }
        match runs.len() {
            1 => Ok(runs.swap_remove(0)),
            _ => {
                let names: Vec<String> = runs.into_iter().map(|run| run.run).collect();
                Err(no_such_run(asked, &names).into())
            }
        }
    }

    /// What the directory knows better: a run that the history lacks, or of which it does not know the end.
    fn add_fresh(&self, runs: &mut Vec<WatchedRun>, is_wanted: impl Fn(&WatchedRun) -> bool) {
        for run in self.fresh.iter().filter(|run| is_wanted(run)) {
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

/// What lies in the directory. Where there is none, nothing does.
fn fresh(loaded: &Loaded) -> Vec<WatchedRun> {
    let Ok(dir) = claims::directory(&loaded.settings) else {
        return Vec::new();
    };
    let mut names = ProcessTable::new(ProcRoot::default(), Passwd::System);
    let mut runs: Vec<WatchedRun> = Vec::new();
    for (id, event) in events(&dir) {
        let Event::Run(run) = event else { continue };
        let same = |known: &WatchedRun| known.run == run.id && known.owner.uid == id.owner;
        runs.retain(|known| !(same(known) && known.ended.is_none()));
        if runs.iter().any(same) {
            continue;
        }
        runs.push(WatchedRun {
            run: sanitize(&run.id),
            owner: names.user(id.owner),
            name: sanitize(&run.name),
            started: kept(run.started),
            ended: run.ended.map(kept),
            exit_code: run.exit_code,
            cards: run.gpus,
            summary: serde_json::Value::Object(run.summary).to_string(),
        });
    }
    runs.sort_by_key(|run| std::cmp::Reverse(run.started));
    runs
}

/// All events of everybody, oldest first for each user. The collector is given some of each user at a time, from the
/// oldest on; whoever asks here wants to see the last.
fn events(dir: &ClaimDir) -> Vec<(EventId, Event)> {
    let mut known = HashSet::new();
    let mut events = Vec::new();
    for _ in 0..MOST_TIMES {
        let Ok(taken) = dir.events(&known) else {
            break;
        };
        let before = known.len();
        known.extend(taken.passed_over);
        known.extend(taken.new.iter().map(|(id, _)| id.clone()));
        events.extend(taken.new);
        if known.len() == before {
            break;
        }
    }
    events
}

/// A moment as the history keeps it: in whole microseconds.
fn kept(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}
