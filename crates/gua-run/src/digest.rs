//! What a run came to: the document `summary.json`, and what goes to the history.

use std::time::Duration;

use gua_probe::process::family::FamilyUse;
use gua_wire::run::log::stamp;
use gua_wire::run::summary::ResourceSummary;
use jiff::Timestamp;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::card_use::{CardSummary, CardUse};
use crate::energy::Measured;
use crate::job::End;
use crate::means::rounded;
use crate::phases::PhaseSummary;
use crate::rolled_up::RolledUp;
use crate::tree_use::TreeSummary;
use crate::watch::Watch;

/// The value by which a job tells JAX's own peak.
pub const JAX_PEAK: &str = "jax_peak_bytes_mb";

/// A gap of so many seconds is told to people; all of them stand in the summary.
const GAP_TO_TELL: f64 = 3.0;

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
        notes.extend(counted(
            watch.phases.dropped(),
            "more phase is in the log",
            "more phases are in the log",
        ));
        notes.extend(counted(
            watch.values_dropped,
            "value was not kept",
            "values were not kept",
        ));
        let gpus: Vec<CardSummary> = watch.cards.iter().map(|card| card.summary()).collect();
        notes.extend(unwatched(&gpus));
        notes.extend(watch.cards.iter().filter_map(unmeasured_energy));
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
            gpus,
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

/// Something that there is one or more of; nothing where there is none.
pub(crate) fn counted(number: u64, one: &str, more: &str) -> Option<String> {
    match number {
        0 => None,
        1 => Some(format!("1 {one}")),
        number => Some(format!("{number} {more}")),
    }
}

/// That nobody looked for a while, in a sentence.
fn unwatched(gpus: &[CardSummary]) -> Option<String> {
    let longest = gpus.iter().map(|card| card.gap_seconds).reduce(f64::max);
    let gap = longest.filter(|gap| *gap >= GAP_TO_TELL)?;
    Some(format!(
        "for {gap:.0} s nobody looked at the cards: that time counts neither as used nor as wasted"
    ))
}

/// That the energy is that of a part of the time, in a sentence.
fn unmeasured_energy(card: &CardUse) -> Option<String> {
    let energy = card.energy().filter(Measured::is_partial)?;
    Some(format!(
        "the energy of GPU {} is that of {:.1} s of {:.1} s: the rest was not measured",
        card.index(),
        energy.time.as_secs_f64(),
        energy.of.as_secs_f64()
    ))
}

fn numbers<S: Serializer>(summary: &ResourceSummary, out: S) -> Result<S::Ok, S::Error> {
    let mut map = out.serialize_map(None)?;
    for (name, value) in summary.entries() {
        map.serialize_entry(name, &value)?;
    }
    map.end()
}

#[cfg(test)]
mod tests {
    use gua_model::{Gpu, Millijoules, Missing, Thresholds};

    use super::*;
    use crate::card_use::Rules;

    #[test]
    fn one_is_one_and_none_is_not_told() {
        let told = [0, 1, 2].map(|number| counted(number, "mark is", "marks are"));
        assert_eq!(
            told.map(Option::unwrap_or_default),
            ["", "1 mark is", "2 marks are"]
        );
    }

    #[test]
    fn a_gap_is_told_where_it_is_long() {
        let gpu = Gpu::without_readings("GPU-1".parse().unwrap(), 0, Missing::Unsupported);
        let rules = Rules {
            thresholds: Thresholds::default(),
            interval: Duration::from_secs(2),
        };
        let after = |seconds: u64| {
            let mut card = CardUse::new(&gpu);
            card.pass(Duration::ZERO, gpu.clone(), &rules, |_| true);
            card.end(Duration::from_secs(seconds), &rules, |_| true);
            unwatched(&[card.summary()])
        };
        assert_eq!(after(4), None);
        let told = after(62).unwrap();
        assert!(told.starts_with("for 60 s nobody looked"), "{told}");
    }

    #[test]
    fn energy_of_a_part_of_the_time_is_told_as_that() {
        let rules = Rules {
            thresholds: Thresholds::default(),
            interval: Duration::from_secs(5),
        };
        let look = |joules: u64| Gpu {
            energy: Ok(Millijoules(joules * 1000)),
            ..Gpu::without_readings("GPU-1".parse().unwrap(), 3, Missing::Unsupported)
        };
        let check = |end: u64, expected: Option<&str>| {
            let mut card = CardUse::new(&look(0));
            card.pass(Duration::ZERO, look(0), &rules, |_| true);
            card.pass(Duration::from_secs(5), look(500), &rules, |_| true);
            card.end(Duration::from_millis(end), &rules, |_| true);
            assert_eq!(card.summary().energy_seconds, Some(5.0));
            assert_eq!(unmeasured_energy(&card).as_deref(), expected);
        };
        check(5200, None);
        check(
            9500,
            Some("the energy of GPU 3 is that of 5.0 s of 9.5 s: the rest was not measured"),
        );
    }
}
