//! One session at a terminal, from taking it over to giving it back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
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
use super::panics::Panics;
use super::record::Record;
use super::{Samples, signal};

/// How long to wait for a first answer before the screen is taken: most drivers answer at once, or refuse.
const FIRST_LOOK: Duration = Duration::from_millis(700);

const NO_THREAD: &str = "cannot start a thread";

pub(super) fn run(
    setup: Setup,
    samples: Samples,
    record: Option<Record>,
) -> anyhow::Result<ExitCode> {
    let (sender, events) = events::queue();
    events::heed_signals(sender.clone()).context("cannot wait for signals")?;
    events::sample(samples, setup.interval, sender.clone()).context(NO_THREAD)?;
    let app = App::new(setup, clock::now());
    let mut session = Session {
        app,
        record,
        sender,
        has_answered: false,
    };
    // A driver that is not there ends it before anything is drawn.
    let mut early = Vec::new();
    let until = clock::monotonic() + FIRST_LOOK;
    while !session.has_answered {
        let left = until.saturating_sub(clock::monotonic());
        match events.recv_timeout(left) {
            Ok(event @ (Event::Answer(_) | Event::Signal(_))) => {
                if session.heed(event)? == Next::End {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            Ok(event) => early.push(event),
            Err(_) => break,
        }
    }
    let panics = Panics::keep(session.sender.clone());
    let palette = session.app_palette();
    let drawn = session.sender.clone();
    let on_written = move || {
        // With a full queue the session is awake, and looks at the line when it draws.
        let _ = drawn.try_send(Event::Drawn);
    };
    let mut screen = Screen::enter(palette, on_written).context("cannot take over the terminal")?;
    // A panic in this thread ends as one in any other: with the terminal given back, and then told.
    let ended = catch_unwind(AssertUnwindSafe(|| {
        events::listen(session.sender.clone()).context(NO_THREAD)?;
        for event in early {
            session.heed(event)?;
        }
        session.watch(&events, &mut screen, &panics)
    }));
    let given_back = screen.leave();
    if let Some(said) = panics.said() {
        anyhow::bail!("{said}");
    }
    // A panic was kept, and told by now.
    ended.unwrap_or(Ok(()))?;
    given_back.context("cannot give the terminal back")?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Draw,
    /// Everything, since something else was on the screen.
    Repaint,
    /// After a stop that could not be seen coming (SIGSTOP): the shell has had the terminal meanwhile.
    Retake,
    /// The terminal is to be given back, and the program to be stopped.
    Stop,
    End,
}

struct Session {
    app: App,
    record: Option<Record>,
    sender: SyncSender<Event>,
    has_answered: bool,
}

impl Session {
    fn app_palette(&self) -> gua_tui::Palette {
        self.app.palette()
    }

    fn watch(
        &mut self,
        events: &Receiver<Event>,
        screen: &mut Screen,
        panics: &Panics,
    ) -> anyhow::Result<()> {
        // Longer than an interval, so that a healthy driver sets the pace, and the clock goes on without one.
        let pulse = Duration::from_millis(1200);
        // What is on the screen is older than what is known.
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
            // The clock goes on.
            is_stale |= first.is_none();
            // What waits is taken together and drawn once.
            for event in first.into_iter().chain(events.try_iter()) {
                // That a picture has arrived is no reason for another, unless one was left out.
                is_stale |= !matches!(event, Event::Drawn);
                match self.heed(event)? {
                    Next::Draw => {}
                    Next::Repaint => screen.forget().context("cannot draw")?,
                    Next::Retake => screen.take().context("cannot take the terminal again")?,
                    Next::Stop => stop(screen)?,
                    Next::End => return Ok(()),
                }
            }
            if panics.said().is_some() {
                return Ok(());
            }
        }
    }

    fn heed(&mut self, event: Event) -> anyhow::Result<Next> {
        match event {
            Event::Answer(answer) => match *answer {
                Ok(sample) => {
                    if !std::mem::replace(&mut self.has_answered, true) {
                        self.ask_since_when(&sample)?;
                    }
                    self.app.take_sample(sample);
                    self.look_up();
                }
                // A driver that never answered and says why is not there; one that hangs may come back.
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
            Event::Deaf => return Ok(Next::End),
            Event::Signal(SIGTSTP) => return Ok(Next::Stop),
            Event::Signal(SIGCONT) => return Ok(Next::Retake),
            Event::Signal(_) => return Ok(Next::End),
            Event::Drawn | Event::Panicked => {}
            Event::Recorded(moments) => self.app.take_recorded(moments),
            Event::Since(since) => self.app.take_since(&since),
        }
        Ok(Next::Draw)
    }

    /// What began before this run is in the history, if anywhere.
    fn ask_since_when(&self, sample: &Sample) -> anyhow::Result<()> {
        if let Some(record) = self.record.clone() {
            let sample = sample.clone();
            events::later("history", &self.sender, move || {
                Some(Event::Since(record.since(&sample)))
            })
            .context(NO_THREAD)?;
        }
        Ok(())
    }

    fn perform(&mut self, action: Action) -> anyhow::Result<Next> {
        match action {
            Action::Quit => return Ok(Next::End),
            Action::Suspend => return Ok(Next::Stop),
            Action::Repaint => return Ok(Next::Repaint),
            Action::LoadBefore(before) => {
                if let Some(record) = self.record.clone() {
                    events::later("history", &self.sender, move || {
                        Some(Event::Recorded(record.page_before(before)))
                    })
                    .context(NO_THREAD)?;
                }
            }
            Action::Signal { process, signal } => {
                if let Rights::Own(me) = self.app.rights() {
                    match signal::send(process, signal, me) {
                        Ok(told) => self.app.notify(told),
                        Err(refused) => self.app.warn(refused),
                    }
                }
            }
        }
        Ok(Next::Draw)
    }

    /// Who started whom, where that is shown.
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

/// Stops as the shell's job control expects it, and goes on where it was when it is continued.
fn stop(screen: &mut Screen) -> anyhow::Result<()> {
    screen.leave().context("cannot give the terminal back")?;
    // This thread is the process's first, so it stops before it returns from here.
    kill_process(getpid(), Signal::STOP).context("cannot stop")?;
    screen.take().context("cannot take the terminal again")
}

fn is_silence(fault: &DriverFault) -> bool {
    match fault {
        DriverFault::Hung { .. } => true,
        DriverFault::BackingOff { last, .. } => is_silence(last),
        _ => false,
    }
}
