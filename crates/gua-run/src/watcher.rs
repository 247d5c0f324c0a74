//! The process that watches a run. The event of a run's start names it, so that others can find out that the end of the run
//! will never be recorded.

use gua_model::run::WatcherState;
use gua_model::{Pid, ProcessKey, StartTicks};
use gua_probe::process::lineage::Life;
use gua_probe::process::{ProcRoot, ProcessTable};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The part of the event that names the process.
#[derive(Deserialize)]
struct Recorded {
    process: Process,
}

#[derive(Deserialize)]
struct Process {
    pid: u32,
    start: u64,
    boot: String,
    namespace: u64,
}

/// This process, for the event.
pub(crate) fn recorded() -> Option<Map<String, Value>> {
    let proc = ProcRoot::default();
    let own = proc.process(
        Pid(std::process::id()),
        ProcessTable::default().boot().ok()?,
    )?;
    let process = json!({
        "pid": own.pid.0,
        "start": own.start.0,
        "boot": own.boot.to_string(),
        "namespace": proc.pid_namespace()?,
    });
    Some(Map::from_iter([("process".to_owned(), process)]))
}

/// State of the process that an event names.
pub fn state(event: &str) -> WatcherState {
    judged(event).unwrap_or(WatcherState::Unknown)
}

fn judged(event: &str) -> Option<WatcherState> {
    let Recorded { process } = serde_json::from_str(event).ok()?;
    let key = ProcessKey {
        boot: process.boot.parse().ok()?,
        pid: Pid(process.pid),
        start: StartTicks(process.start),
    };
    if key.boot != ProcessTable::default().boot().ok()? {
        return Some(WatcherState::Lost);
    }
    let proc = ProcRoot::default();
    // In another namespace the same number is another process.
    if process.namespace != proc.pid_namespace()? {
        return None;
    }
    Some(match proc.life(&key) {
        Life::Running | Life::Stopped => WatcherState::Running,
        Life::Ended => WatcherState::Lost,
        Life::Unknown => WatcherState::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_whose_watcher_has_exited_is_lost_and_one_that_cannot_be_seen_is_not() {
        let check = |name: &str, value: Value, expected: WatcherState| {
            let mut event = Value::Object(recorded().unwrap());
            if !name.is_empty() {
                event["process"][name] = value;
            }
            let event = event.to_string();
            assert_eq!(state(&event), expected, "{event}");
        };
        check("", Value::Null, WatcherState::Running);
        check("start", 1.into(), WatcherState::Lost);
        check("pid", 0x7fff_fff0.into(), WatcherState::Lost);
        let other = "01234567-89ab-cdef-0123-456789abcdef";
        check("boot", other.into(), WatcherState::Lost);
        check("namespace", 1.into(), WatcherState::Unknown);
        check("pid", "x".into(), WatcherState::Unknown);
        assert_eq!(state("null"), WatcherState::Unknown);
    }
}
