//! One card during a run: how long it was in which state, what it drew, what the job and others had on it.

use std::collections::BTreeMap;
use std::time::Duration;

use gua_model::{
    Bytes, Gpu, GpuUuid, Missing, Process, Reading, State, Thresholds, UtilWindow, divide,
};
use serde::Serialize;

use crate::energy::{Energy, Measured};
use crate::means::{Mean, float, rounded};
use crate::own;
use crate::rolled_up::RolledUp;
use crate::stretch::Stretch;

/// What a card did while it was the job's.
#[derive(Clone, Debug)]
pub(crate) struct CardUse {
    uuid: GpuUuid,
    index: u32,
    name: Reading<String>,
    memory_total: Reading<Bytes>,
    /// The last look, and the time since boot at it.
    last: Option<(Duration, Gpu)>,
    observed: Duration,
    gap: Duration,
    states: [Duration; State::ALL.len()],
    util: Mean,
    own_util: Mean,
    memory_util: Mean,
    memory_used: Option<Bytes>,
    own_memory: Option<Bytes>,
    power: Mean,
    temperature: Option<i32>,
    energy: Energy,
    /// How long others were on the card, where it was always known whose its processes are.
    shared: Reading<Duration>,
    missing: BTreeMap<&'static str, Missing>,
}

/// How looks become time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) thresholds: Thresholds,
    /// From one look to the next, if all goes well.
    pub(crate) interval: Duration,
}

/// How busy a card was between two looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Busy {
    pub(crate) util_pct: f64,
    /// The time since boot at the first of them.
    pub(crate) from: Duration,
    pub(crate) time: Duration,
}

/// A card in `summary.json`. `null` is what nobody measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CardSummary {
    pub index: u32,
    pub uuid: String,
    pub name: Option<String>,
    pub memory_total_mb: Option<u64>,
    /// By everybody on the card.
    pub memory_used_max_mb: Option<u64>,
    /// By the job's own processes.
    pub own_memory_max_mb: Option<u64>,
    pub util_mean_pct: Option<f64>,
    pub util_max_pct: Option<f64>,
    /// By the job's own processes.
    pub own_util_mean_pct: Option<f64>,
    pub mem_util_mean_pct: Option<f64>,
    pub power_watts_mean: Option<f64>,
    pub power_watts_max: Option<f64>,
    pub temperature_max_c: Option<i32>,
    pub energy_joules: Option<f64>,
    /// `counter`, or `power` where power and time were multiplied.
    pub energy_from: Option<&'static str>,
    /// For how long it was measured. A counter goes on in gaps.
    pub energy_seconds: Option<f64>,
    /// The time that was observed: the sum of the states.
    pub observed_seconds: f64,
    /// The time in between in which nobody looked. It is in no state.
    pub gap_seconds: f64,
    /// The part of the observed time in which others had processes on the card; `null` where some process on it could be
    /// anybody's.
    pub shared_seconds: Option<f64>,
    pub states_seconds: BTreeMap<&'static str, f64>,
    /// Readings that the card never gave, each with the reason.
    pub missing: BTreeMap<&'static str, &'static str>,
}

impl CardSummary {
    /// Its states as time at work, not at work, and unknown.
    #[must_use]
    pub fn rolled_up(&self) -> RolledUp {
        RolledUp::of(
            self.states_seconds
                .iter()
                .map(|(word, time)| (*word, *time)),
        )
    }
}

impl CardUse {
    pub(crate) fn new(gpu: &Gpu) -> Self {
        Self {
            uuid: gpu.uuid.clone(),
            index: gpu.index,
            name: gpu.name.clone(),
            memory_total: gpu.memory_total,
            last: None,
            observed: Duration::ZERO,
            gap: Duration::ZERO,
            states: Default::default(),
            util: Mean::default(),
            own_util: Mean::default(),
            memory_util: Mean::default(),
            memory_used: None,
            own_memory: None,
            power: Mean::default(),
            temperature: None,
            energy: Energy::default(),
            shared: Ok(Duration::ZERO),
            missing: BTreeMap::new(),
        }
    }

    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn uuid(&self) -> &GpuUuid {
        &self.uuid
    }

    /// The card at one moment.
    fn look(&mut self, gpu: &Gpu, is_own: impl Fn(&Process) -> bool) {
        self.memory_used = self.memory_used.max(gpu.memory_used.ok());
        self.temperature = self
            .temperature
            .max(gpu.temperature.ok().map(|celsius| celsius.0));
        if let Ok(util) = gpu.util {
            self.util.reached(f64::from(util.get()));
        }
        let own_memory = own::memory(gpu, is_own);
        self.own_memory = self.own_memory.max(own_memory.ok());
        let readings = [
            ("util", gpu.util.err()),
            ("memory_util", gpu.memory_util.err()),
            ("memory_used", gpu.memory_used.err()),
            ("own_memory", own_memory.err()),
            ("power", gpu.power.err()),
            ("energy", gpu.energy.err()),
            ("temperature", gpu.temperature.err()),
        ];
        for (name, why) in readings {
            self.lacks(name, why);
        }
    }

    /// The first reason is kept.
    fn lacks(&mut self, name: &'static str, why: Option<Missing>) {
        if let Some(why) = why {
            self.missing.entry(name).or_insert(why);
        }
    }

    /// A look, and the time since the one before.
    pub(crate) fn pass(
        &mut self,
        now: Duration,
        gpu: Gpu,
        rules: &Rules,
        is_own: impl Fn(&Process) -> bool,
    ) -> Option<Busy> {
        self.look(&gpu, &is_own);
        let before = self.last.take();
        let busy = before.and_then(|(from, before)| {
            let stretch = Stretch::new(now.checked_sub(from)?, rules.interval);
            let util_pct = self.between(&before, &gpu, stretch, rules, is_own)?;
            Some(Busy {
                util_pct,
                from,
                time: stretch.counted,
            })
        });
        self.last = Some((now, gpu));
        busy
    }

    /// The time between two looks: who was there at its beginning, and what the driver buffered meanwhile.
    fn between(
        &mut self,
        before: &Gpu,
        after: &Gpu,
        stretch: Stretch,
        rules: &Rules,
        is_own: impl Fn(&Process) -> bool,
    ) -> Option<f64> {
        // A buffer that does not reach back to the look before says nothing about the time after it.
        let window = after.window.as_ref().ok();
        let window = window.filter(|window| window.covers(stretch.whole));
        let time = stretch.counted;
        if let Some(most) = window.and_then(|window| window.max) {
            self.util.reached(f64::from(most.get()));
        }
        if let Ok(util) = after.memory_util {
            self.memory_util.stood(f64::from(util.get()), time);
        }
        match own::util(before, after, &is_own) {
            Ok(Some(util)) => self.own_util.stood(util, time),
            Ok(None) => {}
            Err(why) => self.lacks("own_util", Some(why)),
        }
        self.energy.pass(before, after, stretch);
        self.draw(after, time);
        self.stand(before, window, stretch, rules, is_own)
    }

    /// The run has ended, and there was no further look at the card.
    pub(crate) fn end(&mut self, now: Duration, rules: &Rules, is_own: impl Fn(&Process) -> bool) {
        if let Some((from, before)) = self.last.take()
            && let Some(whole) = now.checked_sub(from)
        {
            let stretch = Stretch::new(whole, rules.interval);
            self.energy.stand(&before, stretch.counted);
            self.draw(&before, stretch.counted);
            self.stand(&before, None, stretch, rules, is_own);
        }
    }

    /// The card as it was stood for this time, with the utilisation that is given back.
    fn stand(
        &mut self,
        before: &Gpu,
        window: Option<&UtilWindow>,
        stretch: Stretch,
        rules: &Rules,
        is_own: impl Fn(&Process) -> bool,
    ) -> Option<f64> {
        let time = stretch.counted;
        self.observed += time;
        self.gap += stretch.gap();
        let division = divide(before, window, &rules.thresholds, None);
        for part in division.parts.iter().flatten() {
            let share = float(part.samples) / float(part.of.max(1));
            self.states[part.verdict.state.place()] += time.mul_f64(share);
        }
        let is_shared = own::is_shared(before, is_own);
        self.lacks("shared", is_shared.err());
        self.shared = self.shared.and_then(|shared| {
            Ok(match is_shared? {
                true => shared + time,
                false => shared,
            })
        });
        let mean = window.and_then(UtilWindow::mean);
        let util = mean.or_else(|| before.util.ok().map(|util| f64::from(util.get())))?;
        self.util.stood(util, time);
        Some(util)
    }

    /// It drew what it draws at this look, for so long.
    fn draw(&mut self, look: &Gpu, time: Duration) {
        if let Ok(power) = look.power {
            self.power.stood(float(power.0) / 1000.0, time);
        }
    }

    /// What it used, and for how long that was measured.
    pub(crate) fn energy(&self) -> Option<Measured> {
        self.energy.measured(self.observed, self.gap)
    }

    /// How long it was in this state.
    pub(crate) fn in_state(&self, state: State) -> Duration {
        self.states[state.place()]
    }

    pub(crate) fn summary(&self) -> CardSummary {
        let energy = self.energy();
        let one = |value: Option<f64>| value.map(|value| rounded(value, 1));
        let mut missing = self.missing.clone();
        // Given once, it is not missing.
        let was_given = [
            ("util", self.util.most().is_some()),
            ("memory_util", self.memory_util.most().is_some()),
            ("memory_used", self.memory_used.is_some()),
            ("own_memory", self.own_memory.is_some()),
            ("own_util", self.own_util.most().is_some()),
            ("power", self.power.most().is_some()),
            ("energy", self.energy.was_counted()),
            ("temperature", self.temperature.is_some()),
        ];
        missing.retain(|name, _| !was_given.contains(&(*name, true)));
        CardSummary {
            index: self.index,
            uuid: self.uuid.to_string(),
            name: self.name.clone().ok(),
            memory_total_mb: self.memory_total.ok().map(Bytes::whole_mb),
            memory_used_max_mb: self.memory_used.map(Bytes::whole_mb),
            own_memory_max_mb: self.own_memory.map(Bytes::whole_mb),
            util_mean_pct: one(self.util.mean()),
            util_max_pct: one(self.util.most()),
            own_util_mean_pct: one(self.own_util.mean()),
            mem_util_mean_pct: one(self.memory_util.mean()),
            power_watts_mean: one(self.power.mean()),
            power_watts_max: one(self.power.most()),
            temperature_max_c: self.temperature,
            energy_joules: one(energy.map(|energy| energy.joules)),
            energy_from: energy.map(|energy| energy.from),
            energy_seconds: energy.map(|energy| rounded(energy.time.as_secs_f64(), 3)),
            observed_seconds: rounded(self.observed.as_secs_f64(), 3),
            gap_seconds: rounded(self.gap.as_secs_f64(), 3),
            shared_seconds: self.shared.ok().map(|time| rounded(time.as_secs_f64(), 3)),
            states_seconds: State::ALL
                .into_iter()
                .map(|state| (state.as_str(), self.in_state(state)))
                .filter(|(_, time)| !time.is_zero())
                .map(|(word, time)| (word, rounded(time.as_secs_f64(), 3)))
                .collect(),
            missing: missing
                .into_iter()
                .map(|(name, why)| (name, why.as_str()))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use gua_model::{Millijoules, Milliwatts, Percent, Pid, ProcessKind};

    use super::*;
    use crate::watch::tests::identity;

    fn card(util: u32, energy: Option<u64>, pids: &[u32]) -> Gpu {
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

    /// Looks ten seconds apart.
    fn after(looks: &[Gpu]) -> CardSummary {
        let is_own = |process: &Process| process.pid == Pid(2);
        let rules = Rules {
            thresholds: Thresholds::default(),
            interval: Duration::from_secs(10),
        };
        let mut used = CardUse::new(&looks[0]);
        for (now, look) in looks.iter().enumerate() {
            let now = Duration::from_secs(10 * u64::try_from(now).unwrap());
            used.pass(now, look.clone(), &rules, is_own);
        }
        used.summary()
    }

    #[test]
    fn time_is_divided_among_states_and_neighbours_are_told_apart() {
        let summary = after(&[
            card(90, Some(1000), &[2]),
            card(0, Some(501_000), &[2, 3]),
            card(0, Some(601_000), &[]),
        ]);
        assert_eq!(summary.observed_seconds, 20.0);
        assert_eq!(summary.states_seconds["active"], 10.0);
        assert_eq!(summary.states_seconds["idle-held"], 10.0);
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
            let look = |util: &Reading<Option<u32>>| {
                let mut look = card(50, None, &[2, 3]);
                look.processes[0].sm_util = util.map(|util| util.and_then(Percent::new));
                look
            };
            let summary = after(&own.iter().map(look).collect::<Vec<_>>());
            assert_eq!(summary.own_util_mean_pct, expected, "{own:?}");
            let is_missing = summary.missing.contains_key("own_util");
            assert_eq!(is_missing, expected.is_none(), "{own:?}");
        };
        let hidden = Err(Missing::Denied);
        check(&[Ok(None), Ok(Some(80)), Ok(None)], Some(40.0));
        check(&[Ok(None), Ok(None)], Some(0.0));
        check(&[Ok(None), Ok(Some(80)), hidden], Some(80.0));
        check(&[Ok(None), hidden, hidden], None);
        // What it did before it ended nobody knows.
        let ended = after(&[
            card(50, None, &[2]),
            card(50, None, &[2]),
            card(0, None, &[]),
            card(0, None, &[]),
        ]);
        assert_eq!(ended.own_util_mean_pct, Some(10.0));
    }

    #[test]
    fn a_process_that_can_be_anybodys_is_neither_the_jobs_nor_anothers() {
        let mut nameless = card(90, None, &[7]);
        nameless.processes[0].identity = Err(Missing::Denied);
        let check = |looks: &[Gpu], shared: Option<f64>, memory: Option<u64>| {
            let summary = after(looks);
            assert_eq!(summary.shared_seconds, shared);
            assert_eq!(summary.own_memory_max_mb, memory);
            let told = ["shared", "own_memory"].map(|name| summary.missing.get(name));
            let hidden = |known: bool| (!known).then_some(&"denied");
            assert_eq!(told, [hidden(shared.is_some()), hidden(memory.is_some())]);
        };
        let known = |pids: &[u32]| card(90, None, pids);
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
    fn energy_is_reckoned_where_the_driver_does_not_count_and_that_is_told() {
        let summary = after(&[card(90, None, &[2]), card(90, None, &[2])]);
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
    fn a_counter_that_starts_anew_takes_nothing_away() {
        let looks = [900_000, 1000, 101_000].map(|energy| Gpu {
            power: Err(Missing::Unsupported),
            ..card(90, Some(energy), &[2])
        });
        let summary = after(&looks);
        assert_eq!(summary.energy_joules, Some(100.0));
        assert_eq!(summary.energy_seconds, Some(10.0));
    }
}
