//! Signals to the user's own processes only. The process is pinned with a pidfd before it is checked, so that a reused
//! PID is never signalled.

use gua_model::{Pid, ProcessKey, Uid};
use gua_probe::process::{Passwd, ProcRoot, ProcessTable};
use gua_tui::{Me, Signal};
use rustix::io::Errno;
use rustix::process::{self, PidfdFlags, pidfd_open, pidfd_send_signal};

/// User who runs this program.
pub(super) fn me() -> Me {
    let uid = Uid(process::geteuid().as_raw());
    let mut table = ProcessTable::new(ProcRoot::default(), Passwd::System);
    let own = table.resolve(Pid(std::process::id())).ok();
    let owner = own.and_then(|identity| identity.owner());
    Me {
        uid,
        owner: owner.and_then(|owner| owner.who.uid()).unwrap_or(uid),
    }
}

/// Sends a signal to exactly this process and returns the result as a message.
pub(super) fn send(key: ProcessKey, signal: Signal, me: Me) -> Result<String, String> {
    let pid = key.pid;
    let number = i32::try_from(pid.0).ok().and_then(process::Pid::from_raw);
    let number = number.ok_or_else(|| format!("{pid} is not a process"))?;
    let ended = || format!("{pid} has exited; no signal was sent");
    let handle = pidfd_open(number, PidfdFlags::empty()).map_err(|error| match error {
        Errno::SRCH => ended(),
        Errno::NOSYS => {
            "this kernel cannot pin a process (requires Linux 5.3); no signal was sent".to_owned()
        }
        error => format!("{pid}: {error}; no signal was sent"),
    })?;
    // From here on, the PID refers to one process only. Check that it is the intended one and belongs to the user.
    let mut table = ProcessTable::new(ProcRoot::default(), Passwd::System);
    let identity = table.resolve(pid).map_err(|_| ended())?;
    if identity.key != key {
        return Err(format!("{pid} is another process now; no signal was sent"));
    }
    let owner = identity.owner().and_then(|owner| owner.who.uid());
    let own = identity.own.as_ref().ok().map(|user| user.uid);
    if !me.owns(own, owner) {
        return Err(format!("{pid} is not your process; no signal was sent"));
    }
    let kernel = match signal {
        Signal::Terminate => process::Signal::TERM,
        Signal::Interrupt => process::Signal::INT,
        Signal::Kill => process::Signal::KILL,
    };
    match pidfd_send_signal(&handle, kernel) {
        Ok(()) => Ok(format!("sent {} to {pid}", signal.as_str())),
        Err(Errno::SRCH) => Err(ended()),
        Err(error) => Err(format!("{pid}: {error}; no signal was sent")),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use gua_model::StartTicks;

    use super::*;

    struct Sleeper(Child);

    impl Sleeper {
        fn new() -> Self {
            Self(
                Command::new("sleep")
                    .arg("600")
                    .stdin(Stdio::null())
                    .spawn()
                    .unwrap(),
            )
        }

        fn key(&self) -> ProcessKey {
            let mut table = ProcessTable::new(ProcRoot::default(), Passwd::System);
            table.resolve(Pid(self.0.id())).unwrap().key
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn an_own_process_gets_the_signal() {
        let mut sleeper = Sleeper::new();
        let sent = send(sleeper.key(), Signal::Terminate, me()).unwrap();
        assert_eq!(sent, format!("sent TERM to {}", sleeper.0.id()));
        let status = sleeper.0.wait().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(15)
        );
    }

    #[test]
    fn a_number_that_was_given_to_another_process_is_not_hit() {
        let mut sleeper = Sleeper::new();
        let key = sleeper.key();
        let earlier = ProcessKey {
            start: StartTicks(key.start.0 - 1),
            ..key
        };
        let refusal = send(earlier, Signal::Kill, me()).unwrap_err();
        assert!(refusal.contains("is another process now"), "{refusal}");
        assert!(sleeper.0.try_wait().unwrap().is_none(), "it lives");
    }

    #[test]
    fn a_process_of_someone_else_is_refused_even_to_root() {
        let mut sleeper = Sleeper::new();
        let someone = Me {
            uid: Uid(me().uid.0 + 1),
            owner: Uid(me().owner.0 + 1),
        };
        let refusal = send(sleeper.key(), Signal::Kill, someone).unwrap_err();
        assert!(refusal.contains("is not your process"), "{refusal}");
        assert!(sleeper.0.try_wait().unwrap().is_none(), "it lives");
    }

    #[test]
    fn a_process_that_has_ended_is_told_so() {
        let mut sleeper = Sleeper::new();
        let key = sleeper.key();
        sleeper.0.kill().unwrap();
        sleeper.0.wait().unwrap();
        let refusal = send(key, Signal::Terminate, me()).unwrap_err();
        assert!(refusal.contains("no signal was sent"), "{refusal}");
    }
}
