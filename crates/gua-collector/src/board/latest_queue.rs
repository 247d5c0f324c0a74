//! A bounded queue from the loop to the pushing thread that keeps the latest items. Adding never waits: when the queue is
//! full, the oldest item is dropped.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct LatestQueue<T> {
    inside: Mutex<Inside<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inside<T> {
    items: VecDeque<T>,
    capacity: usize,
    is_closed: bool,
    is_woken: bool,
}

/// Result of waiting for an item.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken<T> {
    Item(T),
    /// The time is over, or [`LatestQueue::wake`] was called.
    Nothing,
    /// The queue is closed and empty.
    Closed,
}

impl<T> LatestQueue<T> {
    /// Creates a queue for at most this many items, at least one.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            inside: Mutex::new(Inside {
                items: VecDeque::new(),
                capacity: capacity.max(1),
                is_closed: false,
                is_woken: false,
            }),
            changed: Condvar::new(),
        }
    }

    pub(super) fn put(&self, item: T) {
        let mut inside = self.lock();
        if inside.items.len() == inside.capacity {
            inside.items.pop_front();
        }
        inside.items.push_back(item);
        drop(inside);
        self.changed.notify_one();
    }

    /// Closes the queue; its items can still be taken.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Ends the current wait, or the next one, as if its time were over.
    pub(super) fn wake(&self) {
        self.lock().is_woken = true;
        self.changed.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Takes the oldest item; waits for one for at most this time, or without limit.
    pub(super) fn take(&self, wait: Option<Duration>) -> Taken<T> {
        let is_empty = |inside: &mut Inside<T>| {
            inside.items.is_empty() && !inside.is_closed && !inside.is_woken
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
        match inside.items.pop_front() {
            Some(item) => Taken::Item(item),
            None if inside.is_closed => Taken::Closed,
            None => Taken::Nothing,
        }
    }

    /// Ignores poisoning: every state of the queue is valid.
    fn lock(&self) -> MutexGuard<'_, Inside<T>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_item_is_dropped_when_the_queue_is_full() {
        let check = |capacity: usize, expected: &[u32]| {
            let queue = LatestQueue::new(capacity);
            assert_eq!(queue.take(Some(Duration::ZERO)), Taken::Nothing);
            (1..=3).for_each(|item| queue.put(item));
            queue.close();
            for item in expected {
                assert_eq!(queue.take(None), Taken::Item(*item));
            }
            assert_eq!(queue.take(None), Taken::Closed);
        };
        let queue = LatestQueue::<u32>::new(1);
        queue.wake();
        assert_eq!(queue.take(None), Taken::Nothing, "a wake is not missed");
        assert_eq!(queue.take(Some(Duration::ZERO)), Taken::Nothing);
        check(0, &[3]);
        check(1, &[3]);
        check(2, &[2, 3]);
        check(9, &[1, 2, 3]);
    }
}
