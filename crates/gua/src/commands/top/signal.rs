//! Signals to the user's own processes, and with `--act-as-admin` to those of others, which is logged. The process is
//! pinned with a pidfd before it is checked, so that a reused PID is never signalled.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use gua_model::text::sanitize;
use gua_model::{Identity, Pid, ProcessKey, Uid};
use gua_probe::process::ProcessTable;
use gua_tui::{Me, Signal};
use rustix::io::Errno;
use rustix::process::{self, PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::context::this_process;

/// User who runs this program.
pub(super) fn me() -> Me {
    let uid = Uid(process::geteuid().as_raw());
    let owner = this_process().and_then(|own| own.owner());
    Me {
        uid,
        owner: owner.and_then(|owner| owner.who.uid()).unwrap_or(uid),
    }
}

/// Socket of the system's log (syslog(3)).
pub(super) const LOG: &str = "/dev/log";

/// Facility `authpriv` and severity `notice` (RFC 3164), for actions that only root may take.
const PRIORITY: u8 = 10 << 3 | 5;

/// Sends a signal to exactly this process and returns the result as a message. A signal to another user's process is
/// written to the system's log first; without a log, it is not sent.
pub(super) fn send(
    key: ProcessKey,
    signal: Signal,
    me: Me,
    log: Option<&Path>,
) -> Result<String, String> {
    let pinned = Pinned::new(key)?;
    if !pinned.is_of(me) {
        let pid = key.pid;
        let log = log.ok_or_else(|| format!("{pid} is not your process; no signal was sent"))?;
        let (owner, name, signal) = (pinned.owner(), pinned.name(), signal.as_str());
        let message = format!(
            "<{PRIORITY}>gua[{}]: top --act-as-admin: login uid {} sends {signal} to process {pid} ({name}) of {owner}",
            std::process::id(),
            me.owner.0,
        );
        let sent =
            UnixDatagram::unbound().and_then(|socket| socket.send_to(message.as_bytes(), log));
        sent.map_err(|error| {
            format!(
                "cannot write to the log {}: {error}; no signal was sent",
                log.display()
            )
        })?;
    }
    pinned.signal(signal)
}

/// A process that cannot be confused with a later one of the same PID.
struct Pinned {
    handle: OwnedFd,
    identity: Identity,
}

impl Pinned {
    fn new(key: ProcessKey) -> Result<Self, String> {
        let pid = key.pid;
        let number = i32::try_from(pid.0).ok().and_then(process::Pid::from_raw);
        let number = number.ok_or_else(|| format!("{pid} is not a process"))?;
        let handle = pidfd_open(number, PidfdFlags::empty()).map_err(|error| match error {
            Errno::SRCH => ended(pid),
            Errno::NOSYS => {
                "this kernel cannot pin a process (requires Linux 5.3); no signal was sent"
                    .to_owned()
            }
            error => format!("{pid}: {error}; no signal was sent"),
        })?;
        // From here on, the PID refers to one process only. Check that it is the intended one.
        let mut table = ProcessTable::default();
        let identity = table.resolve(pid).map_err(|_| ended(pid))?;
        match identity.key == key {
            true => Ok(Self { handle, identity }),
            false => Err(format!("{pid} is another process now; no signal was sent")),
        }
    }

    fn is_of(&self, me: Me) -> bool {
        let owner = self.identity.owner().and_then(|owner| owner.who.uid());
        let own = self.identity.own.as_ref().ok().map(|user| user.uid);
        me.owns(own, owner)
    }

    fn owner(&self) -> String {
        let owner = self.identity.owner();
        owner.map_or_else(|| "?".to_owned(), |owner| sanitize(&owner.shown()))
    }

    fn name(&self) -> String {
        let name = self.identity.comm.as_deref();
        name.map_or_else(|_| "?".to_owned(), sanitize)
    }

    fn signal(&self, signal: Signal) -> Result<String, String> {
        let pid = self.identity.key.pid;
        let kernel = match signal {
            Signal::Terminate => process::Signal::TERM,
            Signal::Interrupt => process::Signal::INT,
            Signal::Kill => process::Signal::KILL,
        };
        match pidfd_send_signal(&self.handle, kernel) {
            Ok(()) => Ok(format!("sent {} to {pid}", signal.as_str())),
            Err(Errno::SRCH) => Err(ended(pid)),
            Err(error) => Err(format!("{pid}: {error}; no signal was sent")),
        }
    }
}

fn ended(pid: Pid) -> String {
    format!("{pid} has exited; no signal was sent")
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
            let mut table = ProcessTable::default();
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
        let sent = send(sleeper.key(), Signal::Terminate, me(), None).unwrap();
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
        let refusal = send(earlier, Signal::Kill, me(), None).unwrap_err();
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
        let refusal = send(sleeper.key(), Signal::Kill, someone, None).unwrap_err();
        assert!(refusal.contains("is not your process"), "{refusal}");
        assert!(sleeper.0.try_wait().unwrap().is_none(), "it lives");
    }

    #[test]
    fn an_administrator_signals_others_only_after_it_is_logged() {
        let mut sleeper = Sleeper::new();
        let pid = sleeper.0.id();
        let someone = Me {
            uid: Uid(me().uid.0 + 1),
            owner: Uid(4711),
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let refusal = send(sleeper.key(), Signal::Kill, someone, Some(&path)).unwrap_err();
        assert!(refusal.contains("no signal was sent"), "{refusal}");
        assert!(sleeper.0.try_wait().unwrap().is_none(), "it lives");
        let log = UnixDatagram::bind(&path).unwrap();
        let sent = send(sleeper.key(), Signal::Kill, someone, Some(&path)).unwrap();
        assert_eq!(sent, format!("sent KILL to {pid}"));
        sleeper.0.wait().unwrap();
        let mut message = [0; 1024];
        let length = log.recv(&mut message).unwrap();
        let message = String::from_utf8_lossy(&message[..length]);
        let expected = format!("login uid 4711 sends KILL to process {pid} (sleep) of ");
        assert!(
            message.starts_with("<85>gua[") && message.contains(&expected),
            "{message}"
        );
    }

    #[test]
    fn a_process_that_has_ended_is_reported_as_ended() {
        let mut sleeper = Sleeper::new();
        let key = sleeper.key();
        sleeper.0.kill().unwrap();
        sleeper.0.wait().unwrap();
        let refusal = send(key, Signal::Terminate, me(), None).unwrap_err();
        assert!(refusal.contains("no signal was sent"), "{refusal}");
    }
}
