//! The process that watches a run. The event of a run's start names it, so that others can find out that the end of the run
//! will never be recorded.

use gua_model::run::WatcherState;
use gua_model::{BootId, Pid, ProcessKey, StartTicks};
use gua_probe::process::lineage::{Life, Lineage};
use gua_probe::process::{Passwd, ProcRoot, ProcessTable};
use serde_json::{Value, json};

/// Key of the process in the event.
const KEY: &str = "process";

/// This process, for the event.
pub(crate) fn recorded() -> Option<(String, Value)> {
    let lineage = Lineage::new(ProcRoot::default());
    let own = lineage.process(Pid(std::process::id()), boot()?)?;
    let process = json!({
        "pid": own.pid.0,
        "start": own.start.0,
        "boot": own.boot.to_string(),
        "namespace": lineage.namespace()?,
    });
    Some((KEY.to_owned(), process))
}

/// State of the process that an event names.
#[must_use]
pub fn state(event: &Value) -> WatcherState {
    judged(event).unwrap_or(WatcherState::Unknown)
}

fn judged(event: &Value) -> Option<WatcherState> {
    let process = &event[KEY];
    let key = ProcessKey {
        boot: process["boot"].as_str()?.parse::<BootId>().ok()?,
        pid: Pid(u32::try_from(process["pid"].as_u64()?).ok()?),
        start: StartTicks(process["start"].as_u64()?),
    };
    if key.boot != boot()? {
        return Some(WatcherState::Lost);
    }
    let lineage = Lineage::new(ProcRoot::default());
    // In another namespace the same number is another process.
    if process["namespace"].as_u64()? != lineage.namespace()? {
        return None;
    }
    Some(match lineage.life(&key) {
        Life::Running | Life::Stopped => WatcherState::Running,
        Life::Ended => WatcherState::Lost,
        Life::Unknown => WatcherState::Unknown,
    })
}

fn boot() -> Option<BootId> {
    ProcessTable::new(ProcRoot::default(), Passwd::System)
        .boot()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_whose_watcher_has_exited_is_lost_and_one_that_cannot_be_seen_is_not() {
        let check = |name: &str, value: Value, expected: WatcherState| {
            let (key, mut process) = recorded().unwrap();
            if !name.is_empty() {
                process[name] = value;
            }
            let event = Value::Object([(key, process)].into_iter().collect());
            assert_eq!(state(&event), expected, "{event}");
        };
        check("", Value::Null, WatcherState::Running);
        check("start", 1.into(), WatcherState::Lost);
        check("pid", 0x7fff_fff0.into(), WatcherState::Lost);
        let other = "01234567-89ab-cdef-0123-456789abcdef";
        check("boot", other.into(), WatcherState::Lost);
        check("namespace", 1.into(), WatcherState::Unknown);
        check("pid", "x".into(), WatcherState::Unknown);
        assert_eq!(state(&Value::Null), WatcherState::Unknown);
    }
}
