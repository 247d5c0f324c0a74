//! Checks of the host: kernel, clock, visibility of processes, other collectors, and the configuration of gua.

use crate::host::collector::{Collector, GPU_USAGE_AUDIT, GUA};
use crate::host::mount::HideLevel;
use crate::host::namespace::{PidLookup, PidNamespace, pid_lookup};
use crate::host::privilege::Privilege;

use gua_model::DriverPids;
use gua_model::text::sanitize;

use super::check::{Finding, Status};
use super::details::Details;
use super::facts::Facts;

/// 2026-01-01 and 2100-01-01 UTC: a clock that was set correctly lies in between.
const EARLIEST: i64 = 1_767_225_600;
const LATEST: i64 = 4_102_444_800;

pub(super) fn os(facts: &Facts) -> Finding {
    let kernel = &facts.kernel;
    let details = Details::Os {
        platform: format!("{}-{}-{}", kernel.system, kernel.release, kernel.machine),
        release: kernel.release.clone(),
        system: kernel.system.clone(),
    };
    let summary = format!("{} {}, {}", kernel.system, kernel.release, kernel.machine);
    match kernel.system.as_str() {
        "Linux" => Status::Ok.finding(summary, details),
        _ => Status::Error
            .finding(summary, details)
            .blocked_until("Run gua on Linux."),
    }
}

pub(super) fn clock(facts: &Facts) -> Finding {
    let now = facts.now.timestamp();
    let booted = facts.time_keeping.booted;
    let synchronised = facts.time_keeping.synchronised;
    let zone = facts
        .now
        .time_zone()
        .iana_name()
        .map_or_else(|| facts.now.strftime("%Z").to_string(), str::to_owned);
    let details = Details::Clock {
        booted_at: booted.map(|booted| booted.to_string()),
        now: facts.now.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        synchronized: synchronised,
        time_zone: zone.clone(),
    };
    let shown = facts.now.strftime("%Y-%m-%d %H:%M:%S %:z");
    let wrong = match booted {
        _ if !(EARLIEST..LATEST).contains(&now.as_second()) => Some("is not a plausible time"),
        Some(booted) if now < booted => Some("is before this host booted"),
        _ => None,
    };
    if let Some(wrong) = wrong {
        return Status::Error
            .finding(format!("{shown} {wrong}"), details)
            .advise("Set the clock (`timedatectl set-ntp true`).");
    }
    let place = format!("{shown} ({zone})");
    match synchronised {
        Some(true) => Status::Ok.finding(format!("{place}, synchronised"), details),
        None => Status::Ok.finding(format!("{place}, synchronisation unknown"), details),
        Some(false) => Status::Warning
            .finding(format!("{place}, not synchronised yet"), details)
            .advise("Check the time servers (`timedatectl timesync-status`)."),
    }
}

/// Checks whether the driver's process IDs can be looked up here, and by which rule; advises how to change it.
pub(super) fn container(facts: &Facts) -> Finding {
    let around = &facts.surroundings;
    let setting = &facts.known.driver_pids;
    let lookup = pid_lookup(setting.value, around.pid_namespace);
    let is_looked_up = match lookup {
        PidLookup::Same => true,
        PidLookup::Foreign => false,
        // If the kernel does not report the namespace, the markers of container engines are the only hint.
        PidLookup::Unknown => around.engines.is_empty(),
    };
    let details = Details::Container {
        driver_pids: setting.value.as_str(),
        engines: around.engines.clone(),
        pid_namespace: around.pid_namespace,
        pids_looked_up: is_looked_up,
    };
    let place = match (around.engines.as_slice(), around.pid_namespace) {
        ([], PidNamespace::Host) => "none".to_owned(),
        ([], PidNamespace::Own) => "own PID namespace".to_owned(),
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
        let summary = format!("{place}: the host's processes are not visible{rule}");
        return Status::Warning.finding(summary, details).advise(
            "Run gua on the host, or in a container started with `--pid=host`, to see the owners. If the driver reports the \
             PIDs of this namespace, set `driver.pids = \"here\"` (GUA_DRIVER_PIDS=here).",
        );
    }
    let summary = match (setting.value, around.pid_namespace) {
        (DriverPids::Here, PidNamespace::Own | PidNamespace::Unknown) => {
            format!("{place}; the driver's PIDs are looked up here{rule}")
        }
        _ if around.engines.is_empty() => place,
        _ => format!("{place}, and the host's processes are visible"),
    };
    Status::Ok.finding(summary, details)
}

pub(super) fn hidepid(facts: &Facts) -> Finding {
    let Privilege {
        groups,
        sees_everyone,
    } = &facts.privilege;
    let level = facts.hiding.map(|hiding| hiding.level);
    let gid = facts.hiding.and_then(|hiding| hiding.gid);
    let word = level.map(HideLevel::as_str);
    let details = Details::Hidepid {
        cap_sys_ptrace: *sees_everyone,
        gid,
        hidepid: word,
    };
    let (Some(level), Some(word)) = (level, word) else {
        return Status::Skipped.finding("the mount options of /proc are not known", details);
    };
    // The level `ptraceable` makes no exception for the group (proc(5)).
    let exempt = gid.filter(|_| level != HideLevel::Ptraceable);
    let summary = match exempt {
        _ if level == HideLevel::Off => "off, every process is visible".to_owned(),
        _ if *sees_everyone => format!("{word}, and this user may see every process"),
        Some(gid) if groups.contains(&gid) => {
            format!("{word}, and group {gid} may see every process")
        }
        _ => {
            let group = exempt.map(|gid| format!(", or as a member of group {gid}"));
            let group = group.unwrap_or_default();
            let summary = format!("{word}, so other users' processes are hidden");
            return Status::Warning
                .finding(summary, details)
                .advise(format!("Run gua as root or with CAP_SYS_PTRACE{group}."));
        }
    };
    Status::Ok.finding(summary, details)
}

pub(super) fn collectors(facts: &Facts) -> Finding {
    let details = Details::Collectors {
        running: facts.collectors.clone(),
    };
    let Some(running) = &facts.collectors else {
        let summary = "the search through the processes timed out";
        return Status::Skipped.finding(summary, details);
    };
    let named = |one: &Collector| format!("{} (pid {})", one.name, one.pid);
    let summary = match running.is_empty() {
        true => "none".to_owned(),
        false => running.iter().map(named).collect::<Vec<_>>().join(", "),
    };
    let pids = |which| -> Vec<String> {
        let found = running.iter().filter(|one| one.name == which);
        found.map(|one| one.pid.to_string()).collect()
    };
    let python = pids(GPU_USAGE_AUDIT);
    let stop = (!python.is_empty()).then(|| {
        format!(
            "Stop the Python collector (pid {}) before gua collects, so that its history can be taken over.",
            python.join(", ")
        )
    });
    let keep_one = (pids(GUA).len() > 1)
        .then(|| "Keep one gua collector, unless users collect for themselves.".to_owned());
    Finding::advised(summary, details, stop.into_iter().chain(keep_one))
}

pub(super) fn config(facts: &Facts) -> Finding {
    let problems = facts.known.configuration.iter().map(|one| sanitize(one));
    let problems: Vec<String> = problems.collect();
    let details = Details::Config {
        problems: problems.clone(),
    };
    let Some(first) = problems.first() else {
        return Status::Ok.finding("no problems", details);
    };
    let summary = match problems.len() - 1 {
        0 => first.clone(),
        more => format!("{first}, and {more} more: gua config check"),
    };
    let files = facts.known.unreadable_files.iter();
    let unreadable: Vec<String> = files
        .map(|path| sanitize(&path.to_string_lossy()))
        .collect();
    let action = match (unreadable.join(" and "), problems.len() > unreadable.len()) {
        (files, false) => format!("Make {files} readable."),
        (files, true) if files.is_empty() => {
            "Correct the configuration; `gua config check` lists every mistake.".to_owned()
        }
        (files, true) => {
            format!("Make {files} readable, and correct what `gua config check` lists.")
        }
    };
    Status::Error.finding(summary, details).advise(action)
}

pub(super) fn alerts(facts: &Facts) -> Finding {
    let (count, problems) = &facts.known.alerts;
    let problems: Vec<String> = problems.iter().map(|one| sanitize(one)).collect();
    let details = Details::Alerts {
        alerts: *count,
        problems: problems.clone(),
    };
    match (count, problems.split_first()) {
        (0, _) => Status::Ok.finding("none configured", details),
        (_, None) => Status::Ok.finding(format!("{count} configured"), details),
        (_, Some((first, []))) => Status::Warning.finding(first, details),
        (_, Some((first, more))) => {
            let summary = format!("{first}; {} more in `gua alert list`", more.len());
            Status::Warning.finding(summary, details)
        }
    }
}

#[cfg(test)]
mod tests;
