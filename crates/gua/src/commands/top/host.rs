//! What the host says about itself and the processes on its GPUs, looked up with each sample of `top`.

use std::collections::HashMap;
use std::time::Duration;

use gua_model::{Bytes, ProcessKey};
use gua_probe::clock;
use gua_probe::host::processor::{ProcessorTime, processor_time};
use gua_probe::host::{HostRoot, memory};
use gua_probe::process::ProcRoot;
use gua_probe::process::usage::usage;
use gua_tui::Surroundings;
use gua_tui::surroundings::{HostLoad, ProcessUse};

/// Reads the host. CPU use is the difference to the last look, so the first look has none.
#[derive(Debug)]
pub(super) struct HostWatch {
    root: HostRoot,
    /// Time of the last look on the monotonic clock, and the CPU time of each process then.
    before: Option<(Duration, HashMap<ProcessKey, Duration>)>,
    cpu_before: Option<ProcessorTime>,
}

impl HostWatch {
    pub(super) fn new() -> Self {
        Self {
            root: HostRoot::real(),
            before: None,
            cpu_before: None,
        }
    }

    /// Looks up the host and these processes.
    pub(super) fn look(&mut self, processes: &[ProcessKey]) -> Surroundings {
        let now = clock::monotonic();
        let root = ProcRoot::default();
        let mut spent = HashMap::new();
        let mut found = HashMap::new();
        for key in processes {
            let Ok(used) = usage(&root, key) else {
                continue;
            };
            let cpu_percent = self.before.as_ref().and_then(|(at, before)| {
                let passed = now.checked_sub(*at)?;
                percent(used.cpu.checked_sub(*before.get(key)?)?, passed)
            });
            spent.insert(*key, used.cpu);
            let command = used.command.map(|line| line.to_string());
            let process = ProcessUse {
                parent: used.parent,
                cpu_percent,
                memory: used.memory,
                command: command.unwrap_or_default(),
            };
            found.insert(*key, process);
        }
        self.before = Some((now, spent));
        Surroundings {
            host: self.host(),
            processes: found,
        }
    }

    fn host(&mut self) -> HostLoad {
        let cpu = processor_time(&self.root).ok();
        let shares = cpu.zip(self.cpu_before);
        let shares = shares.and_then(|(now, before)| now.since(&before));
        self.cpu_before = cpu;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a percentage between 0 and 100"
        )]
        let busy = |idle: f64| (100.0 - idle).clamp(0.0, 100.0).round() as u32;
        let memory = memory::memory(&self.root).ok();
        HostLoad {
            cpu_percent: shares.map(|shares| busy(shares.idle_pct)),
            load: memory::load(&self.root).ok(),
            memory: memory.map(|memory| {
                let used = memory.total.0.saturating_sub(memory.available.0);
                (Bytes(used), memory.total)
            }),
        }
    }
}

/// Returns the CPU time as a share of the passed time; 100 is one CPU.
fn percent(spent: Duration, passed: Duration) -> Option<u32> {
    let share = (spent.as_micros() * 100).checked_div(passed.as_micros())?;
    u32::try_from(share).ok()
}

#[cfg(test)]
mod tests {
    use gua_model::Pid;
    use gua_probe::process::{Passwd, ProcessTable};

    use super::*;

    #[test]
    fn cpu_use_is_the_time_between_two_looks() {
        let second = Duration::from_secs(1);
        assert_eq!(percent(second / 2, second), Some(50));
        assert_eq!(percent(second * 7, second), Some(700));
        assert_eq!(percent(second, Duration::ZERO), None);
        let mut table = ProcessTable::new(ProcRoot::default(), Passwd::System);
        let own = table.resolve(Pid(std::process::id())).unwrap().key;
        let mut watch = HostWatch::new();
        let first = watch.look(&[own]);
        assert_eq!(first.processes[&own].cpu_percent, None);
        assert!(first.host.memory.is_some_and(|(used, total)| used < total));
        assert!(first.processes[&own].memory > Bytes(100_000));
        let later = watch.look(&[own]);
        assert!(later.processes[&own].cpu_percent.is_some());
    }
}
