//! Waiting in the queue: the pause between two samples, the timeout, signals, and the status line.

use std::io::IsTerminal as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use gua_claim::{Request, Short};
use gua_model::text::short_age;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;

use super::super::Query;
use crate::commands::prelude::*;

/// Maximum delay of a signal while the driver does not answer.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// Next step after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Again,
    TimeIsUp,
    Signal(i32),
}

/// The timeout of a wait in the queue, signals that end it, and its status line.
pub(super) struct Patience {
    /// Beginning on the monotonic clock.
    began: Duration,
    longest: Option<Duration>,
    pub(super) line: Line,
    signals: Receiver<i32>,
    handle: Handle,
}

impl Patience {
    pub(super) fn new(query: &Query<'_>, longest: Option<Duration>) -> anyhow::Result<Self> {
        let mut handled =
            Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot wait for signals")?;
        let handle = handled.handle();
        let (sender, signals) = channel();
        thread::spawn(move || {
            for signal in handled.forever() {
                let is_received = sender.send(signal).is_ok();
                if is_received {
                    // Time to leave the queue, unless the driver blocks.
                    thread::sleep(LAST_MOMENT);
                }
                let _ = emulate_default_handler(signal);
            }
        });
        Ok(Self {
            began: clock::monotonic(),
            longest,
            line: Line::new(query),
            signals,
            handle,
        })
    }

    /// Time since the beginning.
    pub(super) fn waited(&self) -> Duration {
        clock::monotonic().saturating_sub(self.began)
    }

    /// Stops handling signals when it is closed. Until then a signal ends the process.
    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    pub(super) fn pause(&mut self, usual: Duration) -> Next {
        let waited = self.waited();
        let left = self.longest.map(|longest| longest.saturating_sub(waited));
        if left.is_some_and(|left| left.is_zero()) {
            return Next::TimeIsUp;
        }
        let pause = left.map_or(usual, |left| left.min(usual));
        match self.signals.recv_timeout(pause) {
            Ok(signal) => Next::Signal(signal),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Next::Again,
        }
    }
}

/// Ends the process by the signal's default action, so that a shell sees what happened.
pub(super) fn end_by(signal: i32) -> ExitCode {
    let _ = emulate_default_handler(signal);
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))
}

/// Status line on stderr: overwritten on a terminal, printed once elsewhere.
pub(super) struct Line {
    prefix: &'static str,
    is_terminal: bool,
    is_quiet: bool,
    is_shown: bool,
    /// A driver that stopped answering, or a lock that is held, is reported once, until a request is answered again.
    in_trouble: bool,
}

impl Line {
    fn new(query: &Query<'_>) -> Self {
        Self {
            prefix: query.prefix,
            is_terminal: std::io::stderr().is_terminal(),
            is_quiet: query.args.quiet,
            is_shown: false,
            in_trouble: false,
        }
    }

    pub(super) fn show(&mut self, request: &Request, short: &Short, waited: Duration) {
        if self.is_quiet || (self.is_shown && !self.is_terminal) {
            return;
        }
        self.is_shown = true;
        let text = format!("{}: {}", self.prefix, waiting(request, short));
        output::eprint(&match self.is_terminal {
            true => format!("\r\x1b[K{text}, {} so far", short_age(waited)),
            false => format!("{text}\n"),
        });
    }

    pub(super) fn trouble(&mut self, error: &dyn std::error::Error) {
        if !self.is_quiet && !self.in_trouble {
            self.in_trouble = true;
            self.clear();
            let message = chain(error);
            let prefix = self.prefix;
            output::eprint(&format!("{prefix}: {message}; still waiting\n"));
        }
    }

    pub(super) fn trouble_is_over(&mut self) {
        self.in_trouble = false;
    }

    pub(super) fn clear(&mut self) {
        if self.is_shown && self.is_terminal {
            output::eprint("\r\x1b[K");
        }
    }
}

fn waiting(request: &Request, short: &Short) -> String {
    let gpus = counted(request.at_least as u64, "GPU");
    let mut text = format!("waiting for {gpus}");
    if !short.left.is_empty() {
        text.push_str(&format!(", {} available now", short.left.len()));
    }
    if !short.ahead.is_empty() {
        text.push_str(&format!(", {} ahead in the queue", short.ahead.len()));
    }
    text
}
