//! The real world of the loop: the reader on a thread of its own, the signals of this process, the clocks.
//!
//! The reader waits for the driver up to its deadline. It does so on its thread, so that a signal ends the loop at once
//! and systemd hears that it is alive, whatever the driver does.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use gua_model::Sample;
use gua_probe::clock;
use gua_probe::fault::DriverFault;
use gua_probe::reader::Reader;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::clocks::Clocks;
use crate::world::{Wake, World};

type Answer = Result<Sample, DriverFault>;

/// The host that the loop runs on.
#[derive(Debug)]
pub struct Machine {
    stop: UnixStream,
    reload: UnixStream,
    questions: Option<Sender<()>>,
    answers: Receiver<Answer>,
    /// A byte for each answer, so that it can be waited for together with the signals.
    answered: UnixStream,
    reader: Option<JoinHandle<()>>,
    is_reading: bool,
    /// Whether it was started at a terminal. Once that is hung up, nobody wants it any more.
    has_terminal: bool,
}

impl Machine {
    /// Takes over SIGINT, SIGTERM and SIGHUP, and gives the reader a thread.
    pub fn new(mut reader: Reader) -> io::Result<Self> {
        let stop = signalled(&[SIGINT, SIGTERM])?;
        let reload = signalled(&[SIGHUP])?;
        let (questions, asked) = channel::<()>();
        let (answer, answers) = channel();
        let (mut bell, answered) = UnixStream::pair()?;
        answered.set_nonblocking(true)?;
        let thread = std::thread::Builder::new()
            .name("gua-asking".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || {
                while asked.recv().is_ok() {
                    let is_heard = answer.send(reader.sample()).is_ok();
                    if !is_heard || bell.write_all(&[1]).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            stop,
            reload,
            questions: Some(questions),
            answers,
            answered,
            reader: Some(thread),
            is_reading: false,
            has_terminal: io::stderr().is_terminal(),
        })
    }

    /// One answer before the loop begins: whether there is a driver at all. `None` if a signal came first.
    pub fn first_answer(&mut self) -> Option<Answer> {
        self.ask();
        loop {
            match self.wait(Duration::MAX) {
                Wake::Answer(answer) => return Some(answer),
                Wake::Stop => return None,
                Wake::Reload | Wake::Due => {}
            }
        }
    }

    /// Whether a signal has come that ends the loop, without waiting for one. It is then still there.
    #[must_use]
    pub fn is_told_to_stop(&self) -> bool {
        let mut input = [PollFd::new(&self.stop, PollFlags::IN)];
        matches!(poll(&mut input, Some(&Timespec::default())), Ok(1))
    }

    fn answer(&mut self) -> Answer {
        self.is_reading = false;
        self.answers.recv().unwrap_or_else(|_| {
            Err(DriverFault::ReaderDied {
                how: "its thread ended".to_owned(),
            })
        })
    }
}

impl World for Machine {
    fn clocks(&self) -> Clocks {
        Clocks::read()
    }

    fn ask(&mut self) {
        self.is_reading = true;
        if let Some(questions) = &self.questions {
            // A thread that has ended is noticed when its answer is waited for.
            let _ = questions.send(());
        }
    }

    fn wait(&mut self, until: Duration) -> Wake {
        loop {
            let left = until.saturating_sub(clock::monotonic());
            let limit = Timespec::try_from(left).ok();
            let mut inputs = [
                PollFd::new(&self.answered, PollFlags::IN),
                PollFd::new(&self.stop, PollFlags::IN),
                PollFd::new(&self.reload, PollFlags::IN),
            ];
            match poll(&mut inputs, limit.as_ref()) {
                Ok(0) => return Wake::Due,
                Ok(_) => {}
                // An interrupted sleep is begun again; a failing one must not become a busy loop.
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return Wake::Stop,
            }
            let [answered, stop, reload] = inputs.map(|input| !input.revents().is_empty());
            // The tick that was read is not thrown away for a signal of the same moment.
            if answered && self.is_reading {
                drain(&mut self.answered);
                return Wake::Answer(self.answer());
            }
            if stop {
                drain(&mut self.stop);
                return Wake::Stop;
            }
            if reload {
                drain(&mut self.reload);
                let is_hung_up = self.has_terminal && !io::stderr().is_terminal();
                return if is_hung_up { Wake::Stop } else { Wake::Reload };
            }
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.questions.take());
        // A thread that waits for a hung driver is left behind; the kernel ends its child with this process.
        if let Some(thread) = self.reader.take().filter(|_| !self.is_reading) {
            let _ = thread.join();
        }
    }
}

/// A stream that has something to read after one of these signals.
fn signalled(signals: &[i32]) -> io::Result<UnixStream> {
    let (inside, outside) = UnixStream::pair()?;
    outside.set_nonblocking(true)?;
    for signal in signals {
        pipe::register(*signal, inside.try_clone()?)?;
    }
    Ok(outside)
}

fn drain(stream: &mut UnixStream) {
    let mut buffer = [0; 64];
    while matches!(stream.read(&mut buffer), Ok(1..)) {}
}
