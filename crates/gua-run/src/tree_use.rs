//! Processor time, memory and storage of all processes of a job.

use std::time::Duration;

use gua_model::Bytes;
use gua_model::unit::float;
use gua_probe::process::family::{FamilyUse, Storage};
use schemars::JsonSchema;
use serde::Serialize;

use crate::means::{highest, rounded};

/// Resource use of a job's processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct TreeUse {
    last: Option<(Duration, FamilyUse)>,
    processes: u32,
    threads: u64,
    resident: Bytes,
    cores_most: Option<f64>,
}

/// A job's processes in `summary.json`. `null` was not measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TreeSummary {
    pub processes_max: u32,
    pub threads_max: u64,
    pub cpu_seconds: f64,
    /// CPU cores that were busy for the job, averaged over the run.
    pub cpu_cores_mean: Option<f64>,
    /// Maximum between two samples.
    pub cpu_cores_max: Option<f64>,
    /// Resident memory, summed over processes; shared pages count for each. `null` for a run too short to be sampled.
    pub memory_max_mb: Option<u64>,
    /// From storage.
    pub read_mb: Option<f64>,
    /// To storage.
    pub written_mb: Option<f64>,
}

/// Minimum time between two samples: the kernel counts processor time in hundredths of a second.
const MIN_INTERVAL: Duration = Duration::from_millis(500);

impl TreeUse {
    /// Adds a sample; returns the CPU cores that were busy since the one before, if known.
    pub(crate) fn add(&mut self, now: Duration, found: &FamilyUse) -> Option<f64> {
        self.processes = self.processes.max(found.processes);
        self.threads = self.threads.max(found.threads);
        self.resident = self.resident.max(found.resident);
        let cores = self.last.as_ref().and_then(|(then, before)| {
            let time = now
                .checked_sub(*then)
                .filter(|time| *time >= MIN_INTERVAL)?;
            let used = found.processor.saturating_sub(before.processor);
            Some(used.as_secs_f64() / time.as_secs_f64())
        });
        self.cores_most = highest([self.cores_most, cores]);
        if cores.is_some() || self.last.is_none() {
            self.last = Some((now, found.clone()));
        }
        cores
    }

    /// `last` is the sample after the job has ended, `took` the duration of the run.
    pub(crate) fn summary(&self, last: &FamilyUse, took: Duration) -> TreeSummary {
        let storage = |part: fn(&Storage) -> Bytes| {
            let bytes = last.storage.as_ref().map(part).ok()?;
            Some(rounded(float(bytes.0) / float(Bytes::PER_MB), 1))
        };
        let cpu = last.processor.as_secs_f64();
        let mean = (took >= MIN_INTERVAL).then(|| cpu / took.as_secs_f64());
        TreeSummary {
            processes_max: self.processes.max(1),
            threads_max: self.threads.max(1),
            cpu_seconds: rounded(cpu, 2),
            cpu_cores_mean: mean.map(|cores| rounded(cores, 2)),
            // A mean can exceed every sample: the first and the last part of a run lie outside of them.
            cpu_cores_max: highest([self.cores_most, mean]).map(|cores| rounded(cores, 2)),
            memory_max_mb: (self.resident > Bytes(0)).then(|| self.resident.whole_mb()),
            read_mb: storage(|storage| storage.read),
            written_mb: storage(|storage| storage.written),
        }
    }
}

#[cfg(test)]
mod tests {
    use gua_model::Missing;

    use super::*;

    fn found(cpu_ms: u64, mb: u64) -> FamilyUse {
        FamilyUse {
            processes: 2,
            threads: 3,
            processor: Duration::from_millis(cpu_ms),
            resident: Bytes::from_mb(mb),
            storage: Err(Missing::Denied),
            ended: Vec::new(),
        }
    }

    #[test]
    fn cpu_cores_are_measured_over_a_minimum_time() {
        let mut tree = TreeUse::default();
        let at = Duration::from_millis;
        assert_eq!(tree.add(at(0), &found(0, 10)), None);
        assert_eq!(tree.add(at(100), &found(90, 10)), None);
        assert_eq!(tree.add(at(1000), &found(2000, 300)), Some(2.0));
        assert_eq!(tree.add(at(2000), &found(2500, 20)), Some(0.5));
        let summary = tree.summary(&found(2500, 0), at(2500));
        assert_eq!(
            (summary.cpu_cores_mean, summary.cpu_cores_max),
            (Some(1.0), Some(2.0))
        );
        assert_eq!(summary.memory_max_mb, Some(300));
        assert_eq!((summary.read_mb, summary.written_mb), (None, None));
    }
}
