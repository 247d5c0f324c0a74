//! The process that watches a run, told at the run's start: by it others find out that a run will never tell of its end.

use gua_model::{BootId, Pid, ProcessKey, StartTicks};
use gua_probe::process::lineage::{Life, Lineage};
use gua_probe::process::{Passwd, ProcRoot, ProcessTable};
use serde_json::{Value, json};

/// Where it stands in what a run tells at its start.
const KEY: &str = "process";

/// What can be known of a run of which nobody has told the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Running,
    /// Who watched it is no more.
    Lost,
    /// It is another's to see, or it did not say.
    Unknown,
}

impl Standing {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Standing::Running => "running",
            Standing::Lost => "lost",
            Standing::Unknown => "unknown",
        }
    }
}

/// This process, for those who ask later.
pub(super) fn told() -> Option<(String, Value)> {
    let lineage = Lineage::new(ProcRoot::default());
    let own = lineage.process(Pid(std::process::id()), boot()?)?;
    let told = json!({
        "pid": own.pid.0,
        "start": own.start.0,
        "boot": own.boot.to_string(),
        "namespace": lineage.namespace()?,
    });
    Some((KEY.to_owned(), told))
}

/// How the process stands that told this.
pub(crate) fn standing(told: &Value) -> Standing {
    judged(told).unwrap_or(Standing::Unknown)
}

fn judged(told: &Value) -> Option<Standing> {
    let process = &told[KEY];
    let key = ProcessKey {
        boot: process["boot"].as_str()?.parse::<BootId>().ok()?,
        pid: Pid(u32::try_from(process["pid"].as_u64()?).ok()?),
        start: StartTicks(process["start"].as_u64()?),
    };
    if key.boot != boot()? {
        return Some(Standing::Lost);
    }
    let lineage = Lineage::new(ProcRoot::default());
    // In another namespace its number is another's.
    if process["namespace"].as_u64()? != lineage.namespace()? {
        return None;
    }
    Some(match lineage.life(&key) {
        Life::Running | Life::Stopped => Standing::Running,
        Life::Ended => Standing::Lost,
        Life::Unknown => Standing::Unknown,
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
    fn a_run_whose_watcher_is_no_more_is_lost_and_one_that_cannot_be_seen_is_not() {
        let check = |name: &str, value: Value, expected: Standing| {
            let (key, mut process) = told().unwrap();
            if !name.is_empty() {
                process[name] = value;
            }
            let told = Value::Object([(key, process)].into_iter().collect());
            assert_eq!(standing(&told), expected, "{told}");
        };
        check("", Value::Null, Standing::Running);
        check("start", 1.into(), Standing::Lost);
        check("pid", 0x7fff_fff0.into(), Standing::Lost);
        let other = "01234567-89ab-cdef-0123-456789abcdef";
        check("boot", other.into(), Standing::Lost);
        check("namespace", 1.into(), Standing::Unknown);
        check("pid", "x".into(), Standing::Unknown);
        assert_eq!(standing(&Value::Null), Standing::Unknown);
    }
}
