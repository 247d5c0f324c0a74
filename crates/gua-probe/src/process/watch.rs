//! Detects which of the watched processes have ended, with one call whose cost does not grow with their number.

use std::cell::{Cell, OnceCell};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

/// All watched processes.
#[derive(Default)]
pub(super) struct Watch {
    epoll: OnceCell<OwnedFd>,
    /// Number of processes that were ever added; each is identified by its number.
    added: Cell<u64>,
}

/// A process that is watched until this is dropped: the kernel removes a closed file from the set.
pub(super) struct Watched {
    number: u64,
    /// Becomes readable when the process ends (pidfd_open(2)).
    _process: OwnedFd,
}

/// Processes that have ended and were not dropped yet, or unknown.
pub(super) enum Ended {
    These(Vec<u64>),
    Unknown,
}

impl Ended {
    pub(super) fn has(&self, process: &Watched) -> bool {
        match self {
            Self::These(numbers) => numbers.contains(&process.number),
            Self::Unknown => true,
        }
    }

    #[cfg(test)]
    fn is_nobody(&self) -> bool {
        matches!(self, Self::These(numbers) if numbers.is_empty())
    }
}

impl Watch {
    pub(super) fn add(&self, process: OwnedFd) -> Result<Watched, Errno> {
        let epoll = match self.epoll.get() {
            Some(epoll) => epoll,
            None => {
                let fresh = epoll::create(CreateFlags::CLOEXEC)?;
                self.epoll.get_or_init(|| fresh)
            }
        };
        let number = self.added.get();
        epoll::add(
            epoll,
            process.as_fd(),
            EventData::new_u64(number),
            EventFlags::IN,
        )?;
        self.added.set(number + 1);
        Ok(Watched {
            number,
            _process: process,
        })
    }

    pub(super) fn ended(&self) -> Ended {
        /// Maximum number of ended processes per call; with more, all are checked.
        const AT_ONCE: usize = 16;
        let Some(epoll) = self.epoll.get() else {
            return Ended::These(Vec::new());
        };
        let nothing = Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        };
        let mut room = [nothing; AT_ONCE];
        match epoll::wait(epoll, &mut room[..], Some(&Timespec::default())) {
            Ok(AT_ONCE) | Err(_) => Ended::Unknown,
            Ok(count) => Ended::These(room[..count].iter().map(|event| event.data.u64()).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::*;

    fn waits_for_its_input() -> Child {
        Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn those_that_ended_are_told_until_they_are_dropped() {
        let watch = Watch::default();
        assert!(watch.ended().is_nobody());
        let (one, other) = (waits_for_its_input(), waits_for_its_input());
        let watched = |child: &Child| {
            let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).unwrap();
            watch.add(process).unwrap()
        };
        let (first, second) = (watched(&one), watched(&other));
        assert!(watch.ended().is_nobody());
        end(one);
        for _ in 0..2 {
            let ended = watch.ended();
            assert!(ended.has(&first) && !ended.has(&second));
        }
        drop(first);
        assert!(watch.ended().is_nobody());
        end(other);
        assert!(watch.ended().has(&second));
    }

    #[test]
    fn too_many_to_tell_are_all_looked_at() {
        let watch = Watch::default();
        let watched: Vec<Watched> = (0..20)
            .map(|_| {
                let child = waits_for_its_input();
                let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
                let watched = watch.add(process).unwrap();
                end(child);
                watched
            })
            .collect();
        let ended = watch.ended();
        assert!(watched.iter().all(|one| ended.has(one)));
    }
}
