//! Reading from a terminal without echo. The echo is restored however the command ends, also after a signal.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Disables the echo of the terminal while it exists.
///
/// Holds the terminal's original modes while the echo is off.
pub(super) struct EchoGuard(Arc<Mutex<Option<Termios>>>);

impl EchoGuard {
    pub(super) fn new() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let state = Arc::new(Mutex::new(Some(before.clone())));
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP])?;
        let guard = Self(Arc::clone(&state));
        hide(&before)?;
        // The thread runs until the command ends: a signal with a handler has no default effect any more.
        thread::spawn(move || {
            for signal in signals.forever() {
                let state = state.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(before) = &*state {
                    show(before);
                }
                // Ends the process, or returns after a stop and continue.
                let _ = emulate_default_handler(signal);
                if let Some(before) = &*state {
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
        if let Some(before) = state.take() {
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
