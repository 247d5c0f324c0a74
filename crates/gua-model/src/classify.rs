//! Classifies the state of a GPU from its readings. This is the only implementation of the classification rules;
//! reports, pages and alerts all use it.

use serde::{Deserialize, Serialize};

use crate::id::Pid;
use crate::reading::{Missing, Reading};
use crate::sample::{Gpu, Process};
use crate::span::Share;
use crate::state::{CountGraphics, Evidence, State, Thresholds, Verdict};
use crate::unit::{Bytes, Milliwatts};
use crate::window::UtilWindow;

/// Sensor noise that still counts as the idle floor: up to a tenth above it.
const FLOOR_MARGIN: u64 = 10;

/// Returns the state of a GPU from its instant readings. `idle_floor` is the power that the GPU draws when truly idle,
/// if enough truly-idle time has been observed to know it.
pub fn classify(gpu: &Gpu, thresholds: &Thresholds, idle_floor: Option<Milliwatts>) -> Verdict {
    let (holding, mut evidence) = holding(gpu, thresholds, idle_floor);
    let decision = match gpu.util {
        Ok(util) if util >= thresholds.active_util => Ok(while_busy(gpu, &evidence)),
        Ok(_) => while_low(holding),
        Err(why) => without_util(holding, why, evidence.holders),
    };
    verdict(decision, &mut evidence)
}

crate::words! {
    /// Source of a division. The report shows the share of its time that has each source.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum Basis {
        /// The driver's buffer covered the tick.
        Buffer = "buffer",
        /// One instant reading is used for the whole span.
        Instant = "instant",
        /// A row imported from a replaced tool.
        Imported = "imported",
    }
}

/// Divides the time after a tick between active and the low state, in proportion to the samples that the driver
/// buffered in that time. `window` holds those samples; it is read at the next tick. The instant reading is used for
/// the whole time if there is no window, if the window has no usable utilisation, or if its histogram cannot apply the
/// threshold. Returns one share, or two if the driver's buffer contains samples of both, and the source of the division.
pub fn divide(
    gpu: &Gpu,
    window: Option<&UtilWindow>,
    thresholds: &Thresholds,
    idle_floor: Option<Milliwatts>,
) -> (Vec<Share>, Basis) {
    let counts = window.and_then(|window| {
        let busy = window.histogram.at_or_over(thresholds.active_util)?;
        Some((busy, window.samples()))
    });
    let was_lost = matches!(gpu.util, Err(Missing::Gone));
    let Some((busy, all @ 1..)) = counts.filter(|_| !was_lost) else {
        let verdict = classify(gpu, thresholds, idle_floor);
        return (vec![Share { verdict, weight: 1 }], Basis::Instant);
    };
    let (holding, evidence) = holding(gpu, thresholds, idle_floor);
    let share = |decision, weight| Share {
        verdict: verdict(decision, &mut evidence.clone()),
        weight,
    };
    let high = share(Ok(while_busy(gpu, &evidence)), busy);
    let mut shares = vec![high, share(while_low(holding), all - busy)];
    shares.retain(|share| share.weight > 0);
    (shares, Basis::Buffer)
}

/// Returns the processes that hold a GPU, regardless of their memory: compute processes, and graphics processes if
/// graphics count.
pub fn holders<'a>(gpu: &'a Gpu, thresholds: &Thresholds) -> impl Iterator<Item = &'a Process> {
    let count_graphics = thresholds.count_graphics;
    gpu.processes
        .iter()
        .filter(move |process| match count_graphics {
            CountGraphics::Yes => true,
            CountGraphics::No => process.kind.computes(),
        })
}

fn verdict(decision: Result<State, Missing>, evidence: &mut Evidence) -> Verdict {
    let state = decision.unwrap_or_else(|why| {
        evidence.unobserved = Some(why);
        State::Unobserved
    });
    Verdict {
        state,
        evidence: *evidence,
    }
}

/// Whether and by which processes the GPU is held.
#[derive(Clone, Copy)]
enum Holding {
    Live,
    Orphaned,
    Nobody,
    /// The process list could not be read, and the other readings do not decide the question.
    NotSeen(Missing),
}

fn holding(
    gpu: &Gpu,
    thresholds: &Thresholds,
    idle_floor: Option<Milliwatts>,
) -> (Holding, Evidence) {
    let holders: Vec<&Process> = holders(gpu, thresholds).collect();
    let is_gone = |process: &&Process| matches!(process.identity, Err(Missing::Gone));
    let lists_needed = match thresholds.count_graphics {
        CountGraphics::Yes => gpu.compute_list.and(gpu.graphics_list),
        CountGraphics::No => gpu.compute_list,
    };
    let live = holders.iter().copied().filter(|process| !is_gone(process));
    let holding = if hold(live, thresholds) {
        Holding::Live
    } else if hold(holders.iter().copied(), thresholds) {
        Holding::Orphaned
    } else if let Err(why) = lists_needed {
        Holding::NotSeen(why)
    } else {
        Holding::Nobody
    };
    let evidence = Evidence {
        thresholds: *thresholds,
        util: gpu.util,
        power: gpu.power,
        idle_floor,
        holders: count(holders.len()),
        gone: count(holders.iter().copied().filter(is_gone).count()),
        hidden_memory: count(
            holders
                .iter()
                .filter(|process| process.memory.is_err())
                .count(),
        ),
        held: holders
            .iter()
            .filter_map(|process| process.memory.ok())
            .sum::<Bytes>(),
        processes: count(gpu.processes.len()),
        unobserved: None,
    };
    (holding, evidence)
}

/// Reports whether these processes hold a GPU while it is idle: together they use more than the threshold, each counted
/// in whole megabytes as the replaced tool does. A holder whose memory is hidden also passes, since a missing reading is
/// never zero, and so does one that the driver does not name (pid 0).
pub fn hold<'a>(processes: impl Iterator<Item = &'a Process>, thresholds: &Thresholds) -> bool {
    let mut mb = 0u64;
    for process in processes {
        // A view for other users also hides the pid, but keeps an identity.
        let is_nameless = process.pid == Pid(0) && process.identity.is_err();
        match process.memory {
            Ok(bytes) if !is_nameless => mb = mb.saturating_add(bytes.whole_mb()),
            _ => return true,
        }
    }
    mb > thresholds.held_mb
}

fn while_busy(gpu: &Gpu, evidence: &Evidence) -> State {
    let lists_were_read = gpu.compute_list.is_ok() && gpu.graphics_list.is_ok();
    if lists_were_read && gpu.processes.is_empty() {
        State::Ghost
    } else if at_floor(gpu.power, evidence.idle_floor) {
        State::Stalled
    } else {
        State::Active
    }
}

fn while_low(holding: Holding) -> Result<State, Missing> {
    match holding {
        Holding::Live => Ok(State::IdleHeld),
        Holding::Orphaned => Ok(State::OrphanHeld),
        Holding::Nobody => Ok(State::TrulyIdle),
        Holding::NotSeen(why) => Err(why),
    }
}

/// Classifies a GPU without utilisation. The memory of a holder then says nothing about use, so any holder holds the
/// GPU. A GPU that never has utilisation (MIG, vGPU) is free if it has no holders. If the reading failed, a process
/// without memory may be computing, so the state is unobserved.
fn without_util(holding: Holding, why: Missing, holders: u32) -> Result<State, Missing> {
    match (holding, why) {
        (_, Missing::Gone) => Err(Missing::Gone),
        (Holding::Live | Holding::Orphaned, _) => Ok(State::HeldUnknown),
        (Holding::Nobody | Holding::NotSeen(_), _) if holders > 0 => Ok(State::HeldUnknown),
        (Holding::Nobody, Missing::Unsupported) => Ok(State::TrulyIdle),
        (Holding::Nobody, _) => Err(why),
        (Holding::NotSeen(lists), _) => Err(lists),
    }
}

fn at_floor(power: Reading<Milliwatts>, floor: Option<Milliwatts>) -> bool {
    match (power, floor) {
        (Ok(power), Some(floor)) => power.0 <= floor.0.saturating_add(floor.0 / FLOOR_MARGIN),
        _ => false,
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
