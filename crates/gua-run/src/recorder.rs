//! Records a run for the collector, in the directory that users share. A failure to do so never affects the job.

use gua_claim::{ClaimDir, Event, OpenError, Run};
use gua_model::chain::chain;
use gua_probe::clock;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::{Outcome, RunName, watcher};

/// Maximum length of a summary in the history. An event has room for 32 KiB.
const MAX_SUMMARY: usize = 24 << 10;

/// Large parts of a summary that are not needed to compare runs.
const SPARE: [&str; 3] = ["phases", "values", "notes"];

/// The shared directory, or why it cannot be opened.
type Opened = Result<ClaimDir, OpenError>;

/// Records the start of a run. Errors are ignored, because the event of the end contains the same and more.
pub fn record_start(directory: Opened, name: &RunName, started: Timestamp) {
    let _ = record(
        directory,
        Run {
            id: name.id.clone(),
            name: name.name.clone(),
            started,
            ended: None,
            exit_code: None,
            gpus: Vec::new(),
            summary: watcher::recorded().unwrap_or_default(),
        },
    );
}

/// Records the end of a run. Returns a note if that failed.
pub fn record_end(directory: Opened, outcome: &Outcome) -> Option<String> {
    let summary = &outcome.summary;
    let uuids = summary.gpus.iter().map(|gpu| gpu.uuid.parse());
    let recorded = record(
        directory,
        Run {
            id: summary.run.id.clone(),
            name: summary.run.name.clone(),
            started: outcome.started,
            ended: Some(outcome.ended),
            exit_code: Some(outcome.end.shell_code()),
            gpus: uuids.flatten().collect(),
            summary: fitting(serde_json::to_value(summary).unwrap_or_default()),
        },
    );
    let error = recorded.err()?;
    Some(format!("cannot record the run in the history: {error}"))
}

fn record(directory: Opened, run: Run) -> Result<(), String> {
    match directory {
        Ok(directory) => directory
            .record(&Event::Run(run), clock::now())
            .map_err(|error| chain(&error)),
        // A host without such a directory has no shared history of runs.
        Err(OpenError::NoPlace { .. }) => Ok(()),
        Err(error) => Err(chain(&error)),
    }
}

fn fitting(summary: Value) -> Map<String, Value> {
    let Value::Object(mut summary) = summary else {
        return Map::new();
    };
    for part in SPARE {
        let length = serde_json::to_string(&summary).map_or(0, |text| text.len());
        if length > MAX_SUMMARY {
            summary.remove(part);
        }
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_that_is_too_long_loses_its_phases_first() {
        let summary =
            serde_json::json!({"phases": "x".repeat(40 << 10), "values": {"a": 1}, "gpus": []});
        let kept = fitting(summary);
        assert_eq!(kept.keys().collect::<Vec<_>>(), ["gpus", "values"]);
    }
}
