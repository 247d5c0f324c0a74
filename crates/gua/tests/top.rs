//! `gua top` in a real terminal: tmux types, reads the screen and changes its size. The driver is simulated.

mod ending;
mod looking;
mod stuck;

use gua_test::{Sleeper, Terminal, TestHost};
use nvml_sim::scenario::Scenario;

use crate::GUA;

const TWO_GPUS: &str = "[[gpu]]\nuuid = \"GPU-a\"\nname = \"NVIDIA A100\"\nutil = 50\n[[gpu]]\nuuid = \"GPU-b\"\nname = \"NVIDIA A100\"\n";

/// A host with a short driver deadline. The scenario must be valid.
fn host(scenario: &str) -> TestHost {
    Scenario::parse(scenario).unwrap();
    crate::host(scenario).variable("GUA_DRIVER_DEADLINE", "500ms")
}

/// Runs `gua top` in a terminal of this size, and leaves its exit code on the screen.
fn top<'a>(host: &'a TestHost, arguments: &str, size: (u16, u16)) -> Terminal<'a> {
    let shell = format!("{GUA} top {arguments}; echo \"code=$?\"; exec cat");
    Terminal::new(host, &shell, size)
}

/// Scenario of a GPU that a process holds without using it.
fn held_by(sleeper: &Sleeper) -> String {
    let pid = sleeper.pid();
    format!(
        "[[gpu]]\nuuid = \"GPU-a\"\nutil = 0\n[[gpu.process]]\npid = {pid}\nmemory_mib = 2048\n"
    )
}
