//! CPU time and memory of a process, as the kernel counts them.

use std::fs;
use std::time::Duration;

use gua_model::Bytes;

use crate::host;

/// Returns the CPU time of all threads of a process, to the nanosecond if the kernel reports it.
pub fn processor_time(pid: u32) -> Option<Duration> {
    // The first number of each line is the time on a CPU (Documentation/scheduler/sched-stats.rst).
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let spent = threads.flatten().filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Some(Duration::from_nanos(spent.sum()))
}

/// Returns the proportional set size of a process: its own memory and its part of shared memory.
pub fn memory(pid: u32) -> Option<Bytes> {
    kilobytes(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// Returns the resident memory of a process.
pub fn resident_memory(pid: u32) -> Option<Bytes> {
    kilobytes(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// Returns the PID of a child of this process that has an argument.
pub fn child_with_argument(argument: &str) -> Option<u32> {
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let lists = tasks.flatten().filter_map(|task| {
        // proc_pid_task(5): the children that this thread has started.
        fs::read_to_string(task.path().join("children")).ok()
    });
    let has_it = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .any(|word| word == argument.as_bytes())
    };
    let pids: Vec<u32> = lists
        .flat_map(|list| list.split_whitespace().map(str::parse).collect::<Vec<_>>())
        .flatten()
        .collect();
    pids.into_iter().find(has_it)
}

/// Resets the peak memory of this process for [`peak_memory`].
pub fn forget_peak_memory() -> std::io::Result<()> {
    // proc_pid_clear_refs(5): 5 resets the peak resident set size.
    fs::write("/proc/self/clear_refs", "5")
}

/// Returns the peak memory of this process.
pub fn peak_memory() -> Option<Bytes> {
    kilobytes("/proc/self/status", "VmHWM:")
}

fn kilobytes(path: &str, key: &str) -> Option<Bytes> {
    host::kilobytes(&fs::read_to_string(path).ok()?, key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_has_worked() {
        let own = std::process::id();
        assert!(memory(own).is_some_and(|bytes| bytes.0 > 100_000));
        assert!(processor_time(own).is_some());
        assert!(peak_memory() >= memory(own).map(|bytes| Bytes(bytes.0 / 2)));
        assert_eq!(processor_time(u32::MAX), None);
    }
}
