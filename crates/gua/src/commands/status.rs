//! `gua status`: whether a background daemon is running, and its state.

use std::path::Path;

use gua_collector::alert;
use gua_collector::daemon::{Cloud, board_status, health, history_file};
use gua_collector::managed::{Maker, Managed, PidOwner, owner_of};
use gua_collector::outage_file;
use gua_collector::pid_file::PidFile;
use jiff::Timestamp;

use super::daemon::BACKGROUND;
use crate::commands::prelude::*;

pub fn run(context: &Context) -> anyhow::Result<()> {
    let settings = context.settings();
    let pid_file = PidFile::at(&settings.collect.pid_file.value);
    let mut enrolment = settings.cloud.config.value.clone();
    let mut history = context.history();
    let mut running = None;
    let mut text = match pid_file.read() {
        None => format!("{BACKGROUND}: not running\n"),
        Some(pid) => match owner_of(pid, &pid_file) {
            PidOwner::Managed(managed) => {
                let log = managed.argument("--log-file");
                let log = log.map_or(settings.collect.log_file.value.as_path(), Path::new);
                let is_pushing = managed.arguments.iter().any(|word| word == "--cloud");
                running = Some(Cloud::new(is_pushing, false));
                if let Some(db) = managed.argument("--db") {
                    history = db.into();
                }
                if let Some(config) = managed.argument("--config") {
                    enrolment = config.into();
                }
                format!(
                    "{BACKGROUND}: running (pid {pid})\n  pid file: {}\n  log: {}\n{}",
                    pid_file.path().display(),
                    log.display(),
                    details(&managed, outage_file::read(pid_file.path(), pid))
                )
            }
            PidOwner::Foreign => {
                pid_file.clear(pid);
                format!(
                    "{BACKGROUND}: not running (pid {pid} belongs to another process; cleared stale pid file)\n"
                )
            }
            PidOwner::Dead => {
                pid_file.clear(pid);
                format!("{BACKGROUND}: not running (stale pid {pid})\n")
            }
        },
    };
    if running.is_none()
        && let Some(health) = health::of_host(&context.loaded, clock::now())
    {
        text.push_str(&format!("  the host's collector: {health}"));
    }
    let (alerts, problems) = alert::problems(&context.loaded);
    if alerts > 0 {
        text.push_str(&format!("  alerts: {alerts}\n"));
    }
    for problem in problems {
        text.push_str(&format!("  alert problem: {problem}\n"));
    }
    text.push_str(&board_status::summary(
        &history,
        &enrolment,
        running,
        clock::now(),
    ));
    output::data(&text)
}

/// Details from the history; none for a collector of the Python tool.
fn details(managed: &Managed, outage: Option<(Timestamp, String)>) -> String {
    match managed.maker {
        Maker::Python => "  collector: gpu-usage-audit (Python)\n".to_owned(),
        Maker::Ours => managed
            .argument("--db")
            .map_or_else(String::new, |db| history_file::summary(db.as_ref(), outage)),
    }
}
