//! Output to the terminal: a separate thread writes, so that a terminal that accepts no data never blocks the program.
//! The caller checks first whether the last page was written, so pages never queue up.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Writer of pages, with one page under way at most.
#[derive(Debug)]
pub(crate) struct Writer {
    pages: SyncSender<Vec<u8>>,
    written: Receiver<io::Result<()>>,
    is_busy: bool,
}

impl Writer {
    /// Creates a writer; `on_written` is called after each page, in the writer's thread.
    pub(crate) fn to(
        terminal: impl AsFd,
        on_written: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        // A separate file handle: the lock on stdout would be held during a blocked write.
        let mut out = File::from(terminal.as_fd().try_clone_to_owned()?);
        let (pages, to_write) = sync_channel::<Vec<u8>>(1);
        let (done, written) = sync_channel(1);
        let run = move || {
            for page in to_write {
                let is_received = done.send(out.write_all(&page)).is_ok();
                on_written();
                if !is_received {
                    return;
                }
            }
        };
        thread::Builder::new()
            .name("terminal".to_owned())
            .spawn(run)?;
        Ok(Self {
            pages,
            written,
            is_busy: false,
        })
    }

    /// Reports whether the last page was written; returns its error.
    pub(crate) fn is_free(&mut self) -> io::Result<bool> {
        self.is_free_within(Duration::ZERO)
    }

    /// As [`Writer::is_free`], with a time limit.
    pub(crate) fn is_free_within(&mut self, timeout: Duration) -> io::Result<bool> {
        if self.is_busy {
            match self.written.recv_timeout(timeout) {
                Ok(written) => {
                    self.is_busy = false;
                    written?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(broken()),
            }
        }
        Ok(!self.is_busy)
    }

    /// Starts writing a page. The last one must have been written.
    pub(crate) fn send(&mut self, page: Vec<u8>) -> io::Result<()> {
        debug_assert!(!self.is_busy, "pages do not pile up");
        self.pages.send(page).map_err(|_| broken())?;
        self.is_busy = true;
        Ok(())
    }
}

fn broken() -> io::Error {
    io::Error::new(
        io::ErrorKind::BrokenPipe,
        "the thread that writes to the terminal has ended",
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
        let mut writer = Writer::to(pipe, || {}).unwrap();
        for page in ["one ", "two ", "three"] {
            writer.send(page.into()).unwrap();
            assert!(writer.is_free_within(SOON).unwrap());
        }
        drop(writer);
        let mut text = String::new();
        other_end.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one two three");
    }

    #[test]
    fn a_page_that_nobody_takes_keeps_the_writer_busy_and_blocks_nobody() {
        let (mut other_end, pipe) = io::pipe().unwrap();
        let mut writer = Writer::to(pipe, || {}).unwrap();
        let large = vec![b'x'; 1 << 20];
        writer.send(large.clone()).unwrap();
        assert!(!writer.is_free().unwrap());
        assert!(!writer.is_free_within(Duration::from_millis(1)).unwrap());
        let mut taken = vec![0; large.len()];
        other_end.read_exact(&mut taken).unwrap();
        assert!(writer.is_free_within(SOON).unwrap());
    }

    #[test]
    fn a_closed_terminal_is_an_error() {
        let (other_end, pipe) = io::pipe().unwrap();
        drop(other_end);
        let mut writer = Writer::to(pipe, || {}).unwrap();
        writer.send(b"page".to_vec()).unwrap();
        assert!(writer.is_free_within(SOON).is_err());
    }
}
