//! The shared directory: which one, whether it can be trusted, and the lock on it.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_model::Uid;
use gua_model::subuid::SubUids;
use rustix::fs::{FileType, Mode, OFlags, RawMode, fstat};
use rustix::io::Errno;

use crate::error::{ClaimError, OpenError};

/// Candidates for the shared directory, in order; the first one that everyone can write is used.
///
/// `/run/gua` is created by an administrator (a tmpfiles.d line). `/run/lock` is writable for all on Debian and Ubuntu,
/// not on Fedora and RHEL. `/dev/shm` is writable for all nearly everywhere, because POSIX shared memory needs it. All
/// of them are emptied at boot. `/tmp` is last: services and some logins have a private one.
pub const USUAL_PLACES: [&str; 4] = ["/run/gua", "/run/lock", "/dev/shm", "/tmp"];

/// Maximum time to wait for the lock. It is normally held for milliseconds, so a timeout means that a process keeps
/// holding it.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

const EVERYONE_WRITES: RawMode = 0o1002;
const OTHERS_WRITE: RawMode = 0o022;

/// The directory that the users of this host share.
#[derive(Debug)]
pub struct ClaimDir {
    path: PathBuf,
    directory: OwnedFd,
    me: Uid,
    subuids: SubUids,
}

/// The lock, until it is dropped or its process ends.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "the open file is the lock")] File);

impl ClaimDir {
    /// Opens the named directory, if only root and the caller could remove other users' files in it.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let named = || path.to_owned();
        let fail = |source| match source {
            Errno::LOOP | Errno::NOTDIR => OpenError::NoDirectory { path: named() },
            source => OpenError::Open {
                path: named(),
                source,
            },
        };
        let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(fail)?;
        // Checks the opened file, not the path, which may refer to something else by now.
        let facts = fstat(&directory).map_err(fail)?;
        let me = Uid(rustix::process::geteuid().as_raw());
        let owner = Uid(facts.st_uid);
        if owner != Uid::ROOT && owner != me {
            return Err(OpenError::Foreign {
                path: named(),
                owner,
            });
        }
        let is_sticky = Mode::from_raw_mode(facts.st_mode).contains(Mode::SVTX);
        if facts.st_mode & OTHERS_WRITE != 0 && !is_sticky {
            return Err(OpenError::NotSticky { path: named() });
        }
        Ok(Self {
            path: named(),
            directory,
            me,
            subuids: SubUids::default(),
        })
    }

    /// Applies limits to persons, whichever of their subordinate uids own the files.
    #[must_use]
    pub fn with_subuids(self, subuids: SubUids) -> Self {
        Self { subuids, ..self }
    }

    /// Returns the person to whom the files of a user belong.
    pub fn person(&self, owner: Uid) -> Uid {
        self.subuids.person(owner)
    }

    /// Opens the first of the directories that root owns and everyone can write. The check gives the same result for
    /// every user, so all users find the same directory.
    pub fn find<P: AsRef<Path>>(places: &[P]) -> Result<Self, OpenError> {
        for place in places {
            let Ok(found) = Self::open(place.as_ref()) else {
                continue;
            };
            let for_all = fstat(&found.directory).is_ok_and(|facts| {
                facts.st_uid == Uid::ROOT.0 && facts.st_mode & EVERYONE_WRITES == EVERYONE_WRITES
            });
            if for_all {
                return Ok(found);
            }
        }
        Err(OpenError::NoPlace {
            tried: places
                .iter()
                .map(|place| place.as_ref().to_owned())
                .collect(),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The user on whose behalf this process acts.
    pub fn me(&self) -> Uid {
        self.me
    }

    pub(crate) fn handle(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Acquires the lock, waiting for at most `LOCK_WAIT`.
    pub(crate) fn lock(&self) -> Result<Lock, ClaimError> {
        let fail = |source| self.cannot("lock the claims directory", source);
        // A lock belongs to the open file description and not to the process: each caller opens its own, so threads
        // exclude each other too.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, c".", flags, Mode::empty()).map_err(fail)?;
        let file = File::from(file);
        let mut waited = Duration::ZERO;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Lock(file)),
                Err(TryLockError::Error(error)) if error.kind() != ErrorKind::Interrupted => {
                    return Err(fail(Errno::from_io_error(&error).unwrap_or(Errno::IO)));
                }
                Err(_) if waited < LOCK_WAIT => {
                    std::thread::sleep(LOCK_PAUSE);
                    waited += LOCK_PAUSE;
                }
                Err(_) => {
                    return Err(ClaimError::Busy {
                        path: self.path.clone(),
                        waited,
                    });
                }
            }
        }
    }
}

/// Whether only the owner may write to a directory with this mode.
pub(crate) fn only_owner_writes(mode: RawMode) -> bool {
    FileType::from_raw_mode(mode) == FileType::Directory && mode & OTHERS_WRITE == 0
}
