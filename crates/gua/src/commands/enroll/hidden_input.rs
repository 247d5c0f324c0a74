//! Reads a line from a terminal without echo. The echo is restored however the command ends, also after a signal.

use std::io::{self, BufRead as _, Read as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::output;

/// Reads one line of standard input, which is a terminal, after the prompt.
pub(super) fn read_line(prompt: &str, longest: u64) -> io::Result<String> {
    let guard = EchoGuard::new()?;
    output::eprint(prompt);
    let mut line = String::new();
    let read = io::stdin().lock().take(longest).read_line(&mut line);
    drop(guard);
    read.map(|_| line)
}

/// Disables the echo of the terminal while it exists.
struct EchoGuard(Arc<Mutex<State>>);

/// The terminal's original modes while the echo is off.
struct State {
    before: Option<Termios>,
}

impl EchoGuard {
    fn new() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let state = Arc::new(Mutex::new(State {
            before: Some(before.clone()),
        }));
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP])?;
        let guard = Self(Arc::clone(&state));
        hide(&before)?;
        // The thread runs until the command ends: a signal with a handler has no default effect any more.
        thread::spawn(move || {
            for signal in signals.forever() {
                let state = state.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(before) = &state.before {
                    show(before);
                }
                // Ends the process, or returns after a stop and continue.
                let _ = emulate_default_handler(signal);
                if let Some(before) = &state.before {
                    let _ = hide(before);
                }
            }
        });
        Ok(guard)
    }
}

impl Drop for EchoGuard {
    fn drop(&mut self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = state.before.take() {
            show(&before);
        }
    }
}

/// Disables the echo, except for the line break.
fn hide(before: &Termios) -> io::Result<()> {
    let mut hidden = before.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    hidden.local_modes.insert(LocalModes::ECHONL);
    Ok(tcsetattr(stdin(), OptionalActions::Drain, &hidden)?)
}

fn show(before: &Termios) {
    // Not `Drain`: a stopped terminal must not prevent the end of the command.
    let _ = tcsetattr(stdin(), OptionalActions::Now, before);
}
