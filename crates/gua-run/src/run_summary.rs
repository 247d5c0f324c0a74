//! The summary of a run: the document `summary.json`, which the history keeps too.

use std::time::Duration;

use gua_model::Micros;
use gua_model::run::RolledUp;
use gua_probe::process::family::FamilyUse;
use gua_wire::run::summary::ResourceSummary;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::energy::Measured;
use crate::gpu_use::{GpuSummary, GpuUse};
use crate::phases::PhaseSummary;
use crate::tree_use::TreeSummary;
use crate::watch::Watch;

/// Name of the value by which a job reports JAX's own peak.
pub const JAX_PEAK: &str = "jax_peak_bytes_mb";

/// Minimum time of missed samples that is noted.
const NOTABLE_GAP: Duration = Duration::from_secs(3);

/// Summary of a run, as in `summary.json` of `gua run --out`. The numbers at the top are those of the original program; zero
/// there can also mean that nothing was measured, and `unmeasured` lists those. Elsewhere null means not measured, never zero.
/// Keys may be added under the same version; none changes its meaning. The file that `gua.monitor()` writes in Python has the same
/// numbers, `unmeasured` and `notes`, and a part of `run`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunSummary {
    #[serde(flatten)]
    pub resources: ResourceSummary,
    pub run: RunFacts,
    pub gpus: Vec<GpuSummary>,
    pub tree: TreeSummary,
    pub phases: Vec<PhaseSummary>,
    /// Values that the job set.
    pub values: Map<String, Value>,
    /// Names of the numbers above that are zero because nothing was measured.
    pub unmeasured: Vec<&'static str>,
    /// Problems while watching the job, as sentences.
    pub notes: Vec<String>,
}

/// Identity and outcome of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunFacts {
    pub version: u32,
    /// Name of the run.
    pub id: String,
    /// Short name of the program; never its arguments.
    pub name: String,
    pub host: String,
    /// UTC, as in RFC 3339.
    pub started: String,
    /// UTC, as in RFC 3339.
    pub ended: String,
    pub seconds: f64,
    /// As in a shell: 128 plus the signal's number for a job that was killed.
    pub exit_code: i32,
    /// Signal that ended the job, if one did.
    pub signal: Option<i32>,
    /// Planned time between two samples.
    pub interval_seconds: f64,
    /// Number of samples of the GPUs.
    pub samples: u64,
}

/// Identity of a run, known before the job starts.
#[derive(Clone, Debug)]
pub struct RunName {
    pub id: String,
    pub name: String,
    pub host: String,
}

impl RunSummary {
    /// Creates the summary of a run with the duration `took`.
    pub(crate) fn new(
        run: RunFacts,
        took: Duration,
        watch: &Watch,
        last: &FamilyUse,
        mut notes: Vec<String>,
    ) -> Self {
        let mut resources = watch.tally.summary();
        if let Some(peak) = watch.values.get(JAX_PEAK).and_then(Value::as_f64) {
            resources.jax_peak_bytes_mb = peak;
        }
        notes.extend(counted(
            watch.phases.dropped,
            "more phase is in the log",
            "more phases are in the log",
        ));
        notes.extend(counted(
            watch.values_dropped,
            "value was not kept",
            "values were not kept",
        ));
        let gpus = watch.gpu_summaries();
        notes.extend(unobserved(&watch.gpus));
        notes.extend(watch.gpus.iter().filter_map(unmeasured_energy));
        Self {
            resources,
            run,
            gpus,
            tree: watch.tree.summary(last, took),
            phases: watch.phases.done.clone(),
            values: watch.values.clone(),
            unmeasured: watch.tally.missing(),
            notes,
        }
    }

    /// The JSON document.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("plain fields with text keys fit JSON");
        text.push('\n');
        text
    }

    /// Time of all GPUs.
    pub fn rolled_up(&self) -> RolledUp {
        self.gpus.iter().map(GpuSummary::rolled_up).sum()
    }
}

/// A count in words; `None` for zero.
pub(crate) fn counted(number: u64, one: &str, more: &str) -> Option<String> {
    match number {
        0 => None,
        1 => Some(format!("1 {one}")),
        number => Some(format!("{number} {more}")),
    }
}

/// Note that samples were missed for a while.
fn unobserved(gpus: &[GpuUse]) -> Option<String> {
    let longest = gpus.iter().map(GpuUse::missed).max();
    let gap = longest.filter(|gap| *gap >= NOTABLE_GAP)?.as_secs_f64();
    Some(format!(
        "for {gap:.0} s no GPU was observed; that time counts neither as used nor as wasted"
    ))
}

/// Note that the energy is that of a part of the time.
fn unmeasured_energy(gpu: &GpuUse) -> Option<String> {
    let energy = gpu.energy().filter(Measured::is_partial)?;
    let seconds = |time: Micros| Duration::from_micros(time.0).as_secs_f64();
    let estimate = gpu.energy_estimate().filter(|it| it.time > energy.time);
    let estimate = estimate.map(|it| {
        let (joules, time) = (it.joules, seconds(it.time));
        format!("; the estimate from its power is {joules:.0} J for {time:.1} s")
    });
    Some(format!(
        "the energy of GPU {} covers {:.1} s of {:.1} s: the rest was not measured{}",
        gpu.first.index,
        seconds(energy.time),
        seconds(energy.observed),
        estimate.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use gua_model::{Gpu, Millijoules, Milliwatts, Missing};

    use super::*;
    use crate::watch::tests::{sample_of, watch_all};

    #[test]
    fn the_published_schema_is_that_of_the_type() {
        let (name, schema) = gua_render::schemas::named::<RunSummary>("gua.summary.v1");
        gua_test::schema::assert_published(name, &gua_render::document::pretty(&schema));
    }

    #[test]
    fn one_is_singular_and_zero_is_not_mentioned() {
        let counts = [0, 1, 2].map(|number| counted(number, "mark is", "marks are"));
        assert_eq!(
            counts.map(Option::unwrap_or_default),
            ["", "1 mark is", "2 marks are"]
        );
    }

    #[test]
    fn a_gap_is_noted_if_it_is_long() {
        let gpu = Gpu::without_readings("GPU-1".parse().unwrap(), 0, Missing::Unsupported);
        let after = |seconds: u64| {
            let mut watch = watch_all(2);
            watch.gpus(&sample_of(0, vec![gpu.clone()]), |_| true);
            watch.end(Duration::from_secs(seconds));
            unobserved(&watch.gpus)
        };
        assert_eq!(after(4), None);
        let note = after(62).unwrap();
        assert!(note.starts_with("for 60 s no GPU was observed"), "{note}");
    }

    #[test]
    fn energy_of_a_part_of_the_time_is_noted() {
        let check = |end: u64, watts: Option<u64>, expected: Option<&str>| {
            let gpu = |joules: u64| Gpu {
                energy: Ok(Millijoules(joules * 1000)),
                power: watts
                    .map(|watts| Milliwatts(watts * 1000))
                    .ok_or(Missing::Unsupported),
                ..Gpu::without_readings("GPU-1".parse().unwrap(), 3, Missing::Unsupported)
            };
            let mut watch = watch_all(5);
            watch.gpus(&sample_of(0, vec![gpu(0)]), |_| true);
            watch.gpus(&sample_of(5, vec![gpu(500)]), |_| true);
            watch.end(Duration::from_millis(end));
            assert_eq!(watch.gpus[0].summary().energy_seconds, Some(5.0));
            assert_eq!(unmeasured_energy(&watch.gpus[0]).as_deref(), expected);
        };
        check(5200, None, None);
        check(
            9500,
            None,
            Some("the energy of GPU 3 covers 5.0 s of 9.5 s: the rest was not measured"),
        );
        check(
            9500,
            Some(100),
            Some(
                "the energy of GPU 3 covers 5.0 s of 9.5 s: the rest was not measured; the estimate from its power is 950 J for 9.5 s",
            ),
        );
    }
}
