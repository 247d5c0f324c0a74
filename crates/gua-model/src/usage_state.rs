//! The usage state that gpu-usage-audit stores for a GPU and sends to its board. Its rule differs from the classes of a
//! report. It is kept for readers of that column and affects nothing else.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::id::GpuUuid;
use crate::sample::Gpu;

crate::words! {
    /// Whether a GPU is used, by the old rule.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum UsageState {
        Active = "active",
        IdleHeld = "idle_held",
        Idle = "idle",
    }
}

/// Maximum utilisation of a quiet tick.
const QUIET_UTIL: u8 = 5;
/// Number of consecutive quiet ticks after which a GPU that was active counts as idle-held.
const LONG: u32 = 10;

/// State of one collector run about its GPUs. A new run starts empty.
#[derive(Clone, Debug, Default)]
pub struct UsageTracker {
    gpus: HashMap<GpuUuid, Memory>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    quiet_ticks: u32,
    was_active: bool,
}

impl UsageTracker {
    /// Adds one tick of a GPU and returns its state; `None` if utilisation or the process list is missing.
    pub fn see(&mut self, gpu: &Gpu) -> Option<UsageState> {
        let util = gpu.util.ok()?;
        let memory = self.gpus.entry(gpu.uuid.clone()).or_default();
        let quiet = util.get() <= QUIET_UTIL;
        if quiet {
            memory.quiet_ticks = memory.quiet_ticks.saturating_add(1);
        } else {
            *memory = Memory {
                quiet_ticks: 0,
                was_active: true,
            };
        }
        gpu.compute_list.ok()?;
        let resident = gpu.processes.iter().any(|process| process.kind.computes());
        Some(if !resident {
            UsageState::Idle
        } else if quiet && (memory.quiet_ticks >= LONG || !memory.was_active) {
            UsageState::IdleHeld
        } else {
            UsageState::Active
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Pid;
    use crate::reading::Missing;
    use crate::sample::{Process, ProcessKind};
    use crate::unit::Percent;

    /// Each tick is a utilisation, with `+` for a compute process, `g` for a graphics process, and `?` for an
    /// unreadable process list.
    fn check(ticks: &str, expected: &str) {
        let mut tracker = UsageTracker::default();
        let states = ticks.split(' ').map(|tick| {
            let digits = tick.trim_end_matches(['+', 'g', '?']);
            let uuid = "GPU-0".parse().unwrap();
            let mut gpu = Gpu::without_readings(uuid, 0, Missing::Unsupported);
            gpu.util = digits
                .parse()
                .ok()
                .and_then(Percent::new)
                .ok_or(Missing::Failed);
            gpu.compute_list = if tick.ends_with('?') {
                Err(Missing::Denied)
            } else {
                Ok(())
            };
            let kind = match tick.chars().last() {
                Some('+') => Some(ProcessKind::Compute),
                Some('g') => Some(ProcessKind::Graphics),
                _ => None,
            };
            gpu.processes.extend(kind.map(|kind| Process {
                pid: Pid(1),
                kind,
                memory: Err(Missing::Unsupported),
                sm_util: Err(Missing::Unsupported),
                identity: Err(Missing::Denied),
            }));
            tracker.see(&gpu).map_or("-", UsageState::as_str)
        });
        assert_eq!(states.collect::<Vec<_>>().join(" "), expected, "{ticks}");
    }

    #[test]
    fn a_gpu_without_a_computing_process_is_idle() {
        check("0 90 3g", "idle idle idle");
    }

    #[test]
    fn a_holder_that_never_worked_is_idle_held_at_once() {
        check("2+ 5+ 6+ 2+", "idle_held idle_held active active");
    }

    #[test]
    fn a_holder_that_worked_is_idle_held_after_ten_quiet_ticks() {
        let quiet = ["2+"; 11].join(" ");
        let active = ["active"; 10].join(" ");
        check(
            &format!("80+ {quiet}"),
            &format!("{active} idle_held idle_held"),
        );
    }

    #[test]
    fn quiet_ticks_count_while_nobody_is_there() {
        let quiet = ["0"; 9].join(" ");
        let idle = ["idle"; 9].join(" ");
        check(
            &format!("80+ {quiet} 0+"),
            &format!("active {idle} idle_held"),
        );
    }

    #[test]
    fn what_cannot_be_read_has_no_state() {
        check("80? x+ 2+", "- - active");
    }
}
