//! Waits for the end of a child without polling.

use std::io;
use std::process::Child;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Sleeps until the child has ended, the time has passed or a signal arrives; the caller checks next whether it has
/// ended. Fails at once on kernels without pidfd (before 5.3).
pub fn wait_for_end(child: &Child, limit: Duration) -> io::Result<()> {
    let ended = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let limit = Timespec::try_from(limit).ok();
    match poll(&mut [PollFd::new(&ended, PollFlags::IN)], limit.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::clock;

    #[test]
    fn an_end_is_noticed_when_it_comes_and_a_limit_when_it_is_over() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait_for_end(&child, Duration::from_millis(10)).unwrap();
        assert!(child.try_wait().unwrap().is_none());
        let began = clock::monotonic();
        drop(child.stdin.take());
        wait_for_end(&child, Duration::from_secs(60)).unwrap();
        assert!(child.try_wait().unwrap().is_some());
        assert!(clock::monotonic() - began < Duration::from_secs(50));
    }
}
