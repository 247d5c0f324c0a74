//! Event queue of `top`: keys, samples, signals and pages of history. Each source has its own thread, so a hanging
//! driver does not block the keyboard.

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

/// Event of a session.
#[derive(Debug)]
pub(super) enum Event {
    Input(Input),
    /// Reading from the terminal has failed.
    InputFailed,
    Answer(Box<Result<Sample, DriverFault>>),
    Signal(i32),
    /// The last frame was written to the terminal.
    Drawn,
    /// A thread panicked; [`super::panics`] keeps the message.
    Panicked,
    /// Requested moments of the history.
    Recorded(Vec<Moment>),
    /// The last recorded minutes before this session.
    Past(Vec<Moment>),
    /// Start times of the current states from the history.
    Since(BTreeMap<GpuUuid, Since>),
}

/// Capacity of the queue; it is full only if the session does not read.
const MAX_WAITING: usize = 256;

pub(super) fn queue() -> (SyncSender<Event>, Receiver<Event>) {
    sync_channel(MAX_WAITING)
}

/// Takes a sample at every interval on a fixed schedule; missed samples are skipped.
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
                // While the program is stopped or the terminal is slow, old samples are dropped.
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
                Err(_) => Event::InputFailed,
            };
            let has_failed = matches!(event, Event::InputFailed);
            if events.send(event).is_err() || has_failed {
                return;
            }
        }
    })
}

pub(super) fn forward_signals(events: SyncSender<Event>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT])?;
    spawn("signals", move || {
        for signal in signals.forever() {
            if events.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    })
}

/// Starts a thread. Fails at the thread limit of the user or the container.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop)
}
