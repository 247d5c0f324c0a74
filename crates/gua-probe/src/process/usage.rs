//! CPU time, memory, parent and command line of one process, for display on a terminal of the same host. Like command
//! lines, these are never part of a sample and never stored.

use std::time::Duration;

use gua_model::Bytes;
use gua_model::id::{Pid, ProcessKey};
use gua_model::reading::{Missing, Reading};

use super::command::{CommandLine, read};
use super::{ProcRoot, parse};
use crate::host::time::ticks_per_second;

/// What a process uses of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    pub parent: Pid,
    /// CPU time of the process since it started, without its children.
    pub cpu: Duration,
    /// Resident memory.
    pub memory: Bytes,
    /// `Err(Denied)` if only its user may read it.
    pub command: Reading<CommandLine>,
}

/// Reads the usage of exactly this process, and never of a later one with the same pid.
pub fn usage(root: &ProcRoot, process: &ProcessKey) -> Reading<Usage> {
    let directory = root.0.join(process.pid.to_string());
    let command = read(&directory.join("cmdline"));
    // Checked afterwards: if the pid was reused before the line was read, the start time differs now.
    let text = read(&directory.join("stat"))?;
    let (_, stat) = parse::stat(&text).ok_or(Missing::Failed)?;
    if stat.start != process.start.0 {
        return Err(Missing::Gone);
    }
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    let hertz = ticks_per_second().max(1);
    let nanoseconds = u128::from(stat.own_ticks) * 1_000_000_000 / u128::from(hertz);
    Ok(Usage {
        parent: Pid(stat.parent),
        cpu: Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX)),
        memory: Bytes(stat.resident_pages.saturating_mul(page)),
        command: command.map(|line| CommandLine::parse(&line)),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use gua_model::id::{BootId, StartTicks};

    use super::*;

    #[test]
    fn a_process_is_read_whole_and_a_reused_pid_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let root = ProcRoot(directory.path().to_owned());
        let own = directory.path().join("30");
        fs::create_dir_all(&own).unwrap();
        let stat = "30 (python) S 20 1 1 0 -1 4194560 0 0 0 0 150 50 9000 9000 20 0 1 0 77 0 256\n";
        fs::write(own.join("stat"), stat).unwrap();
        fs::write(own.join("cmdline"), "python\0train.py\0").unwrap();
        let key = |start| ProcessKey {
            boot: BootId(1),
            pid: Pid(30),
            start: StartTicks(start),
        };
        let found = usage(&root, &key(77)).unwrap();
        assert_eq!(found.parent, Pid(20));
        let hertz = u32::try_from(ticks_per_second()).unwrap();
        assert_eq!(found.cpu, Duration::from_secs(200) / hertz);
        assert!(found.memory >= Bytes(256 * 4096));
        assert_eq!(found.command.unwrap().to_string(), "python train.py");
        assert_eq!(usage(&root, &key(78)), Err(Missing::Gone));
    }
}
