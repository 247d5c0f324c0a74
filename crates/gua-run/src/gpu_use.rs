//! One GPU during a run: the same spans and totals as in a history, and values that only a run needs (peaks, the job's
//! own share, whether others used the GPU).

use std::collections::BTreeMap;
use std::time::Duration;

use gua_model::period::micros_between;
use gua_model::run::RolledUp;
use gua_model::unit::float;
use gua_model::{
    Basis, Bytes, Cadence, Gpu, Micros, Missing, Process, QuarterTotal, Reading, Span, State,
    UtilSum,
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::energy::Measured;
use crate::means::{Mean, highest, rounded};
use crate::own;

/// Use of a GPU during a job.
#[derive(Clone, Debug)]
pub(crate) struct GpuUse {
    /// The GPU in the first sample that counts.
    pub(crate) first: Gpu,
    cadence: Cadence,
    /// Time of that sample.
    from: Timestamp,
    /// Last sample, or the end of the run.
    to: Timestamp,
    /// End of the last span; `from` before there is one.
    covered_to: Timestamp,
    /// Totals of all spans of the run.
    total: QuarterTotal,
    /// Time in which samples were missed. Other gaps are caused by late samples.
    missed: Micros,
    util_max: Option<f64>,
    own_util: Mean,
    memory_util: Mean,
    memory_used: Option<Bytes>,
    own_memory: Option<Bytes>,
    power: Mean,
    temperature: Option<i32>,
    /// Time in which others used the GPU; a reason once the owner of some process was unknown.
    shared: Reading<Micros>,
    /// Names of the readings: those that were used once, and the first reason for each of the others.
    readings: BTreeMap<&'static str, Reading<()>>,
}

/// A GPU in `summary.json`. `null` was not measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GpuSummary {
    /// The driver's index.
    pub index: u32,
    pub uuid: String,
    pub name: Option<String>,
    pub memory_total_mb: Option<u64>,
    /// Used by all processes on the GPU.
    pub memory_used_max_mb: Option<u64>,
    /// Used by the job's own processes.
    pub own_memory_max_mb: Option<u64>,
    /// Weighted by time.
    pub util_mean_pct: Option<f64>,
    pub util_max_pct: Option<f64>,
    /// Of the job's own processes.
    pub own_util_mean_pct: Option<f64>,
    pub mem_util_mean_pct: Option<f64>,
    pub power_watts_mean: Option<f64>,
    pub power_watts_max: Option<f64>,
    pub temperature_max_c: Option<i32>,
    /// By the driver's counter, as in a report; an estimate if the counter counted nothing.
    pub energy_joules: Option<f64>,
    /// `counter`, or `power` for an estimate from power and time.
    pub energy_from: Option<&'static str>,
    /// The part of the observed time for which energy is known.
    pub energy_seconds: Option<f64>,
    /// Estimate from power and time, whether or not the counter counted.
    pub energy_estimate_joules: Option<f64>,
    /// The part of the observed time that the estimate is for.
    pub energy_estimate_seconds: Option<f64>,
    /// Time covered by samples: the sum of the states.
    pub observed_seconds: f64,
    /// Time between the first sample and the end that no sample covers. It is in no state.
    pub gap_seconds: f64,
    /// Observed time in which others had processes on the GPU; `null` if the owner of some process is unknown.
    pub shared_seconds: Option<f64>,
    /// Time in each state; states without time are left out.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "BTreeMap<&str, f64>")]
    pub states_seconds: BTreeMap<State, f64>,
    /// Readings that the GPU never gave, each with the reason.
    pub missing: BTreeMap<&'static str, &'static str>,
}

impl GpuSummary {
    /// The time of all states as active, idle and unknown.
    pub fn rolled_up(&self) -> RolledUp {
        let states = self.states_seconds.iter();
        RolledUp::of(states.map(|(state, time)| (Some(*state), *time)))
    }
}

fn by_name<S: Serializer>(states: &BTreeMap<State, f64>, out: S) -> Result<S::Ok, S::Error> {
    let named: BTreeMap<&str, &f64> = states
        .iter()
        .map(|(it, time)| (it.as_str(), time))
        .collect();
    named.serialize(out)
}

impl GpuUse {
    /// Begins with the first sample that counts.
    pub(crate) fn new(gpu: &Gpu, at: Timestamp, cadence: Cadence) -> Self {
        Self {
            first: gpu.clone(),
            cadence,
            from: at,
            to: at,
            covered_to: at,
            total: QuarterTotal::default(),
            missed: Micros(0),
            util_max: None,
            own_util: Mean::default(),
            memory_util: Mean::default(),
            memory_used: None,
            own_memory: None,
            power: Mean::default(),
            temperature: None,
            shared: Ok(Micros(0)),
            readings: BTreeMap::new(),
        }
    }

    /// Adds the readings of one sample.
    pub(crate) fn sample(&mut self, gpu: &Gpu, at: Timestamp, is_own: impl Fn(&Process) -> bool) {
        self.to = self.to.max(at);
        self.memory_used = self
            .memory_used
            .max(self.take("memory_used", gpu.memory_used));
        let celsius = self.take("temperature", gpu.temperature);
        self.temperature = self.temperature.max(celsius.map(|celsius| celsius.0));
        let util = self.take("util", gpu.util);
        self.reach_util(util.map(|util| util.get()));
        let own_memory = own::memory(gpu, is_own);
        self.own_memory = self.own_memory.max(self.take("own_memory", own_memory));
        self.lack("energy", gpu.energy.err());
    }

    /// Adds a span: the time that the sample `before` covers. `after` is the next sample, if it has this GPU.
    pub(crate) fn cover(
        &mut self,
        span: &Span,
        before: &Gpu,
        after: Option<&Gpu>,
        is_own: impl Fn(&Process) -> bool,
    ) {
        self.skip_to(span.from);
        self.covered_to = span.to;
        self.total.add(span, span.period());
        let time = Duration::from_micros(span.period().micros().0);
        if let Some(after) = after {
            let window = after.window.as_ref().ok();
            let window = window.filter(|_| span.basis == Basis::Buffer);
            self.reach_util(window.and_then(|it| it.max).map(|util| util.get()));
            if let Some(util) = own::util(before, after, &is_own).transpose()
                && let Some(util) = self.take("own_util", util)
            {
                self.own_util.add(util, time);
            }
        }
        // The driver averages these two over the time before a reading, so the later one describes the span.
        let later = after.unwrap_or(before);
        if let Some(util) = self.take("memory_util", later.memory_util) {
            self.memory_util.add(f64::from(util.get()), time);
        }
        if let Some(power) = self.take("power", later.power) {
            self.power.add(float(power.0) / 1000.0, time);
        }
        let is_shared = own::is_shared(before, is_own);
        self.lack("shared", is_shared.err());
        self.shared = self.shared.and_then(|shared| {
            Ok(match is_shared? {
                true => shared + span.period().micros(),
                false => shared,
            })
        });
    }

    /// Ends the run.
    pub(crate) fn end(&mut self, at: Timestamp) {
        self.to = self.to.max(at);
        self.skip_to(at);
    }

    /// Records the gap between the last span and this time, if samples were missed in it.
    fn skip_to(&mut self, at: Timestamp) {
        let hole = micros_between(self.covered_to, at);
        if self.cadence.is_break(hole) {
            self.missed += hole;
        }
    }

    /// Returns a reading, or notes why it is missing.
    fn take<T>(&mut self, name: &'static str, reading: Reading<T>) -> Option<T> {
        match &reading {
            Ok(_) => {
                self.readings.insert(name, Ok(()));
            }
            Err(why) => self.lack(name, Some(*why)),
        }
        reading.ok()
    }

    fn reach_util(&mut self, percent: Option<u8>) {
        self.util_max = highest([self.util_max, percent.map(f64::from)]);
    }

    /// Keeps the first reason why a reading is missing.
    fn lack(&mut self, name: &'static str, why: Option<Missing>) {
        if let Some(why) = why {
            self.readings.entry(name).or_insert(Err(why));
        }
    }

    /// Energy, and for how much of the observed time it is known.
    pub(crate) fn energy(&self) -> Option<Measured> {
        Measured::of(&self.total.gpu, &self.power)
    }

    /// Estimate of the energy from power, with the part of the observed time for which power is known.
    pub(crate) fn energy_estimate(&self) -> Option<Measured> {
        Measured::estimated(&self.total.gpu, &self.power)
    }

    /// Time in which samples were missed.
    pub(crate) fn missed(&self) -> Duration {
        Duration::from_micros(self.missed.0)
    }

    fn states(&self) -> BTreeMap<State, Micros> {
        let mut states = BTreeMap::new();
        for ((state, _), total) in &self.total.states {
            *states.entry(*state).or_insert(Micros(0)) += total.micros;
        }
        states.retain(|_, time| *time > Micros(0));
        states
    }

    pub(crate) fn summary(&self) -> GpuSummary {
        let (energy, estimate) = (self.energy(), self.energy_estimate());
        let total = &self.total.gpu;
        let util = UtilSum {
            sum: total.util_sum,
            known: total.util_known,
        };
        let one = |value: Option<f64>| value.map(|value| rounded(value, 1));
        let gap = micros_between(self.from, self.to)
            .0
            .saturating_sub(total.present.0);
        GpuSummary {
            index: self.first.index,
            uuid: self.first.uuid.to_string(),
            name: self.first.name.clone().ok(),
            memory_total_mb: self.first.memory_total.ok().map(Bytes::whole_mb),
            memory_used_max_mb: self.memory_used.map(Bytes::whole_mb),
            own_memory_max_mb: self.own_memory.map(Bytes::whole_mb),
            util_mean_pct: one(util.mean().map(|mean| f64::from(mean.0) / 100.0)),
            util_max_pct: one(self.util_max),
            own_util_mean_pct: one(self.own_util.mean()),
            mem_util_mean_pct: one(self.memory_util.mean()),
            power_watts_mean: one(self.power.mean()),
            power_watts_max: one(self.power.most),
            temperature_max_c: self.temperature,
            energy_joules: one(energy.map(|energy| energy.joules)),
            energy_from: energy.map(|energy| energy.from.as_str()),
            energy_seconds: energy.map(|energy| seconds(energy.time)),
            energy_estimate_joules: one(estimate.map(|estimate| estimate.joules)),
            energy_estimate_seconds: estimate.map(|estimate| seconds(estimate.time)),
            observed_seconds: seconds(total.present),
            gap_seconds: seconds(Micros(gap)),
            shared_seconds: self.shared.ok().map(seconds),
            states_seconds: self
                .states()
                .into_iter()
                .map(|(state, time)| (state, seconds(time)))
                .collect(),
            missing: self.never_given(),
        }
    }

    /// Readings that no sample had.
    fn never_given(&self) -> BTreeMap<&'static str, &'static str> {
        let is_given = |name: &str| match name {
            "energy" => self.total.gpu.energy_known > Micros(0),
            "util" => self.util_max.is_some(),
            _ => false,
        };
        let readings = self.readings.iter();
        readings
            .filter(|(name, _)| !is_given(name))
            .filter_map(|(name, reading)| Some((*name, reading.err()?.as_str())))
            .collect()
    }
}

fn seconds(time: Micros) -> f64 {
    rounded(Duration::from_micros(time.0).as_secs_f64(), 3)
}

#[cfg(test)]
mod tests {
    use gua_model::{Millijoules, Milliwatts, Percent, Pid, ProcessKind};

    use super::*;
    use crate::watch::tests::{identity, sample_of, watch_all};

    fn gpu(util: u32, energy: Option<u64>, pids: &[u32]) -> Gpu {
        let process = |pid: &u32| Process {
            pid: Pid(*pid),
            kind: ProcessKind::Compute,
            memory: Ok(Bytes::from_mb(u64::from(*pid) * 100)),
            sm_util: Ok(Percent::new(20)),
            identity: Ok(identity(Pid(*pid))),
        };
        Gpu {
            util: Ok(Percent::new(util).unwrap()),
            memory_used: Ok(Bytes::from_mb(1000)),
            power: Ok(Milliwatts(50_000)),
            energy: energy.map(Millijoules).ok_or(Missing::Unsupported),
            compute_list: Ok(()),
            graphics_list: Ok(()),
            processes: pids.iter().map(process).collect(),
            ..Gpu::without_readings("GPU-1".parse().unwrap(), 0, Missing::Unsupported)
        }
    }

    /// Samples ten seconds apart, as planned; the job has process 2.
    fn after(samples: &[Gpu]) -> GpuSummary {
        let mut watch = watch_all(10);
        for (number, gpu) in (0..).zip(samples) {
            watch.gpus(&sample_of(10 * number, vec![gpu.clone()]), |pid| {
                pid == Pid(2)
            });
        }
        watch.gpus[0].summary()
    }

    #[test]
    fn time_is_divided_among_states_and_other_users_are_distinguished() {
        let summary = after(&[
            gpu(90, Some(1000), &[2]),
            gpu(0, Some(501_000), &[2, 3]),
            gpu(0, Some(601_000), &[]),
        ]);
        assert_eq!(summary.observed_seconds, 20.0);
        assert_eq!(summary.states_seconds[&State::Active], 10.0);
        assert_eq!(summary.states_seconds[&State::IdleHeld], 10.0);
        assert_eq!(summary.shared_seconds, Some(10.0));
        assert_eq!(summary.own_memory_max_mb, Some(200));
        assert_eq!(summary.memory_used_max_mb, Some(1000));
        assert_eq!(summary.util_mean_pct, Some(45.0));
        assert_eq!(summary.own_util_mean_pct, Some(20.0));
        assert_eq!(
            (summary.energy_joules, summary.energy_from),
            (Some(600.0), Some("counter"))
        );
        assert_eq!(summary.energy_seconds, Some(20.0));
    }

    #[test]
    fn a_process_at_rest_is_not_left_out_of_the_mean_and_one_that_is_hidden_is() {
        let check = |own: &[Reading<Option<u32>>], expected: Option<f64>| {
            let sample = |util: &Reading<Option<u32>>| {
                let mut sample = gpu(50, None, &[2, 3]);
                sample.processes[0].sm_util = util.map(|util| util.and_then(Percent::new));
                sample
            };
            let summary = after(&own.iter().map(sample).collect::<Vec<_>>());
            assert_eq!(summary.own_util_mean_pct, expected, "{own:?}");
            let is_missing = summary.missing.contains_key("own_util");
            assert_eq!(is_missing, expected.is_none(), "{own:?}");
        };
        let hidden = Err(Missing::Denied);
        check(&[Ok(None), Ok(Some(80)), Ok(None)], Some(40.0));
        check(&[Ok(None), Ok(None)], Some(0.0));
        check(&[Ok(None), Ok(Some(80)), hidden], Some(80.0));
        check(&[Ok(None), hidden, hidden], None);
        // The use just before its end is unknown.
        let ended = after(&[
            gpu(50, None, &[2]),
            gpu(50, None, &[2]),
            gpu(0, None, &[]),
            gpu(0, None, &[]),
        ]);
        assert_eq!(ended.own_util_mean_pct, Some(10.0));
    }

    #[test]
    fn a_process_that_can_be_anybodys_is_neither_the_jobs_nor_anothers() {
        let mut nameless = gpu(90, None, &[7]);
        nameless.processes[0].identity = Err(Missing::Denied);
        let check = |samples: &[Gpu], shared: Option<f64>, memory: Option<u64>| {
            let summary = after(samples);
            assert_eq!(summary.shared_seconds, shared);
            assert_eq!(summary.own_memory_max_mb, memory);
            let missing = ["shared", "own_memory"].map(|name| summary.missing.get(name));
            let hidden = |known: bool| (!known).then_some(&"denied");
            assert_eq!(
                missing,
                [hidden(shared.is_some()), hidden(memory.is_some())]
            );
        };
        let known = |pids: &[u32]| gpu(90, None, pids);
        check(&[nameless.clone(), nameless.clone()], None, None);
        check(&[known(&[3]), nameless.clone()], Some(10.0), Some(0));
        check(
            &[known(&[2]), nameless.clone(), known(&[2])],
            None,
            Some(200),
        );
        check(&[known(&[]), known(&[])], Some(0.0), Some(0));
        let mut both = known(&[2, 3, 7]);
        both.processes[2].identity = Err(Missing::Denied);
        check(&[both.clone(), both], Some(10.0), Some(200));
        let mut ended = known(&[2, 7]);
        ended.processes[1].identity = Err(Missing::Gone);
        check(&[ended.clone(), ended], Some(0.0), Some(200));
    }

    #[test]
    fn energy_is_computed_from_power_if_the_driver_has_no_counter_and_marked_as_such() {
        let summary = after(&[gpu(90, None, &[2]), gpu(90, None, &[2])]);
        assert_eq!(
            (summary.energy_joules, summary.energy_from),
            (Some(500.0), Some("power"))
        );
        assert_eq!(summary.missing["energy"], "unsupported");
        assert_eq!(summary.missing["temperature"], "unsupported");
        assert!(!summary.missing.contains_key("power"));
        assert_eq!(summary.temperature_max_c, None);
    }

    #[test]
    fn a_counter_that_restarts_at_zero_subtracts_nothing() {
        let samples = [900_000, 1000, 101_000].map(|energy| Gpu {
            power: Err(Missing::Unsupported),
            ..gpu(90, Some(energy), &[2])
        });
        let summary = after(&samples);
        assert_eq!(summary.energy_joules, Some(100.0));
        assert_eq!(summary.energy_seconds, Some(10.0));
        assert_eq!(summary.energy_estimate_joules, None);
    }

    #[test]
    fn the_energy_of_a_counter_that_failed_for_a_part_is_kept_beside_the_estimate() {
        let samples = [Some(0), Some(300_000), None, None].map(|energy| gpu(90, energy, &[2]));
        let summary = after(&samples);
        assert_eq!(
            (summary.energy_joules, summary.energy_from),
            (Some(300.0), Some("counter"))
        );
        assert_eq!(summary.energy_seconds, Some(10.0));
        assert_eq!(summary.energy_estimate_joules, Some(1500.0));
        assert_eq!(summary.energy_estimate_seconds, Some(30.0));
    }
}
