//! `gua stop`: stops the background daemon, and never another process.

use std::time::Duration;

use gua_collector::managed::{PidOwner, Stopped, owner_of};
use gua_collector::pid_file::PidFile;

use super::daemon::BACKGROUND;
use crate::commands::prelude::*;

/// Maximum time to wait for the daemon to exit.
const LIMIT: Duration = Duration::from_secs(5);

pub fn run(context: &Context) -> anyhow::Result<ExitCode> {
    let pid_file = PidFile::at(&context.settings().collect.pid_file.value);
    let Some(pid) = pid_file.read() else {
        output::data(&format!("{BACKGROUND}: not running\n"))?;
        return Ok(ExitCode::SUCCESS);
    };
    let text = match owner_of(pid, &pid_file) {
        PidOwner::Foreign => format!(
            "{BACKGROUND}: not running (pid {pid} belongs to another process; cleared stale pid file)\n"
        ),
        PidOwner::Dead => format!("{BACKGROUND}: not running (removed stale pid {pid})\n"),
        PidOwner::Managed(managed) => match managed.stop(LIMIT) {
            Stopped::Ended => format!("{BACKGROUND}: stopped pid {pid}\n"),
            Stopped::StillAlive => {
                let seconds = LIMIT.as_secs();
                output::eprint(&format!(
                    "{BACKGROUND}: pid {pid} received SIGTERM and is still alive after {seconds} s\n"
                ));
                return Ok(Exit::Failed.into());
            }
            Stopped::Refused(error) => {
                output::eprint(&format!(
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
