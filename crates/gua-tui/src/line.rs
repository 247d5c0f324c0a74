//! The line to the terminal: pages are written by a thread of its own, so that a terminal that takes nothing keeps nobody
//! from ending the program. Whoever draws asks first whether the last page is through, so pages never pile up.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

/// What is written while others go on.
#[derive(Debug)]
pub(crate) struct Line {
    pages: SyncSender<Vec<u8>>,
    written: Receiver<io::Result<()>>,
    is_busy: bool,
}

impl Line {
    /// A line to whatever this is; `on_written` is called after each page, in the line's own thread.
    pub(crate) fn to(
        terminal: impl AsFd,
        on_written: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        // Its own handle: the lock on stdout would be held while a write waits.
        let mut out = File::from(terminal.as_fd().try_clone_to_owned()?);
        let (pages, to_write) = sync_channel::<Vec<u8>>(1);
        let (done, written) = sync_channel(1);
        let writer = move || {
            for page in to_write {
                let is_heard = done.send(out.write_all(&page)).is_ok();
                on_written();
                if !is_heard {
                    return;
                }
            }
        };
        thread::Builder::new()
            .name("line".to_owned())
            .spawn(writer)?;
        Ok(Self {
            pages,
            written,
            is_busy: false,
        })
    }

    /// Whether the last page is through; fails as its writing did.
    pub(crate) fn is_free(&mut self) -> io::Result<bool> {
        if self.is_busy {
            match self.written.try_recv() {
                Ok(result) => self.settle(result)?,
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return Err(broken()),
            }
        }
        Ok(!self.is_busy)
    }

    /// The same, with some patience.
    pub(crate) fn is_free_within(&mut self, patience: Duration) -> io::Result<bool> {
        if self.is_busy {
            match self.written.recv_timeout(patience) {
                Ok(result) => self.settle(result)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(broken()),
            }
        }
        Ok(!self.is_busy)
    }

    /// Sends a page on its way; the line has to be free.
    pub(crate) fn send(&mut self, page: Vec<u8>) -> io::Result<()> {
        debug_assert!(!self.is_busy, "pages do not pile up");
        self.pages.send(page).map_err(|_| broken())?;
        self.is_busy = true;
        Ok(())
    }

    fn settle(&mut self, written: io::Result<()>) -> io::Result<()> {
        self.is_busy = false;
        written
    }
}

fn broken() -> io::Error {
    io::Error::new(
        io::ErrorKind::BrokenPipe,
        "nobody writes to the terminal any more",
    )
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    const SOON: Duration = Duration::from_secs(30);

    #[test]
    fn pages_arrive_in_order_and_one_at_a_time() {
        let (mut other_end, pipe) = io::pipe().unwrap();
        let mut line = Line::to(pipe, || {}).unwrap();
        for page in ["one ", "two ", "three"] {
            line.send(page.into()).unwrap();
            assert!(line.is_free_within(SOON).unwrap());
        }
        drop(line);
        let mut text = String::new();
        other_end.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one two three");
    }

    #[test]
    fn a_page_that_nobody_takes_keeps_the_line_busy_and_nobody_waiting() {
        let (mut other_end, pipe) = io::pipe().unwrap();
        let mut line = Line::to(pipe, || {}).unwrap();
        let large = vec![b'x'; 1 << 20];
        line.send(large.clone()).unwrap();
        assert!(!line.is_free().unwrap());
        assert!(!line.is_free_within(Duration::from_millis(1)).unwrap());
        let mut taken = vec![0; large.len()];
        other_end.read_exact(&mut taken).unwrap();
        assert!(line.is_free_within(SOON).unwrap());
    }

    #[test]
    fn a_terminal_that_is_gone_is_told() {
        let (other_end, pipe) = io::pipe().unwrap();
        drop(other_end);
        let mut line = Line::to(pipe, || {}).unwrap();
        line.send(b"page".to_vec()).unwrap();
        assert!(line.is_free_within(SOON).is_err());
    }
}
