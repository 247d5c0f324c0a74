//! A scenario prepared for simulation: defaults filled in, time lines compiled, GPUs indexed by number, UUID and
//! address.
//!
//! A world never changes after it was built, except for the counters of its faults. It reads no files and no clock.

mod gpu;

use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use gpu::{Gpu, Instance, Process, Reading, Sizes};

use crate::code::Code;
use crate::scenario::{Fault, Scenario, Selector, Stamps};

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) gpus: Vec<Gpu>,
    origin_unix: f64,
    /// The same time as a driver time stamp, in microseconds.
    origin_stamp: u64,
    fault_calls: Vec<AtomicU64>,
}

/// A GPU or a MIG instance, by its position in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) gpu: usize,
    pub(crate) instance: Option<usize>,
}

impl Unit {
    /// Refers to a whole GPU.
    pub(crate) fn gpu(gpu: usize) -> Unit {
        Unit {
            gpu,
            instance: None,
        }
    }
}

impl World {
    /// Builds a world. `file_time` is second 0 if the scenario sets none.
    pub(crate) fn new(scenario: Scenario, file_time: f64) -> World {
        let gpus = scenario.gpus.iter().enumerate();
        let gpus = gpus.map(|(index, gpu)| Gpu::new(gpu, index, &scenario.buffers));
        // Milliseconds since 1970 stay below 2^53 for another 285 thousand years.
        let origin = scenario.clock.origin_unix_ms;
        let origin_unix = origin.map_or(file_time, |ms| ms as f64 / 1000.0);
        World {
            gpus: gpus.collect(),
            origin_unix,
            origin_stamp: whole(origin_unix * 1e6),
            fault_calls: scenario.faults.iter().map(|_| AtomicU64::new(0)).collect(),
            scenario,
        }
    }

    /// Returns the scenario time at a time of the real clock.
    pub(crate) fn time(&self, unix_seconds: f64) -> f64 {
        let clock = &self.scenario.clock;
        let elapsed = (unix_seconds - self.origin_unix) * clock.scale;
        clock.at.unwrap_or(elapsed)
    }

    /// Returns the driver's time stamp, in microseconds since 1970, for a scenario time.
    pub(crate) fn stamp(&self, time: f64) -> u64 {
        let clock = &self.scenario.clock;
        let elapsed = match clock.stamps {
            Stamps::Wall => time / clock.scale,
            Stamps::Scenario => time,
        };
        self.origin_stamp.saturating_add(whole(elapsed * 1e6))
    }

    pub(crate) fn is_hidden(&self, function: &str) -> bool {
        let mut hidden = self.scenario.symbol_answers_not_found.iter();
        hidden.any(|pattern| matches(pattern, function))
    }

    /// Returns the GPUs that are counted at this time, in NVML's order.
    pub(crate) fn present(&self, time: f64) -> impl Iterator<Item = (usize, &Gpu)> {
        let gpus = self.gpus.iter().enumerate();
        gpus.filter(move |(_, gpu)| !gpu.is_absent(time))
    }

    pub(crate) fn find_gpu(&self, time: f64, is_it: impl Fn(&Gpu) -> bool) -> Result<Unit, Code> {
        let found = self.present(time).find(|(_, gpu)| is_it(gpu));
        found.map(|(gpu, _)| Unit::gpu(gpu)).ok_or(Code::NOT_FOUND)
    }

    /// Finds a GPU or an instance, including absent ones.
    pub(crate) fn find_uuid(&self, uuid: &str) -> Option<Unit> {
        self.gpus.iter().enumerate().find_map(|(gpu, one)| {
            if one.scripted.uuid == uuid {
                return Some(Unit::gpu(gpu));
            }
            let place = one
                .instances
                .iter()
                .position(|part| part.scripted.uuid == uuid)?;
            Some(Unit {
                gpu,
                instance: Some(place),
            })
        })
    }

    pub(crate) fn uuid(&self, unit: Unit) -> &str {
        let gpu = &self.gpus[unit.gpu];
        let instance = unit
            .instance
            .map(|place| &gpu.instances[place].scripted.uuid);
        instance.unwrap_or(&gpu.scripted.uuid)
    }

    /// Counts a call for the faults that concern it. Returns the delay in milliseconds that they add up to, and the first
    /// that decides how the call ends.
    pub(crate) fn trouble(
        &self,
        function: &str,
        unit: Option<Unit>,
        time: f64,
    ) -> (u64, Option<&Fault>) {
        let (mut delay_ms, mut deciding) = (0_u64, None);
        for (fault, calls) in self.scenario.faults.iter().zip(&self.fault_calls) {
            let concerns = matches(&fault.function, function)
                && self.selects(fault, unit)
                && gpu::is_between(fault.from, fault.until, time);
            if !concerns || calls.fetch_add(1, Ordering::Relaxed) < fault.after_calls {
                continue;
            }
            delay_ms = delay_ms.saturating_add(fault.delay_ms);
            deciding = deciding.or(Some(fault).filter(|fault| fault.decides()));
        }
        (delay_ms, deciding)
    }

    fn selects(&self, fault: &Fault, unit: Option<Unit>) -> bool {
        match (&fault.gpu, unit) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(Selector::Index(index)), Some(unit)) => {
                usize::try_from(*index).is_ok_and(|index| index == unit.gpu)
            }
            (Some(Selector::Uuid(uuid)), Some(unit)) => {
                *uuid == self.uuid(unit) || *uuid == self.gpus[unit.gpu].scripted.uuid
            }
        }
    }
}

/// Matches a whole name against a pattern in which `*` matches any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(head) else {
        return false;
    };
    let mut pieces = rest.split('*').peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return name.ends_with(piece);
        }
        match name.find(piece) {
            Some(at) => name = &name[at + piece.len()..],
            None => return false,
        }
    }
    true
}

/// Rounds to the nearest integer, clamped to the range. Not with `f64::round`, which is a library function on the
/// oldest supported CPUs.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` from a float saturates, which is what is wanted; what it leaves of a fraction is exact"
)]
pub(crate) fn whole(number: f64) -> u64 {
    let below = number as u64;
    below.saturating_add(u64::from(number - below as f64 >= 0.5))
}

/// As [`whole`], for 32-bit readings.
pub(crate) fn whole32(number: f64) -> u32 {
    u32::try_from(whole(number)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_characters() {
        let name = "nvmlDeviceGetComputeRunningProcesses_v3";
        for pattern in [
            "*",
            name,
            "nvmlDeviceGet*",
            "*_v3",
            "nvml*Running*_v3",
            "nvml*",
            "**",
        ] {
            assert!(matches(pattern, name), "{pattern}");
        }
        for pattern in ["", "nvmlInit*", "*_v2", "nvml", "*Running*Running*"] {
            assert!(!matches(pattern, name), "{pattern}");
        }
    }

    #[test]
    fn a_whole_number_is_the_nearest_one() {
        for (number, expected) in [
            (0.0, 0),
            (0.499_999_999_999_999_94, 0),
            (0.5, 1),
            (1.5, 2),
            (2.4, 2),
            (-0.6, 0),
            (-7.0, 0),
            (9_007_199_254_740_993.0, 9_007_199_254_740_992),
            (f64::INFINITY, u64::MAX),
            (f64::NAN, 0),
        ] {
            assert_eq!(whole(number), expected, "{number}");
        }
    }

    #[test]
    fn a_fault_lets_some_calls_go_well_first() {
        let fault = Fault {
            function: "nvmlDeviceGetPowerUsage".to_owned(),
            code: Some(Code::GPU_IS_LOST),
            after_calls: 2,
            ..Fault::default()
        };
        let scenario = Scenario {
            faults: vec![fault],
            ..Scenario::default()
        };
        let world = World::new(scenario, 0.0);
        let trouble = |function| world.trouble(function, None, 0.0);
        let codes: Vec<_> = (0..4)
            .map(|_| {
                trouble("nvmlDeviceGetPowerUsage")
                    .1
                    .and_then(|fault| fault.code)
            })
            .collect();
        let lost = Some(Code::GPU_IS_LOST);
        assert_eq!(codes, [None, None, lost, lost]);
        assert_eq!(trouble("nvmlDeviceGetName"), (0, None));
    }
}
