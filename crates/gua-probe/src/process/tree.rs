//! Reads the files of `/proc` for the requested processes and no others. Never a command line, never an environment.

use std::cell::OnceCell;
use std::ffi::CStr;
use std::fmt::Write as _;
use std::path::Path;
use std::rc::Rc;

use gua_model::DriverPids;
use gua_model::id::{BootId, Uid};
use gua_model::reading::{Missing, Reading};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{self, PidfdFlags, Resource};

use super::ProcRoot;
use super::parse;
use super::watch::{Ended, Watch, Watched};
use crate::host::namespace::{PidLookup, PidNamespace, parse_pid_namespace, pid_lookup};

/// The initial user namespace always has this inode (`PROC_USER_INIT_INO` in `linux/proc_ns.h`).
const HOST_USERS: &[u8] = b"user:[4026531837]";

/// Uid that the kernel shows inside another user namespace for users that are unknown there (`overflowuid`).
const UNMAPPED: Uid = Uid(65534);

/// Initial buffer size; enough for a stat line, and for the other files of nearly every process.
const PAGE: usize = 4096;

/// Maximum size of a file; none is longer on a healthy host.
const LONGEST: usize = 1 << 20;

/// Maximum number of attempts if a process ends and its pid is reused while it is read.
const ATTEMPTS: usize = 3;

/// A process at the time when it was read.
pub(super) struct Seen {
    pub(super) mark: Mark,
    /// Name of its mark, safe to display.
    pub(super) comm: Reading<String>,
    pub(super) login: Reading<Option<Uid>>,
    pub(super) own: Reading<Uid>,
    pub(super) cgroup: parse::CgroupFacts,
    kept: Option<Kept>,
}

impl Seen {
    /// Reports whether [`Tree::ended`] covers the process. An open process file refers to this process only, even if
    /// its PID was reused.
    pub(super) fn is_watched(&self) -> bool {
        self.watched().is_some()
    }

    /// Reports whether it may have ended since it was read.
    pub(super) fn may_be_of(&self, ended: &Ended) -> bool {
        self.watched().is_none_or(|process| ended.has(process))
    }

    fn watched(&self) -> Option<&Watched> {
        self.kept.as_ref()?.process.as_ref()
    }
}

/// Open files of a process: its directory and name. They refer to this process only, even if its PID was reused, and
/// reading them again avoids the lookup by name, which is most of the cost.
struct Kept {
    directory: OwnedFd,
    /// The `comm` file. It cannot be read once the process has ended and was reaped.
    comm: OwnedFd,
    /// The process itself (a pidfd); `None` on kernels before 5.3.
    process: Option<Watched>,
    /// Counts the open files.
    _one_of: Rc<()>,
}

/// Maximum number of processes with open files. Each has three; a process may have 1024 files open by default, and the
/// driver needs some of them.
const MOST_KEPT: usize = 200;

fn most_kept() -> usize {
    let limit = process::getrlimit(Resource::Nofile)
        .current
        .unwrap_or(u64::MAX);
    let spare = usize::try_from(limit)
        .unwrap_or(usize::MAX)
        .saturating_sub(64);
    MOST_KEPT.min(spare / 6)
}

/// Properties that change if a pid is reused (the start), if a process executes another program (the name) and if it
/// changes its user (the directory's owner).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) start: u64,
    pub(super) comm: Vec<u8>,
    pub(super) directory_owner: Uid,
}

impl Mark {
    /// Parses a stat line.
    fn parse(line: &[u8], directory_owner: Uid) -> Option<Self> {
        let (comm, stat) = parse::stat(line)?;
        Some(Self {
            start: stat.start,
            comm: comm.to_vec(),
            directory_owner,
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
    root: ProcRoot,
    directory: OnceCell<OwnedFd>,
    driver_pids: DriverPids,
    pid_lookup: OnceCell<PidLookup>,
    sees_all_users: OnceCell<bool>,
    path: String,
    buffer: Vec<u8>,
    /// One reference for each process with open files, and one of this struct.
    kept: Rc<()>,
    watch: Watch,
}

impl Tree {
    pub(super) fn new(root: ProcRoot) -> Self {
        Self {
            root,
            directory: OnceCell::new(),
            driver_pids: DriverPids::Here,
            pid_lookup: OnceCell::new(),
            sees_all_users: OnceCell::new(),
            path: String::new(),
            buffer: vec![0; PAGE],
            kept: Rc::new(()),
            watch: Watch::default(),
        }
    }

    pub(super) fn with_driver_pids(self, driver_pids: DriverPids) -> Self {
        Self {
            driver_pids,
            ..self
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
        if let Some(kept) = &seen.kept {
            return self.has_the_mark(kept, &seen.mark).unwrap_or(false);
        }
        let Ok((directory_owner, length)) = self.read_by_name(pid) else {
            return false;
        };
        Mark::parse(&self.buffer[..length], directory_owner).as_ref() == Some(&seen.mark)
    }

    /// Open files belong to one process, so its start need not be compared. The owner is read first: a process that
    /// ended in between has no name any more.
    fn has_the_mark(&mut self, kept: &Kept, mark: &Mark) -> Result<bool, Errno> {
        let owner = rustix::fs::fstat(&kept.directory)?.st_uid;
        let length = rustix::io::pread(&kept.comm, &mut self.buffer[..], 0)?;
        let line = &self.buffer[..length];
        let comm = line.strip_suffix(b"\n").unwrap_or(line);
        Ok(mark.comm == comm && mark.directory_owner == Uid(owner))
    }

    /// Returns which of the watched processes have ended.
    pub(super) fn ended(&self) -> Ended {
        self.watch.ended()
    }

    /// Returns the owner of the directory, and the length of the stat line in the buffer. The owner is read first: if
    /// the pid is reused in between, the start time shows it. The kernel returns the line as a whole.
    fn read_by_name(&mut self, pid: process::Pid) -> Result<(Uid, usize), Errno> {
        self.path.clear();
        let _ = write!(self.path, "{}", pid.as_raw_nonzero());
        let digits = self.path.len();
        self.path.push_str("/stat");
        let root = opened(&self.directory, &self.root.0)?;
        let owner = rustix::fs::statat(root, &self.path[..digits], AtFlags::empty())?.st_uid;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(root, self.path.as_str(), flags, Mode::empty())?;
        let length = rustix::io::read(&file, &mut self.buffer[..])?;
        Ok((Uid(owner), length))
    }

    /// Keeps a process's files open. Only in the kernel's own tree: in another, a file that was replaced stays
    /// readable.
    fn keep(&self, pid: process::Pid, directory: &OwnedFd) -> Option<Kept> {
        if self.root != ProcRoot::default() || Rc::strong_count(&self.kept) > most_kept() {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let comm = rustix::fs::openat(directory, c"comm", flags, Mode::empty()).ok()?;
        let directory = directory.try_clone().ok()?;
        let process = process::pidfd_open(pid, PidfdFlags::empty());
        let process = process.and_then(|process| self.watch.add(process)).ok();
        Some(Kept {
            directory,
            comm,
            process,
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
        let root = opened(&self.directory, &self.root.0)?;
        let buffer = &mut self.buffer;
        // An open directory refers to this process only: when its pid is reused, the files below it are gone.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            rustix::fs::openat(root, pid.as_raw_nonzero().to_string(), flags, Mode::empty())?;
        let process = directory.as_fd();
        // What is compared at later ticks is read first, so that a change during the rest is noticed then.
        let directory_owner = Uid(rustix::fs::fstat(process)?.st_uid);
        let mark = Mark::parse(read(process, c"stat", buffer)?, directory_owner)
            .ok_or(Loss::Missing(Missing::Failed))?;

        let own = match read(process, c"status", buffer) {
            Ok(text) => parse::status_uid(text).map(Uid).ok_or(Missing::Failed),
            Err(Errno::SRCH) => return Err(Loss::Vanished),
            // The directory belongs to the effective user, unless the process is not dumpable: then it can be root's.
            Err(_) if directory_owner != Uid::ROOT => Ok(directory_owner),
            Err(_) => Err(Missing::Denied),
        };
        let login = match read(process, c"loginuid", buffer).map(parse::loginuid) {
            Ok(login) => login.map(|uid| uid.map(Uid)).ok_or(Missing::Failed),
            Err(Errno::NOENT) => Err(Missing::Unsupported),
            Err(error) => match Loss::from(error) {
                Loss::Vanished => return Err(Loss::Vanished),
                Loss::Missing(why) => Err(why),
            },
        };
        let cgroup = read(process, c"cgroup", buffer)
            .map(parse::cgroup)
            .unwrap_or_default();
        let kept = self.keep(pid, &directory);
        let buffer = &mut self.buffer;
        // The kept files belong to this process if it is alive here. A process that ended meanwhile leaves gaps that
        // look like a kernel without these files.
        read(process, c"stat", buffer)?;
        Ok(Seen {
            comm: shown_comm(&mark),
            mark,
            login: self.known_login(login),
            own: self.known_uid(own),
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

    /// Returns why `/proc` has no such process: it does not exist, or it is hidden.
    fn absent(&self, pid: process::Pid) -> Missing {
        if self.pid_lookup() != PidLookup::Same {
            return Missing::Denied;
        }
        if self.root != ProcRoot::default() {
            // The kernel knows nothing about the processes of another tree.
            return Missing::Gone;
        }
        // `hidepid` hides other users' processes from `/proc`; kill(2) still reports whether one exists.
        match process::test_kill_process(pid) {
            Err(Errno::SRCH) => Missing::Gone,
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

    fn directory(&self) -> Result<BorrowedFd<'_>, Errno> {
        opened(&self.directory, &self.root.0)
    }
}

/// A process can give itself an empty name. The kernel keeps one for every process, so an empty one counts as a
/// failure.
fn shown_comm(mark: &Mark) -> Reading<String> {
    parse::comm(&mark.comm).ok_or(Missing::Failed)
}

/// Directory of the tree, opened once.
fn opened<'a>(directory: &'a OnceCell<OwnedFd>, path: &Path) -> Result<BorrowedFd<'a>, Errno> {
    if let Some(directory) = directory.get() {
        return Ok(directory.as_fd());
    }
    let fresh = rustix::fs::openat(
        CWD,
        path,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    Ok(directory.get_or_init(|| fresh).as_fd())
}

/// Reads a whole file into a reusable buffer that grows as needed.
fn read<'a>(
    directory: BorrowedFd<'_>,
    name: &CStr,
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8], Errno> {
    let file = rustix::fs::openat(
        directory,
        name,
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut length = 0;
    loop {
        if length == buffer.len() {
            if length >= LONGEST {
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
        std::fs::write(directory.path().join("cgroup"), vec![b'x'; LONGEST]).unwrap();
        assert_eq!(
            read(handle.as_fd(), c"cgroup", &mut buffer),
            Err(Errno::FBIG)
        );
    }
}
