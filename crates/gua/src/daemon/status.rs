//! `gua status`: whether a background daemon is running, and its state.

use std::path::Path;
use std::process::ExitCode;

use gua_collector::managed::{Maker, Managed, PidOwner, owner_of};
use gua_collector::outage_file;
use gua_collector::pid_file::PidFile;
use gua_probe::clock;
use jiff::Timestamp;

use super::{BACKGROUND, board_status, history};
use crate::config::Loaded;
use crate::{output, which};

pub fn run(loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let collect = &loaded.settings.collect;
    let pid_file = PidFile::at(&collect.pid_file.value);
    let mut enrolment = loaded.settings.cloud.config.value.clone();
    let mut history = which::history(loaded);
    let mut text = match pid_file.read() {
        None => format!("{BACKGROUND}: not running\n"),
        Some(pid) => match owner_of(pid, &pid_file) {
            PidOwner::Managed(managed) => {
                let mut text = format!(
                    "{BACKGROUND}: running (pid {pid})\n  pid file: {}\n  log: {}\n",
                    pid_file.path().display(),
                    argument(&managed, "--log-file")
                        .map_or(collect.log_file.value.as_path(), Path::new)
                        .display()
                );
                if let Some(db) = argument(&managed, "--db") {
                    history = db.into();
                }
                if let Some(config) = argument(&managed, "--config") {
                    enrolment = config.into();
                }
                text.push_str(&details(&managed, outage_file::read(pid_file.path(), pid)));
                text
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
    text.push_str(&board_status::summary(&history, &enrolment, clock::now()));
    output::data(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Details from the history; none for a collector of the Python tool.
fn details(managed: &Managed, outage: Option<(Timestamp, String)>) -> String {
    match managed.maker {
        Maker::Python => "  collector: gpu-usage-audit (Python)\n".to_owned(),
        Maker::Ours => argument(managed, "--db")
            .map_or_else(String::new, |db| history::summary(db.as_ref(), outage)),
    }
}

/// Value of a flag on the command line of gua's own daemon.
fn argument<'a>(managed: &'a Managed, flag: &str) -> Option<&'a str> {
    let words = (managed.maker == Maker::Ours).then_some(&managed.arguments)?;
    let mut words = words.iter().skip_while(|word| *word != flag);
    words.nth(1).map(String::as_str)
}
