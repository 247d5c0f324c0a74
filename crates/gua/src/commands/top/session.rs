//! Session of `top` at a terminal, from setting up the screen to restoring it.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use gua_model::Sample;
use gua_probe::clock;
use gua_probe::fault::DriverFault;
use gua_probe::process::{ProcRoot, ancestry};
use gua_tui::{Action, Ancestor, App, Input, Rights, Screen, Setup};
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGCONT, SIGTSTP};

use super::events::{self, Event};
use super::{HostWatch, Record, Samples, signal};

/// Maximum wait for the first sample before the screen is set up: most drivers answer or fail immediately.
const MAX_FIRST_WAIT: Duration = Duration::from_millis(700);

const NO_THREAD: &str = "cannot start a thread";

pub(super) fn run(setup: Setup, samples: Samples, record: Option<Record>) -> anyhow::Result<()> {
    let (sender, events) = events::queue();
    events::forward_signals(sender.clone()).context("cannot wait for signals")?;
    events::sample(samples, setup.interval, sender.clone()).context(NO_THREAD)?;
    let is_simulated = setup.rights == Rights::Simulated;
    let ticks_per_second = setup.ticks_per_second;
    let app = App::new(setup, clock::now());
    let mut session = Session {
        app,
        record,
        ticks_per_second,
        host: (!is_simulated).then(HostWatch::new),
        sender,
        has_answered: false,
    };
    // A missing driver ends the session before anything is drawn.
    let mut early = Vec::new();
    let until = clock::monotonic() + MAX_FIRST_WAIT;
    while !session.has_answered {
        let left = until.saturating_sub(clock::monotonic());
        match events.recv_timeout(left) {
            Ok(event @ (Event::Answer(_) | Event::Signal(_))) => {
                if session.handle(event)? == Next::End {
                    return Ok(());
                }
            }
            Ok(event) => early.push(event),
            Err(_) => break,
        }
    }
    let panics = Panics::keep(session.sender.clone());
    let palette = session.app.setup.palette;
    let drawn = session.sender.clone();
    let on_written = move || {
        // If the queue is full, the session is awake and checks the terminal when it draws.
        let _ = drawn.try_send(Event::Drawn);
    };
    let mut screen = Screen::enter(palette, on_written).context("cannot take over the terminal")?;
    // A panic in this thread is handled like one in any other: the terminal is restored, then the message is printed.
    let ended = catch_unwind(AssertUnwindSafe(|| {
        events::listen(session.sender.clone()).context(NO_THREAD)?;
        for event in early {
            session.handle(event)?;
        }
        session.watch(&events, &mut screen, &panics)
    }));
    let given_back = screen.leave();
    if let Some(message) = panics.message() {
        anyhow::bail!("{message}");
    }
    // A panic was kept and has been reported by now.
    ended.unwrap_or(Ok(()))?;
    given_back.context("cannot restore the terminal")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Draw,
    /// Redraw everything, because other output was on the screen.
    Repaint,
    /// Set up the terminal again after an unexpected stop (SIGSTOP), during which the shell used it.
    Retake,
    /// Restore the terminal and stop the program.
    Stop,
    End,
}

struct Session {
    app: App,
    record: Option<Record>,
    ticks_per_second: u64,
    /// `None` for simulated GPUs, whose processes do not exist here.
    host: Option<HostWatch>,
    sender: SyncSender<Event>,
    has_answered: bool,
}

impl Session {
    fn watch(
        &mut self,
        events: &Receiver<Event>,
        screen: &mut Screen,
        panics: &Panics,
    ) -> anyhow::Result<()> {
        // Longer than the default interval, so that samples trigger redraws; without samples, the clock still advances.
        let pulse = Duration::from_millis(1200);
        // Whether the screen is out of date.
        let mut is_stale = true;
        loop {
            if is_stale {
                let is_drawn = screen.draw(&mut self.app, clock::now());
                is_stale = !is_drawn.context("cannot draw")?;
            }
            let first = match events.recv_timeout(pulse) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            // Redraw the clock.
            is_stale |= first.is_none();
            // All pending events are handled before one redraw.
            for event in first.into_iter().chain(events.try_iter()) {
                // A finished frame does not require another one, unless one was skipped.
                is_stale |= !matches!(event, Event::Drawn);
                match self.handle(event)? {
                    Next::Draw => {}
                    Next::Repaint => screen.forget().context("cannot draw")?,
                    Next::Retake => screen
                        .take()
                        .context("cannot take over the terminal again")?,
                    Next::Stop => stop(screen)?,
                    Next::End => return Ok(()),
                }
            }
            if panics.message().is_some() {
                return Ok(());
            }
        }
    }

    fn handle(&mut self, event: Event) -> anyhow::Result<Next> {
        match event {
            Event::Answer(answer) => match *answer {
                Ok(sample) => {
                    if !std::mem::replace(&mut self.has_answered, true) {
                        self.ask_history(&sample)?;
                    }
                    self.app.take_sample(sample);
                    if let Some(host) = &mut self.host {
                        let processes = self.app.newest_processes();
                        self.app.take_surroundings(host.read(&processes));
                    }
                    self.look_up();
                }
                // A driver that has never answered and returns an error is unusable; one that hangs may recover.
                Err(fault) if !self.has_answered && !is_silence(&fault) => return Err(fault.into()),
                Err(fault) => self.app.take_fault(fault.to_string(), clock::now()),
            },
            Event::Input(Input::Key(key)) => {
                if let Some(action) = self.app.key(key) {
                    return self.perform(action);
                }
                self.look_up();
            }
            Event::Input(Input::Resized) => {}
            Event::InputFailed => return Ok(Next::End),
            Event::Signal(SIGTSTP) => return Ok(Next::Stop),
            Event::Signal(SIGCONT) => return Ok(Next::Retake),
            Event::Signal(_) => return Ok(Next::End),
            Event::Drawn | Event::Panicked => {}
            Event::Recorded(moments) => self.app.take_recorded(moments),
            Event::Since(since) => self.app.take_since(&since),
            Event::Past(moments) => self.app.take_past(moments),
        }
        Ok(Next::Draw)
    }

    /// Requests what the history knows of the time before this session: the last minutes for the curves, and the start
    /// times of the current states.
    fn ask_history(&self, sample: &Sample) -> anyhow::Result<()> {
        if let Some(record) = self.record.clone() {
            let (past, before) = (record.clone(), sample.at);
            self.later("past", move || Event::Past(past.page_before(before)))?;
            let (sample, ticks_per_second) = (sample.clone(), self.ticks_per_second);
            let since = move || Event::Since(record.since(&sample, ticks_per_second));
            self.later("history", since)?;
        }
        Ok(())
    }

    /// Runs work on a thread that ends with an event.
    fn later(
        &self,
        name: &str,
        work: impl FnOnce() -> Event + Send + 'static,
    ) -> anyhow::Result<()> {
        let events = self.sender.clone();
        let work = move || {
            // The session may have ended.
            let _ = events.send(work());
        };
        events::spawn(name, work).context(NO_THREAD)
    }

    fn perform(&mut self, action: Action) -> anyhow::Result<Next> {
        match action {
            Action::Quit => return Ok(Next::End),
            Action::Suspend => return Ok(Next::Stop),
            Action::Repaint => return Ok(Next::Repaint),
            Action::LoadBefore(before) => {
                if let Some(record) = self.record.clone() {
                    self.later("history", move || {
                        Event::Recorded(record.page_before(before))
                    })?;
                }
            }
            Action::Signal { process, signal } => {
                let (me, log) = match self.app.setup.rights {
                    Rights::Own(me) => (me, None),
                    Rights::Admin(me) => (me, Some(Path::new(signal::LOG))),
                    Rights::ReadOnly | Rights::Simulated => return Ok(Next::Draw),
                };
                match signal::send(process, signal, me, log) {
                    Ok(message) => self.app.notify(message),
                    Err(refused) => self.app.warn(refused),
                }
            }
        }
        Ok(Next::Draw)
    }

    /// Updates the parents of the processes, if they are displayed.
    fn look_up(&mut self) {
        if self.app.wants_lineage() {
            let found = ancestry(&ProcRoot::default(), &self.app.holders());
            let lineage = found.into_iter().map(|(pid, ancestor)| {
                let gua_probe::process::Ancestor { parent, name } = ancestor;
                (pid, Ancestor { parent, name })
            });
            self.app.take_lineage(lineage.collect());
        }
    }
}

/// Stops the process for the shell's job control, and resumes when it is continued.
fn stop(screen: &mut Screen) -> anyhow::Result<()> {
    screen.leave().context("cannot restore the terminal")?;
    // This is the main thread, so it stops before the call returns.
    kill_process(getpid(), Signal::STOP).context("cannot stop")?;
    screen.take().context("cannot take over the terminal again")
}

fn is_silence(fault: &DriverFault) -> bool {
    match fault {
        DriverFault::Hung { .. } => true,
        DriverFault::BackingOff { last, .. } => is_silence(last),
        _ => false,
    }
}

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Sync + Send + 'static>;

/// Panic hook that keeps the message of a panic of any thread; removed on drop.
struct Panics {
    message: Arc<Mutex<Option<String>>>,
    before: Option<Hook>,
}

impl Panics {
    /// Installs the hook. It keeps the message and sends an event to the session.
    fn keep(events: SyncSender<Event>) -> Self {
        let message = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&message);
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            let text = panic_message(what);
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            // The first panic is the cause; later ones are consequences.
            kept.get_or_insert(text);
            drop(kept);
            // If the queue is full, the session is awake and checks for panics before it draws again.
            let _ = events.try_send(Event::Panicked);
        }));
        Self {
            message,
            before: Some(before),
        }
    }

    /// Message of the first panic, if any.
    fn message(&self) -> Option<String> {
        let message = self.message.lock().unwrap_or_else(PoisonError::into_inner);
        message.clone()
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        // A panicking thread may not set a hook. The program ends then, so the previous hook is not needed.
        if let Some(before) = self.before.take()
            && !thread::panicking()
        {
            panic::set_hook(before);
        }
    }
}

/// Formats the message like the standard hook.
fn panic_message(what: &PanicHookInfo<'_>) -> String {
    let thread = thread::current();
    let name = thread.name().unwrap_or("without a name");
    let place = what
        .location()
        .map_or_else(String::new, |place| format!(" at {place}"));
    let message = what.payload_as_str().unwrap_or("no message");
    let trace = Backtrace::capture();
    let trace = match trace.status() {
        BacktraceStatus::Captured => format!("\n{trace}"),
        _ => String::new(),
    };
    format!("thread {name} panicked{place}: {message}{trace}")
}
