//! Synchronises readers of different days, so that they pass on their rows in the order of the days.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The current turn, from the first day on.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Day whose turn it is.
    next: usize,
    is_over: bool,
}

impl Turns {
    /// Waits for the turn of a day; returns false if it never comes because a reader has failed.
    pub(crate) fn wait_for(&self, day: usize) -> bool {
        let not_yet = |state: &mut State| state.next < day && !state.is_over;
        let state = self.changed.wait_while(self.state(), not_yet);
        !state.unwrap_or_else(PoisonError::into_inner).is_over
    }

    /// Ends the turn of a day.
    pub(crate) fn pass(&self, day: usize) {
        self.state().next = day + 1;
        self.changed.notify_all();
    }

    /// Ends all waits after a reader has failed.
    pub(crate) fn give_up(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
