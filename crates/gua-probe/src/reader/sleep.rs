//! One poll for all events that a program with a reader waits for: its own descriptors, the child's answer and standard
//! error, and a time.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Waiting;
use crate::clock;

/// Events that ended a sleep; nothing is set on a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken<const N: usize> {
    /// Whether each descriptor is readable, in their order.
    pub others: [bool; N],
    /// The child has answered or died.
    pub answer: bool,
    /// The child has written to standard error: call [`super::Reader::read_errors`].
    pub errors: bool,
}

/// Sleeps until one of the descriptors is readable, the child writes, or this time on the monotonic clock has come.
pub fn sleep<const N: usize>(
    others: [BorrowedFd<'_>; N],
    waiting: Option<&Waiting<'_>>,
    until: Duration,
) -> rustix::io::Result<Woken<N>> {
    let errors = waiting.and_then(|waiting| waiting.errors);
    let child = waiting.map(|waiting| waiting.answers);
    let mut inputs: Vec<PollFd<'_>> = others
        .into_iter()
        .chain(child)
        .chain(errors)
        .map(|input| PollFd::from_borrowed_fd(input, PollFlags::IN))
        .collect();
    let left = until.saturating_sub(clock::monotonic());
    poll(&mut inputs, Timespec::try_from(left).ok().as_ref())?;
    let mut ready = inputs.iter().map(|input| !input.revents().is_empty());
    let mut next = || ready.next().unwrap_or(false);
    Ok(Woken {
        others: std::array::from_fn(|_| next()),
        answer: next(),
        errors: next(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn readable_descriptors_are_reported_and_the_time_ends_a_sleep() {
        let pair = || UnixStream::pair().unwrap();
        let [
            (one, mut says_one),
            (two, _quiet),
            (answers, mut answer),
            (errors, mut error),
        ] = [pair(), pair(), pair(), pair()];
        let waiting = Waiting {
            answers: answers.as_fd(),
            errors: Some(errors.as_fd()),
            until: Duration::MAX,
        };
        let woken = |until: Duration| sleep([one.as_fd(), two.as_fd()], Some(&waiting), until);
        let none = Woken {
            others: [false; 2],
            answer: false,
            errors: false,
        };
        assert_eq!(woken(clock::monotonic()).unwrap(), none);
        says_one.write_all(b"x").unwrap();
        error.write_all(b"x").unwrap();
        let written = Woken {
            others: [true, false],
            errors: true,
            ..none
        };
        assert_eq!(woken(Duration::MAX).unwrap(), written);
        answer.write_all(b"x").unwrap();
        let all = Woken {
            answer: true,
            ..written
        };
        assert_eq!(woken(Duration::MAX).unwrap(), all);
        assert!(sleep([one.as_fd()], None, Duration::MAX).unwrap().others[0]);
    }
}
