//! The hand-over from the loop to the thread that speaks to the board. Putting something in never waits: what does not fit
//! pushes out the oldest.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct LatestSlot<T> {
    inside: Mutex<Inside<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inside<T> {
    letters: VecDeque<T>,
    room: usize,
    is_closed: bool,
    is_woken: bool,
}

/// What a wait at the slot came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken<T> {
    Push(T),
    /// Nothing came in time, or there is news elsewhere.
    Nothing,
    /// Nothing will come any more.
    Closed,
}

impl<T> LatestSlot<T> {
    /// A slot with room for this many; with room for one it holds the latest.
    pub(super) fn new(room: usize) -> Self {
        Self {
            inside: Mutex::new(Inside {
                letters: VecDeque::new(),
                room: room.max(1),
                is_closed: false,
                is_woken: false,
            }),
            changed: Condvar::new(),
        }
    }

    pub(super) fn put(&self, letter: T) {
        let mut inside = self.lock();
        if inside.letters.len() == inside.room {
            inside.letters.pop_front();
        }
        inside.letters.push_back(letter);
        drop(inside);
        self.changed.notify_one();
    }

    /// What is in it stays; nothing more is awaited.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Ends a wait, the running one or the next, as if its time were over.
    pub(super) fn wake(&self) {
        self.lock().is_woken = true;
        self.changed.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Takes the oldest letter; waits for one as long as it may, or for good.
    pub(super) fn take(&self, wait: Option<Duration>) -> Taken<T> {
        let is_empty = |inside: &mut Inside<T>| {
            inside.letters.is_empty() && !inside.is_closed && !inside.is_woken
        };
        let inside = self.lock();
        let mut inside = match wait {
            None => self
                .changed
                .wait_while(inside, is_empty)
                .unwrap_or_else(PoisonError::into_inner),
            Some(wait) => {
                let waited = self.changed.wait_timeout_while(inside, wait, is_empty);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        inside.is_woken = false;
        match inside.letters.pop_front() {
            Some(letter) => Taken::Push(letter),
            None if inside.is_closed => Taken::Closed,
            None => Taken::Nothing,
        }
    }

    /// A thread that panicked while it held the lock left a queue that is still a queue.
    fn lock(&self) -> MutexGuard<'_, Inside<T>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_when_there_is_no_room() {
        let check = |room: usize, expected: &[u32]| {
            let slot = LatestSlot::new(room);
            assert_eq!(slot.take(Some(Duration::ZERO)), Taken::Nothing);
            (1..=3).for_each(|letter| slot.put(letter));
            slot.close();
            for letter in expected {
                assert_eq!(slot.take(None), Taken::Push(*letter));
            }
            assert_eq!(slot.take(None), Taken::Closed);
        };
        let slot = LatestSlot::<u32>::new(1);
        slot.wake();
        assert_eq!(slot.take(None), Taken::Nothing, "a wake is not missed");
        assert_eq!(slot.take(Some(Duration::ZERO)), Taken::Nothing);
        check(0, &[3]);
        check(1, &[3]);
        check(2, &[2, 3]);
        check(9, &[1, 2, 3]);
    }
}
