//! Everything that can happen while `top` runs, in one queue: keys, samples, signals, pages of history. Each comes from a
//! thread of its own, so a driver that does not answer keeps nobody from typing.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use gua_model::since::Since;
use gua_model::{GpuUuid, Sample};
use gua_probe::clock;
use gua_probe::fault::DriverFault;
use gua_tui::{Input, Moment, terminal};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use super::Samples;

/// Something that happened.
#[derive(Debug)]
pub(super) enum Event {
    Input(Input),
    /// The terminal cannot be read any more.
    Deaf,
    Answer(Box<Result<Sample, DriverFault>>),
    Signal(i32),
    /// The last picture has reached the terminal.
    Drawn,
    /// A thread failed; what it said is kept by [`super::panics`].
    Panicked,
    /// Recorded moments that were asked for.
    Recorded(Vec<Moment>),
    /// What the history knows about the states that go on.
    Since(BTreeMap<GpuUuid, Since>),
}

/// More than this many unread events mean that nobody reads.
const MOST_WAITING: usize = 256;

pub(super) fn queue() -> (SyncSender<Event>, Receiver<Event>) {
    sync_channel(MOST_WAITING)
}

/// Asks for a sample at every interval, on a fixed schedule; what is missed is not caught up.
pub(super) fn sample(
    mut samples: Samples,
    interval: Duration,
    events: SyncSender<Event>,
) -> io::Result<()> {
    spawn("sampler", move || {
        let mut due = clock::monotonic();
        loop {
            let answer = Box::new(samples());
            match events.try_send(Event::Answer(answer)) {
                // While the program is stopped or the line is slow, old answers are of no use.
                Ok(()) | Err(TrySendError::Full(_)) => {}
                Err(TrySendError::Disconnected(_)) => return,
            }
            let now = clock::monotonic();
            due += interval;
            if due < now {
                due = now + interval;
            }
            thread::sleep(due - now);
        }
    })
}

pub(super) fn listen(events: SyncSender<Event>) -> io::Result<()> {
    spawn("keys", move || {
        loop {
            let event = match terminal::read_input() {
                Ok(input) => Event::Input(input),
                Err(_) => Event::Deaf,
            };
            let is_deaf = matches!(event, Event::Deaf);
            if events.send(event).is_err() || is_deaf {
                return;
            }
        }
    })
}

pub(super) fn heed_signals(events: SyncSender<Event>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT])?;
    spawn("signals", move || {
        for signal in signals.forever() {
            if events.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    })
}

/// Runs something that ends with one event, or with none.
pub(super) fn later(
    name: &str,
    events: &SyncSender<Event>,
    work: impl FnOnce() -> Option<Event> + Send + 'static,
) -> io::Result<()> {
    let events = events.clone();
    spawn(name, move || {
        if let Some(event) = work() {
            // Nobody waits for it any more.
            let _ = events.send(event);
        }
    })
}

/// Fails where the user or the container may have no more threads.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop)
}
