//! Watched runs in the shared directory that no collector has imported yet.

use std::collections::HashSet;

use gua_claim::{ClaimDir, Event, EventId};
use gua_collector::claims;
use gua_model::text::sanitize;
use gua_probe::process::{Passwd, ProcRoot, ProcessTable};
use gua_query::WatchedRun;
use jiff::Timestamp;

use crate::context::Context;

/// Maximum number of reads of the directory, so that a user who keeps filling it cannot block this command.
const READS: usize = 32;

/// Returns the runs in the directory, the latest first; none without a directory.
pub(super) fn pending(context: &Context) -> Vec<WatchedRun> {
    let Ok(dir) = claims::directory(context.settings()) else {
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
            started: stored(run.started),
            ended: run.ended.map(stored),
            exit_code: run.exit_code,
            gpus: run.gpus,
            summary: serde_json::Value::Object(run.summary).to_string(),
        });
    }
    runs.sort_by_key(|run| std::cmp::Reverse(run.started));
    runs
}

/// All events of all users, the oldest of each user first. A read returns a bounded number of events of each user, from the
/// oldest on, and the latest are wanted here.
fn events(dir: &ClaimDir) -> Vec<(EventId, Event)> {
    let mut known = HashSet::new();
    let mut events = Vec::new();
    for _ in 0..READS {
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

/// A moment in whole microseconds, as the history stores it.
fn stored(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}
