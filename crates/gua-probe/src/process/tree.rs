//! Reads the files of `/proc` for the requested processes and no others. Never a command line, never an environment.

use std::cell::OnceCell;
use std::ffi::CStr;
use std::rc::Rc;

use gua_model::DriverPids;
use gua_model::id::{BootId, Pid, Uid};
use gua_model::reading::{Missing, Reading};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{self, Resource};

use super::ProcRoot;
use super::parse;
use crate::host::namespace::{PidLookup, PidNamespace, parse_pid_namespace, pid_lookup};

/// The initial user namespace always has this inode (`PROC_USER_INIT_INO` in `linux/proc_ns.h`).
const HOST_USERS: &[u8] = b"user:[4026531837]";

/// Uid that the kernel shows inside another user namespace for users that are unknown there (`overflowuid`).
const UNMAPPED: Uid = Uid(65534);

/// Initial buffer size; enough for a stat line, and for the other files of nearly every process.
const PAGE: usize = 4096;

/// Maximum size of a file; none is longer on a healthy host.
const MAX_BYTES: usize = 1 << 20;

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);

/// Maximum number of attempts if a process ends and its pid is reused while it is read.
const ATTEMPTS: usize = 3;

/// A process at the time when it was read.
pub(super) struct Seen {
    pub(super) mark: Mark,
    /// Name of its mark, safe to display.
    pub(super) comm: Reading<String>,
    pub(super) login: Reading<Option<Uid>>,
    /// Audit session of the login; `None` if it has none.
    pub(super) session: Option<u32>,
    pub(super) own: Reading<Uid>,
    pub(super) cgroup: parse::CgroupFacts,
    kept: Option<Kept>,
}

/// Open files of a process. They refer to this process only, even if its PID was reused, and cannot be read once it has
/// ended and was reaped. Reading them again avoids the lookup by name, which is most of the cost.
struct Kept {
    directory: OwnedFd,
    comm: OwnedFd,
    status: OwnedFd,
    /// Counts the open files.
    _one_of: Rc<()>,
}

/// Maximum number of processes with open files. Each has three; a process may have 1024 files open by default, and the
/// driver needs some of them.
const MAX_KEPT: usize = 200;

fn most_kept() -> usize {
    let limit = process::getrlimit(Resource::Nofile)
        .current
        .unwrap_or(u64::MAX);
    let spare = usize::try_from(limit)
        .unwrap_or(usize::MAX)
        .saturating_sub(64);
    MAX_KEPT.min(spare / 9)
}

/// Properties that change if a pid is reused (the start), if a process executes another program (the name) and if it
/// changes its user. The owner of the directory shows a change by a set-uid program; it does not show every change by
/// setuid(2), after which it is root's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) start: u64,
    pub(super) comm: Vec<u8>,
    directory_owner: Uid,
    own: Reading<Uid>,
    can_change_user: bool,
}

impl Mark {
    fn read(process: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> Result<Self, Loss> {
        let directory_owner = Uid(rustix::fs::fstat(process)?.st_uid);
        let line = read(process, c"stat", buffer)?;
        let (comm, stat) = parse::stat(line).ok_or(Loss::Missing(Missing::Failed))?;
        let (comm, start) = (comm.to_vec(), stat.start);
        let uids = match read(process, c"status", buffer) {
            Ok(text) => parse::status_uids(text).ok_or(Missing::Failed),
            Err(Errno::SRCH) => return Err(Loss::Vanished),
            Err(_) => Err(Missing::Denied),
        };
        Ok(Self {
            start,
            comm,
            directory_owner,
            own: match uids {
                Ok(uids) => Ok(Uid(uids.effective)),
                // The directory belongs to the effective user, unless the process is not dumpable: then it can be root's.
                Err(Missing::Denied) if directory_owner != Uid::ROOT => Ok(directory_owner),
                Err(why) => Err(why),
            },
            can_change_user: uids.is_ok_and(|uids| uids.can_change),
        })
    }
}

/// Why a file cannot be read.
enum Loss {
    /// The file or its process does not exist.
    Vanished,
    Missing(Missing),
}

impl From<Errno> for Loss {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT | Errno::SRCH => Loss::Vanished,
            Errno::ACCESS | Errno::PERM => Loss::Missing(Missing::Denied),
            _ => Loss::Missing(Missing::Failed),
        }
    }
}

pub(super) struct Tree {
    pub(super) root: ProcRoot,
    directory: OnceCell<OwnedFd>,
    pub(super) driver_pids: DriverPids,
    pid_lookup: OnceCell<PidLookup>,
    sees_all_users: OnceCell<bool>,
    buffer: Vec<u8>,
    /// One reference for each process with open files, and one of this struct.
    kept: Rc<()>,
}

impl Tree {
    pub(super) fn new(root: ProcRoot) -> Self {
        Self {
            root,
            directory: OnceCell::new(),
            driver_pids: DriverPids::Here,
            pid_lookup: OnceCell::new(),
            sees_all_users: OnceCell::new(),
            buffer: vec![0; PAGE],
            kept: Rc::new(()),
        }
    }

    pub(super) fn boot(&self) -> Reading<BootId> {
        let mut buffer = vec![0; PAGE];
        let text = self
            .directory()
            .and_then(|root| read(root, c"sys/kernel/random/boot_id", &mut buffer));
        match text.map_err(Loss::from) {
            Ok(text) => std::str::from_utf8(text)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or(Missing::Failed),
            Err(Loss::Vanished) => Err(Missing::Unsupported),
            Err(Loss::Missing(why)) => Err(why),
        }
    }

    /// Reports whether the process is still the one that was read. Cheap; called at every tick.
    pub(super) fn is_still(&mut self, pid: process::Pid, seen: &Seen) -> bool {
        let mark = &seen.mark;
        if let Some(kept) = &seen.kept {
            // Open files belong to one process, so its start need not be compared.
            return self.has_the_mark(kept, mark).unwrap_or(false);
        }
        let found = self.open_process(pid);
        let found = found.and_then(|process| Mark::read(process.as_fd(), &mut self.buffer));
        found.is_ok_and(|found| found == *mark)
    }

    fn has_the_mark(&mut self, kept: &Kept, mark: &Mark) -> Result<bool, Errno> {
        if Uid(rustix::fs::fstat(&kept.directory)?.st_uid) != mark.directory_owner {
            return Ok(false);
        }
        if mark.can_change_user {
            let length = rustix::io::pread(&kept.status, &mut self.buffer[..], 0)?;
            let uids = parse::status_uids(&self.buffer[..length]);
            if uids.map(|uids| Uid(uids.effective)) != mark.own.ok() {
                return Ok(false);
            }
        }
        let length = rustix::io::pread(&kept.comm, &mut self.buffer[..], 0)?;
        let line = &self.buffer[..length];
        Ok(line.strip_suffix(b"\n").unwrap_or(line) == mark.comm)
    }

    fn open_process(&self, pid: process::Pid) -> Result<OwnedFd, Loss> {
        let name = pid.as_raw_nonzero().to_string();
        let directory = self.directory()?;
        Ok(rustix::fs::openat(
            directory,
            name,
            DIRECTORY,
            Mode::empty(),
        )?)
    }

    /// Keeps a process's files open. Only in the kernel's own tree: in another, a file that was replaced stays
    /// readable.
    fn keep(&self, directory: OwnedFd) -> Option<Kept> {
        if self.root != ProcRoot::default() || Rc::strong_count(&self.kept) > most_kept() {
            return None;
        }
        let open = |name| rustix::fs::openat(&directory, name, FILE, Mode::empty()).ok();
        Some(Kept {
            comm: open(c"comm")?,
            status: open(c"status")?,
            directory,
            _one_of: Rc::clone(&self.kept),
        })
    }

    /// Reads everything about one process, and never a mix of two.
    pub(super) fn see(&mut self, pid: process::Pid) -> Reading<Seen> {
        if self.pid_lookup() == PidLookup::Foreign {
            return Err(Missing::Denied);
        }
        for _ in 0..ATTEMPTS {
            match self.try_see(pid) {
                Ok(seen) => return Ok(seen),
                Err(Loss::Missing(why)) => return Err(why),
                // It ended while it was read. Its pid may be in use again already.
                Err(Loss::Vanished) if self.exists(pid) => {}
                Err(Loss::Vanished) => break,
            }
        }
        Err(self.absent(pid))
    }

    fn try_see(&mut self, pid: process::Pid) -> Result<Seen, Loss> {
        // An open directory refers to this process only: when its pid is reused, the files below it are gone.
        let directory = self.open_process(pid)?;
        let process = directory.as_fd();
        let buffer = &mut self.buffer;
        // The values that later ticks compare are read first, so that a later tick notices a change during the other
        // reads.
        let mark = Mark::read(process, buffer)?;
        let login = match read(process, c"loginuid", buffer).map(parse::loginuid) {
            Ok(login) => login.map(|uid| uid.map(Uid)).ok_or(Missing::Failed),
            Err(Errno::NOENT) => Err(Missing::Unsupported),
            Err(error) => match Loss::from(error) {
                Loss::Vanished => return Err(Loss::Vanished),
                Loss::Missing(why) => Err(why),
            },
        };
        let session = read(process, c"sessionid", buffer).map(parse::loginuid);
        let cgroup = read(process, c"cgroup", buffer)
            .map(parse::cgroup)
            .unwrap_or_default();
        // A process that ended meanwhile leaves gaps that look like a kernel without these files.
        read(process, c"stat", buffer)?;
        let kept = self.keep(directory);
        Ok(Seen {
            // A process can give itself an empty name. The kernel keeps one for every process, so an empty one counts as
            // a failure.
            comm: parse::comm(&mark.comm).ok_or(Missing::Failed),
            login: self.known_login(login),
            session: session.ok().flatten().flatten(),
            own: self.known_uid(mark.own),
            mark,
            cgroup,
            kept,
        })
    }

    /// Inside another user namespace the kernel shows a login from outside as none.
    fn known_login(&self, login: Reading<Option<Uid>>) -> Reading<Option<Uid>> {
        match login {
            Ok(None) if !self.sees_all_users() => Err(Missing::Denied),
            other => other,
        }
    }

    /// Inside another user namespace the kernel shows every user from outside as the same overflow uid.
    fn known_uid(&self, own: Reading<Uid>) -> Reading<Uid> {
        match own {
            Ok(UNMAPPED) if !self.sees_all_users() => Err(Missing::Denied),
            other => other,
        }
    }

    fn exists(&self, pid: process::Pid) -> bool {
        let Ok(root) = self.directory() else {
            return false;
        };
        rustix::fs::statat(root, pid.as_raw_nonzero().to_string(), AtFlags::empty()).is_ok()
    }

    /// Returns why `/proc` has no such process.
    fn absent(&self, pid: process::Pid) -> Missing {
        match self.pid_lookup() {
            PidLookup::Same => self
                .root
                .absent(Pid(pid.as_raw_nonzero().get().cast_unsigned())),
            _ => Missing::Denied,
        }
    }

    fn pid_lookup(&self) -> PidLookup {
        *self.pid_lookup.get_or_init(|| {
            let link = self.link(c"self/ns/pid");
            let namespace = link.map_or(PidNamespace::Unknown, |name| parse_pid_namespace(&name));
            pid_lookup(self.driver_pids, namespace)
        })
    }

    fn sees_all_users(&self) -> bool {
        *self.sees_all_users.get_or_init(|| {
            self.link(c"self/ns/user")
                .is_none_or(|link| link == HOST_USERS)
        })
    }

    fn link(&self, path: &CStr) -> Option<Vec<u8>> {
        let link = rustix::fs::readlinkat(self.directory().ok()?, path, Vec::new()).ok()?;
        Some(link.into_bytes())
    }

    /// Returns the directory of the tree, opened once.
    fn directory(&self) -> Result<BorrowedFd<'_>, Errno> {
        if let Some(directory) = self.directory.get() {
            return Ok(directory.as_fd());
        }
        let fresh = rustix::fs::openat(CWD, &self.root.0, DIRECTORY, Mode::empty())?;
        Ok(self.directory.get_or_init(|| fresh).as_fd())
    }
}

/// Reads a whole file into a reusable buffer that grows as needed.
fn read<'a>(
    directory: BorrowedFd<'_>,
    name: &CStr,
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8], Errno> {
    let file = rustix::fs::openat(directory, name, FILE, Mode::empty())?;
    let mut length = 0;
    loop {
        if length == buffer.len() {
            if length >= MAX_BYTES {
                return Err(Errno::FBIG);
            }
            buffer.resize(length * 2, 0);
        }
        let room = buffer.len() - length;
        let more = rustix::io::read(&file, &mut buffer[length..])?;
        length += more;
        // The kernel generates these files on read and fills the buffer as far as there is text: a short read is the
        // end, and a second read would only cost time.
        if more < room {
            return Ok(&buffer[..length]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_denied_and_any_other_trouble_is_failed() {
        let why = |error| match Loss::from(error) {
            Loss::Vanished => None,
            Loss::Missing(why) => Some(why),
        };
        assert_eq!(why(Errno::NOENT), None);
        assert_eq!(why(Errno::SRCH), None);
        assert_eq!(why(Errno::ACCESS), Some(Missing::Denied));
        assert_eq!(why(Errno::PERM), Some(Missing::Denied));
        assert_eq!(why(Errno::MFILE), Some(Missing::Failed));
        assert_eq!(why(Errno::IO), Some(Missing::Failed));
    }

    #[test]
    fn a_file_larger_than_the_buffer_is_read_whole() {
        let directory = tempfile::tempdir().unwrap();
        let text = vec![b'x'; PAGE * 3 + 7];
        std::fs::write(directory.path().join("cgroup"), &text).unwrap();
        let handle = std::fs::File::open(directory.path()).unwrap();
        let mut buffer = vec![0; PAGE];
        assert!(read(handle.as_fd(), c"cgroup", &mut buffer).unwrap() == text);
        std::fs::write(directory.path().join("cgroup"), vec![b'x'; MAX_BYTES]).unwrap();
        assert_eq!(
            read(handle.as_fd(), c"cgroup", &mut buffer),
            Err(Errno::FBIG)
        );
    }
}
