//! `gua stop`: ends the daemon in the background, and never any other process.

use std::process::ExitCode;
use std::time::Duration;

use gua_collector::managed::{Occupant, Stopped, occupant};
use gua_collector::pid_file::PidFile;

use super::BACKGROUND;
use crate::config::Loaded;
use crate::failure::Exit;
use crate::output;

/// How long it may take to end.
const LIMIT: Duration = Duration::from_secs(5);

pub fn run(loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let pid_file = PidFile::at(&loaded.settings.collect.pid_file.value);
    let Some(pid) = pid_file.read() else {
        output::data(&format!("{BACKGROUND}: not running\n"))?;
        return Ok(ExitCode::SUCCESS);
    };
    let text = match occupant(pid, &pid_file) {
        Occupant::Foreign => format!(
            "{BACKGROUND}: not running (pid {pid} belongs to another process; cleared stale pid file)\n"
        ),
        Occupant::Dead => format!("{BACKGROUND}: not running (removed stale pid {pid})\n"),
        Occupant::Managed(managed) => match managed.stop(LIMIT) {
            Stopped::Ended => format!("{BACKGROUND}: stopped pid {pid}\n"),
            Stopped::StillAlive => {
                let seconds = LIMIT.as_secs();
                output::talk(&format!(
                    "{BACKGROUND}: pid {pid} was asked to stop and is still alive after {seconds} s\n"
                ));
                return Ok(Exit::Failed.into());
            }
            Stopped::Refused(error) => {
                output::talk(&format!(
                    "{BACKGROUND}: not permitted to stop pid {pid}: {error}\n"
                ));
                return Ok(Exit::Failed.into());
            }
        },
    };
    pid_file.clear(pid);
    output::data(&text)?;
    Ok(ExitCode::SUCCESS)
}
