//! Tells the collector of a run, by way of the directory that users share. That it cannot be told costs the job nothing.

use std::cell::RefCell;

use gua_claim::{ClaimDir, Event, OpenError, Run};
use gua_collector::chain::chain;
use gua_probe::clock;
use gua_run::{Outcome, RunName};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::process;
use crate::claims;
use crate::config::Settings;

/// An event has room for 32 KiB; what a summary may have more is left out of the history.
const LONGEST_SUMMARY: usize = 24 << 10;

/// Parts of a summary that are dear and not needed to compare runs.
const SPARE: [&str; 3] = ["phases", "values", "notes"];

pub(super) struct RunRecorder<'a> {
    settings: &'a Settings,
    /// Opened when there is first something to tell.
    directory: RefCell<Option<ClaimDir>>,
}

impl<'a> RunRecorder<'a> {
    pub(super) fn new(settings: &'a Settings) -> Self {
        Self {
            settings,
            directory: RefCell::new(None),
        }
    }

    /// A start that is not told is no loss: the end says the same and more.
    pub(super) fn started(&self, name: &RunName, started: Timestamp) {
        let _ = self.record(&Run {
            id: name.id.clone(),
            name: name.name.clone(),
            started,
            ended: None,
            exit_code: None,
            gpus: Vec::new(),
            summary: process::told().into_iter().collect(),
        });
    }

    /// What could not be told, in a sentence.
    pub(super) fn ended(&self, outcome: &Outcome) -> Option<String> {
        let summary = &outcome.summary;
        let uuids = summary.gpus.iter().map(|card| card.uuid.parse());
        let run = Run {
            id: summary.run.id.clone(),
            name: summary.run.name.clone(),
            started: outcome.started,
            ended: Some(outcome.ended),
            exit_code: Some(outcome.end.shell_code()),
            gpus: uuids.flatten().collect(),
            summary: fitting(serde_json::to_value(summary).unwrap_or_default()),
        };
        self.record(&run).err()
    }

    fn record(&self, run: &Run) -> Result<(), String> {
        let mut directory = self.directory.borrow_mut();
        let opened = match directory.take() {
            Some(opened) => opened,
            None => match claims::directory(self.settings) {
                Ok(opened) => opened,
                // A host without such a place has no shared history of runs.
                Err(OpenError::NoPlace { .. }) => return Ok(()),
                Err(error) => return Err(unrecorded(&error)),
            },
        };
        let told = opened.record(&Event::Run(run.clone()), clock::now());
        *directory = Some(opened);
        told.map_err(|error| unrecorded(&error))
    }
}

fn unrecorded(error: &(dyn std::error::Error + 'static)) -> String {
    format!("the run is not in the history: {}", chain(error))
}

fn fitting(summary: Value) -> Map<String, Value> {
    let Value::Object(mut summary) = summary else {
        return Map::new();
    };
    for part in SPARE {
        let length = serde_json::to_string(&summary).map_or(0, |text| text.len());
        if length > LONGEST_SUMMARY {
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
