//! What a run came to: the document `summary.json`, and what goes to the history.

use std::time::Duration;

use gua_probe::process::family::FamilyUse;
use gua_wire::run::log::stamp;
use gua_wire::run::summary::ResourceSummary;
use jiff::Timestamp;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::card_use::CardSummary;
use crate::job::End;
use crate::means::rounded;
use crate::phases::PhaseSummary;
use crate::rolled_up::RolledUp;
use crate::tree_use::TreeSummary;
use crate::watch::Watch;

/// The value by which a job tells JAX's own peak.
pub const JAX_PEAK: &str = "jax_peak_bytes_mb";

/// What a run came to. The ten numbers come first, as the original writes them.
#[derive(Clone, Debug, Serialize)]
pub struct RunSummary {
    #[serde(flatten, serialize_with = "numbers")]
    pub resources: ResourceSummary,
    pub run: RunFacts,
    pub gpus: Vec<CardSummary>,
    pub tree: TreeSummary,
    pub phases: Vec<PhaseSummary>,
    /// What the job set.
    pub values: Map<String, Value>,
    /// Numbers above that stand as zero because nothing was measured.
    pub unmeasured: Vec<&'static str>,
    /// What went wrong with watching, in sentences.
    pub notes: Vec<String>,
}

/// Which run it was.
#[derive(Clone, Debug, Serialize)]
pub struct RunFacts {
    pub version: u32,
    pub id: String,
    /// The short name of the program; never its arguments.
    pub name: String,
    pub host: String,
    pub started: String,
    pub ended: String,
    pub seconds: f64,
    /// As a shell tells it: 128 and the signal's number for a job that was killed.
    pub exit_code: i32,
    pub signal: Option<i32>,
    pub interval_seconds: f64,
    /// Looks at the cards.
    pub samples: u64,
}

/// What was known before the job began.
#[derive(Clone, Debug)]
pub struct RunName {
    pub id: String,
    pub name: String,
    pub host: String,
}

/// When it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunTime {
    pub(crate) started: Timestamp,
    pub(crate) ended: Timestamp,
    pub(crate) took: Duration,
    pub(crate) interval: Duration,
}

impl RunSummary {
    pub(crate) fn new(
        name: &RunName,
        time: RunTime,
        end: End,
        watch: &Watch,
        last: &FamilyUse,
        mut notes: Vec<String>,
    ) -> Self {
        let mut resources = watch.tally.summary();
        if let Some(peak) = watch.values.get(JAX_PEAK).and_then(Value::as_f64) {
            resources.jax_peak_bytes_mb = peak;
        }
        if watch.phases.dropped() > 0 {
            notes.push(format!(
                "{} more phases are in the log",
                watch.phases.dropped()
            ));
        }
        if watch.values_dropped > 0 {
            notes.push(format!("{} values were not kept", watch.values_dropped));
        }
        Self {
            resources,
            run: RunFacts {
                version: 1,
                id: name.id.clone(),
                name: name.name.clone(),
                host: name.host.clone(),
                started: stamp(time.started),
                ended: stamp(time.ended),
                seconds: rounded(time.took.as_secs_f64(), 3),
                exit_code: end.shell_code(),
                signal: match end {
                    End::Code(_) => None,
                    End::Signal(signal) => Some(signal),
                },
                interval_seconds: time.interval.as_secs_f64(),
                samples: watch.samples,
            },
            gpus: watch.cards.iter().map(|card| card.summary()).collect(),
            tree: watch.tree.summary(last, time.took),
            phases: watch.phases.done().to_vec(),
            values: watch.values.clone(),
            unmeasured: watch.tally.missing(),
            notes,
        }
    }

    /// The document, for people and programs.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("plain fields with text keys fit JSON");
        text.push('\n');
        text
    }

    /// The time of all cards.
    #[must_use]
    pub fn rolled_up(&self) -> RolledUp {
        self.gpus.iter().map(CardSummary::rolled_up).sum()
    }
}

fn numbers<S: Serializer>(summary: &ResourceSummary, out: S) -> Result<S::Ok, S::Error> {
    let mut map = out.serialize_map(None)?;
    for (name, value) in summary.entries() {
        map.serialize_entry(name, &value)?;
    }
    map.end()
}
