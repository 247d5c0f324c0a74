//! The process that a claim is for.

use gua_claim::{Kernel as _, Life};
use gua_collector::claims::HostKernel;
use gua_model::{BootId, Pid, ProcessKey, StartTicks};
use gua_probe::process::ProcRoot;

use crate::failure::Failure;

/// The process that a claim is for, as it was at the start of this command: if it ends before the claim is made, another
/// process adopts its children, and perhaps gets its PID.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pid: Pid,
    /// `None` if the process is not visible.
    start: Option<StartTicks>,
    is_named: bool,
}

impl Caller {
    /// The named process, else the parent of this one. Called before anything that takes time.
    pub(super) fn now(named: Option<u32>) -> Self {
        let pid = Pid(named.unwrap_or_else(std::os::unix::process::parent_id));
        // The boot does not matter here.
        let found = ProcRoot::default().process(pid, BootId(0));
        Self {
            pid,
            start: found.map(|process| process.start),
            is_named: named.is_some(),
        }
    }

    /// Rejects a parent that has ended since, and one that may only have adopted this process.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.is_named {
            return Ok(());
        }
        let pid = self.pid;
        if pid == Pid(1) {
            return Err(Failure::usage(
                "the process that called gua has ended, or is PID 1, to which no claim can be bound",
            )
            .hint("bind the claim to a process with --for PID; --for $$ is the shell"));
        }
        if Pid(std::os::unix::process::parent_id()) != pid {
            return Err(Failure::failed(format!(
                "the process that called gua (pid {pid}) has ended, so no process would hold the claim"
            )));
        }
        Ok(())
    }

    /// The process, if it is still running.
    pub(super) fn process(&self, kernel: &HostKernel) -> Result<ProcessKey, Failure> {
        self.check()?;
        let (pid, boot) = (self.pid, kernel.boot);
        let found = self.start.map(|start| ProcessKey { boot, pid, start });
        let found = found.filter(|process| kernel.standing(process) != Life::Ended);
        found.ok_or_else(|| {
            Failure::failed(match self.is_named {
                true => format!("no visible process {pid} to bind the claim to"),
                false => format!(
                    "the process that called gua (pid {pid}) is not visible, so no claim can be bound to it"
                ),
            })
            .hint("--for PID names another")
        })
    }
}

/// The process of this command.
pub(super) fn this_process(kernel: &HostKernel) -> Result<ProcessKey, Failure> {
    let found = kernel.process(Pid(std::process::id()));
    found.ok_or_else(|| Failure::failed("this process is not visible in /proc"))
}
