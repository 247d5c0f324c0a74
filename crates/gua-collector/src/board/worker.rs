//! A thread that can be woken and ends with its handle: those of the link, and that of the alerts.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Handle of a thread. Dropping it asks the thread to end.
#[derive(Debug)]
pub(crate) struct Worker {
    alive: Sender<()>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl Worker {
    /// Starts the thread. Its receiver is disconnected when the thread should end.
    pub(crate) fn start(
        name: &str,
        work: impl FnOnce(Receiver<()>) + Send + 'static,
    ) -> io::Result<Self> {
        let (alive, end) = channel();
        let (working, ended) = channel();
        let work = move || {
            work(end);
            drop(working);
        };
        thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self { alive, ended })
    }

    /// Sends a wake-up to the receiver of the thread.
    pub(crate) fn wake(&self) {
        // The thread may have ended.
        let _ = self.alive.send(());
    }

    /// Asks the thread to end and waits for it, at most for this time.
    pub(crate) fn stop(self, limit: Duration) {
        drop(self.alive);
        // An error in both cases: when the thread has ended, and after the timeout.
        let _ = self.ended.recv_timeout(limit);
    }
}
