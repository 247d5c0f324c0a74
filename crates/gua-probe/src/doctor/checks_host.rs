//! Checks of the host: kernel, clock, visibility of processes, other collectors, and the configuration of gua.

use crate::host::collector::{Collector, Running};
use crate::host::mount::HideLevel;
use crate::host::namespace::{PidLookup, PidNamespace, pid_lookup};
use crate::host::privilege::Sees;
use crate::host::time::Synchronised;
use serde_json::json;

use gua_model::DriverPids;
use gua_model::text::sanitize;

use super::check::{Check, Group, Kind};
use super::facts::Facts;

const OS: Kind = Kind::new(Group::Host, "os", "OS/kernel");
const CLOCK: Kind = Kind::new(Group::Host, "clock", "clock");
const CONTAINER: Kind = Kind::new(Group::Host, "container", "container");
const HIDEPID: Kind = Kind::new(Group::Host, "hidepid", "/proc hidepid");
const COLLECTORS: Kind = Kind::new(Group::Setup, "collectors", "other collectors");
const CONFIG: Kind = Kind::new(Group::Setup, "config", "configuration");

/// 2026-01-01 and 2100-01-01 UTC: a clock that was set correctly lies in between.
const EARLIEST: i64 = 1_767_225_600;
const LATEST: i64 = 4_102_444_800;

pub(super) fn os(facts: &Facts) -> Check {
    let kernel = &facts.kernel;
    let details = json!({
        "system": kernel.system,
        "release": kernel.release,
        "platform": format!("{}-{}-{}", kernel.system, kernel.release, kernel.machine),
    });
    let summary = format!("{} {}, {}", kernel.system, kernel.release, kernel.machine);
    if kernel.system == "Linux" {
        return OS.ok(summary, details);
    }
    OS.error(summary, details)
        .blocked_until("Run gua on Linux.")
}

pub(super) fn clock(facts: &Facts) -> Check {
    let now = facts.now.timestamp();
    let booted = facts.time_keeping.booted;
    let synchronised = facts.time_keeping.synchronised;
    let zone = facts
        .now
        .time_zone()
        .iana_name()
        .map_or_else(|| facts.now.strftime("%Z").to_string(), str::to_owned);
    let details = json!({
        "now": facts.now.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        "time_zone": zone,
        "booted_at": booted.map(|booted| booted.to_string()),
        "synchronized": match synchronised {
            Synchronised::Yes => Some(true),
            Synchronised::NotYet => Some(false),
            Synchronised::Unknown => None,
        },
    });
    let shown = facts.now.strftime("%Y-%m-%d %H:%M:%S %:z");
    let wrong = match booted {
        _ if !(EARLIEST..LATEST).contains(&now.as_second()) => Some("which cannot be"),
        Some(booted) if now < booted => Some("which is before this machine was started"),
        _ => None,
    };
    if let Some(wrong) = wrong {
        return CLOCK
            .error(format!("it says {shown}, {wrong}"), details)
            .advise("Set the clock (`timedatectl set-ntp true`).");
    }
    let place = format!("{shown} ({zone})");
    match synchronised {
        Synchronised::Yes => CLOCK.ok(format!("{place}, synchronised"), details),
        Synchronised::Unknown => CLOCK.ok(format!("{place}, synchronisation unknown"), details),
        Synchronised::NotYet => CLOCK
            .warning(format!("{place}, not synchronised yet"), details)
            .advise("Check the time servers (`timedatectl timesync-status`)."),
    }
}

/// Checks whether the driver's process IDs can be looked up here, and by which rule; advises how to change it.
pub(super) fn container(facts: &Facts) -> Check {
    let around = &facts.surroundings;
    let setting = &facts.driver_pids;
    let lookup = pid_lookup(setting.value, around.pid_namespace);
    let is_looked_up = match lookup {
        PidLookup::Same => true,
        PidLookup::Foreign => false,
        // If the kernel does not report the namespace, the markers of container engines are the only hint.
        PidLookup::Unknown => around.engines.is_empty(),
    };
    let details = json!({
        "pid_namespace": around.pid_namespace.as_str(),
        "engines": around.engines,
        "driver_pids": setting.value.as_str(),
        "pids_looked_up": is_looked_up,
    });
    let place = match (around.engines.as_slice(), around.pid_namespace) {
        ([], PidNamespace::Host) => "none".to_owned(),
        ([], PidNamespace::Own) => "a pid namespace of its own".to_owned(),
        ([], PidNamespace::Unknown) => "none known".to_owned(),
        (engines, _) => format!("in {}", engines.join(", ")),
    };
    // In the host's own namespace every setting has the same effect.
    let rule = match &setting.source {
        Some(source) if around.pid_namespace != PidNamespace::Host => {
            format!(" (driver.pids = {:?}, {source})", setting.value.as_str())
        }
        _ => String::new(),
    };
    if !is_looked_up {
        let summary = format!("{place}: the host's processes cannot be seen{rule}");
        return CONTAINER.warning(summary, details).advise(
            "Run gua on the host, or in a container started with `--pid=host`, to see the owners. If the driver reports the \
             pids of this namespace, set `driver.pids = \"here\"` (GUA_DRIVER_PIDS=here).",
        );
    }
    let summary = match (setting.value, around.pid_namespace) {
        (DriverPids::Here, PidNamespace::Own | PidNamespace::Unknown) => {
            format!("{place}; the driver's pids are looked up here{rule}")
        }
        _ if around.engines.is_empty() => place,
        _ => format!("{place}, and the host's processes can be seen"),
    };
    CONTAINER.ok(summary, details)
}

pub(super) fn hidepid(facts: &Facts) -> Check {
    let privilege = &facts.privilege;
    let sees_everyone = privilege.sees == Sees::Everyone;
    let Some(hiding) = facts.hiding else {
        let details = json!({ "hidepid": null, "gid": null, "cap_sys_ptrace": sees_everyone });
        return HIDEPID.skipped("the mount options of /proc are not known", details);
    };
    let word = hiding.level.as_str();
    let details = json!({ "hidepid": word, "gid": hiding.gid, "cap_sys_ptrace": sees_everyone });
    // The level `ptraceable` makes no exception for the group (proc(5)).
    let exempt = hiding.gid.filter(|_| hiding.level != HideLevel::Ptraceable);
    let summary = match exempt {
        _ if hiding.level == HideLevel::Off => "off, every process can be seen".to_owned(),
        _ if sees_everyone => format!("{word}, and this user may see every process"),
        Some(gid) if privilege.groups.contains(&gid) => {
            format!("{word}, and group {gid} may see every process")
        }
        _ => {
            let group = exempt.map(|gid| format!(", or as a member of group {gid}"));
            let group = group.unwrap_or_default();
            let summary = format!("{word}, so other users' processes are hidden");
            return HIDEPID
                .warning(summary, details)
                .advise(format!("Run gua as root or with CAP_SYS_PTRACE{group}."));
        }
    };
    HIDEPID.ok(summary, details)
}

pub(super) fn collectors(facts: &Facts) -> Check {
    let Some(running) = &facts.collectors else {
        let summary = "looking through the processes took too long";
        return COLLECTORS.skipped(summary, json!({ "running": null }));
    };
    let row = |one: &Running| json!({ "name": one.collector.as_str(), "pid": one.pid.0 });
    let details = json!({ "running": running.iter().map(row).collect::<Vec<_>>() });
    let named = |one: &Running| format!("{} (pid {})", one.collector.as_str(), one.pid);
    let summary = match running.is_empty() {
        true => "none".to_owned(),
        false => running.iter().map(named).collect::<Vec<_>>().join(", "),
    };
    let pids = |which| -> Vec<String> {
        let found = running.iter().filter(|one| one.collector == which);
        found.map(|one| one.pid.to_string()).collect()
    };
    let mut advice = Vec::new();
    let python = pids(Collector::GpuUsageAudit);
    if !python.is_empty() {
        advice.push(format!(
            "Stop the Python collector (pid {}) before gua collects, so that its history can be taken over.",
            python.join(", ")
        ));
    }
    if pids(Collector::Gua).len() > 1 {
        let one = "Keep one gua collector, unless users collect for themselves.";
        advice.push(one.to_owned());
    }
    COLLECTORS.warning_if_advised(summary, details, advice)
}

pub(super) fn config(facts: &Facts) -> Check {
    let problems: Vec<String> = facts
        .configuration
        .iter()
        .map(|one| sanitize(one))
        .collect();
    let details = json!({ "problems": problems });
    let Some(first) = problems.first() else {
        return CONFIG.ok("no problems", details);
    };
    let summary = match problems.len() - 1 {
        0 => first.clone(),
        more => format!("{first}, and {more} more: gua config check"),
    };
    let files = facts.unreadable_files.iter();
    let unreadable: Vec<String> = files
        .map(|path| sanitize(&path.to_string_lossy()))
        .collect();
    let deed = match (unreadable.join(" and "), problems.len() > unreadable.len()) {
        (files, false) => format!("Make {files} readable."),
        (files, true) if files.is_empty() => {
            "Correct the configuration; `gua config check` lists every mistake.".to_owned()
        }
        (files, true) => {
            format!("Make {files} readable, and correct what `gua config check` lists.")
        }
    };
    CONFIG.error(summary, details).advise(deed)
}

#[cfg(test)]
mod tests;
