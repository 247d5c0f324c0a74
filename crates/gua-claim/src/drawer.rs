//! Drawers: reading what others wrote without trusting any of it, and writing in one's own.
//!
//! Whatever another user can put into a drawer (a link, a FIFO, a device of another file system, a file of a gigabyte)
//! costs that user's entries and nothing else. Limits are for each user, so that nobody's can crowd out another's.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

use gua_model::Uid;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::directory::{ClaimDir, Lock, only_owner_writes};
use crate::error::{ClaimError, Problem, Trouble};

const DRAWER: &str = "gua-claims-";
/// A file that is being written; it gets its name when it is whole.
const UNFINISHED: &str = "new-";
/// What is read of one user's files of a kind, in all drawers together; a drawer counts as one more. An honest user has
/// one drawer and fewer files, so no claim of theirs is left out, in whichever drawer it is.
const MOST_OF_A_USER: usize = 4 * MOST_FILES;
/// Of each kind of file in a drawer. Writers stop below it, so only a forger's are left out.
pub(crate) const MOST_FILES: usize = 256;
/// A claim on 256 cards has about 12 KB.
pub(crate) const LARGEST_FILE: usize = 32 << 10;
/// What is left of a writer that was killed is swept after this time.
const UNFINISHED_SECONDS: i64 = 3600;

/// One user's directory in the shared one.
#[derive(Debug)]
pub(crate) struct Drawer {
    pub(crate) owner: Uid,
    directory: OwnedFd,
    name: String,
}

/// What was read of each user's files of one kind, so that nobody's crowd out another's.
#[derive(Debug, Default)]
pub(crate) struct Allowance(HashMap<Uid, usize>);

/// A file of a drawer, read whole. Its owner is the drawer's.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) owner: Uid,
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// When the file was made by the wall clock, in seconds; the kernel's word, where the file system keeps it.
    pub(crate) born: Option<i64>,
    /// When it was last written, in the same way.
    pub(crate) changed: i64,
}

impl ClaimDir {
    /// What has the name of a drawer, in order.
    pub(crate) fn drawer_names(&self) -> Result<Vec<String>, ClaimError> {
        names(self.handle(), DRAWER).map_err(|source| self.cannot_read(source))
    }

    /// The drawer of that name, if it can be trusted to be its owner's. One after the other is opened, so nobody can use
    /// up our descriptors with theirs.
    pub(crate) fn drawer(
        &self,
        name: &str,
        problems: &mut Vec<Problem>,
    ) -> Result<Option<Drawer>, ClaimError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = match open_beneath(self.handle(), name, flags) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) if is_ours(error) => return Err(self.cannot_read(error)),
            Err(error) => {
                problems.push(Problem::new(None, name, Trouble::Closed(error)));
                return Ok(None);
            }
        };
        let facts = fstat(&directory).map_err(|source| self.cannot_read(source))?;
        let owner = Uid(facts.st_uid);
        // One's own is mended when it is written to.
        if owner != self.me() && !only_owner_writes(facts.st_mode) {
            problems.push(Problem::new(Some(owner), name, Trouble::Shared));
            return Ok(None);
        }
        Ok(Some(Drawer {
            owner,
            directory,
            name: name.to_owned(),
        }))
    }

    /// The caller's own drawer, if there is one.
    pub(crate) fn existing_drawer(&self) -> Result<Option<Drawer>, ClaimError> {
        for name in self.drawer_names()? {
            if let Some(drawer) = self.drawer(&name, &mut Vec::new())?
                && drawer.owner == self.me()
            {
                drawer
                    .open_to_readers()
                    .map_err(|source| self.cannot_write(source))?;
                return Ok(Some(drawer));
            }
        }
        Ok(None)
    }

    /// The caller's own drawer, made if there is none; under the lock, so that nobody gets a second one.
    pub(crate) fn own_drawer(&self, _lock: &Lock) -> Result<Drawer, ClaimError> {
        if let Some(drawer) = self.existing_drawer()? {
            return Ok(drawer);
        }
        let fail = |source| self.cannot_write(source);
        let name = format!("{DRAWER}{}{}", random_word(), random_word());
        let mode = Mode::from_raw_mode(0o755);
        rustix::fs::mkdirat(self.handle(), &name, mode).map_err(fail)?;
        // The umask may have taken from it, even our own right to open it. Nobody else can have put another in its place.
        rustix::fs::chmodat(self.handle(), &name, mode, AtFlags::empty()).map_err(fail)?;
        let directory =
            open_beneath(self.handle(), &name, OFlags::RDONLY | OFlags::DIRECTORY).map_err(fail)?;
        Ok(Drawer {
            owner: self.me(),
            directory,
            name,
        })
    }

    pub(crate) fn cannot_read(&self, source: Errno) -> ClaimError {
        ClaimError::Read {
            path: self.path().to_owned(),
            source,
        }
    }

    pub(crate) fn cannot_write(&self, source: Errno) -> ClaimError {
        ClaimError::Write {
            path: self.path().to_owned(),
            source,
        }
    }
}

impl Drawer {
    /// The files whose names begin so, by name. A drawer that its owner has closed, or removed by now, has none.
    pub(crate) fn names(
        &self,
        prefix: &str,
        allowance: &mut Allowance,
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<String>, Errno> {
        let used = allowance.0.entry(self.owner).or_default();
        let left = MOST_OF_A_USER.saturating_sub(*used);
        if left == 0 {
            problems.push(Problem::new(Some(self.owner), &self.name, Trouble::TooMany));
            return Ok(Vec::new());
        }
        let mut names = match names(&self.directory, prefix) {
            Ok(names) => names,
            Err(Errno::NOENT) => return Ok(Vec::new()),
            Err(error) if is_ours(error) => return Err(error),
            Err(error) => {
                let trouble = Trouble::Closed(error);
                problems.push(Problem::new(Some(self.owner), &self.name, trouble));
                return Ok(Vec::new());
            }
        };
        let most = left.min(MOST_FILES);
        if names.len() > most {
            names.truncate(most);
            problems.push(Problem::new(Some(self.owner), &self.name, Trouble::TooMany));
        }
        *used += 1 + names.len();
        Ok(names)
    }

    /// A file, or why it does not count; `None` where it is gone by now.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Result<Entry, Problem>>, Errno> {
        let wrong = |trouble| Ok(Some(Err(Problem::new(Some(self.owner), name, trouble))));
        // A FIFO without a writer would keep us waiting for ever, but for NONBLOCK.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match open_beneath(&self.directory, name, flags) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) if is_ours(error) => return Err(error),
            Err(error) => return wrong(Trouble::Closed(error)),
        };
        let facts = fstat(&file)?;
        if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile {
            return wrong(Trouble::NoFile);
        }
        // A hard link to somebody else's file, or a file that another put into a drawer left open.
        if facts.st_uid != self.owner.0 {
            return wrong(Trouble::Foreign(Uid(facts.st_uid)));
        }
        let bytes = match read_up_to(&file, LARGEST_FILE) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return wrong(Trouble::TooLarge),
            Err(error) if is_ours(error) => return Err(error),
            Err(error) => return wrong(Trouble::Closed(error)),
        };
        Ok(Some(Ok(Entry {
            owner: self.owner,
            name: name.to_owned(),
            bytes,
            born: born(&file),
            changed: facts.st_mtime,
        })))
    }

    /// Writes a file that appears whole or not at all, over the one of the same name if there is one.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Errno> {
        let unfinished = format!("{UNFINISHED}{}", random_word());
        let file = self.create(&unfinished)?;
        let written = write_all(&file, bytes).and_then(|()| {
            rustix::fs::renameat(&self.directory, &unfinished, &self.directory, name)
        });
        if written.is_err() {
            let _ = self.remove(&unfinished);
        }
        written
    }

    /// Makes a new file that others can read.
    pub(crate) fn create(&self, name: &str) -> Result<OwnedFd, Errno> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.directory, name, flags, Mode::from_raw_mode(0o644))?;
        // The umask may have taken from it.
        rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644))?;
        Ok(file)
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.directory, name, AtFlags::empty())
    }

    /// Removes what writers that were killed have left.
    pub(crate) fn sweep_unfinished(&self, now_seconds: i64) {
        for name in names(&self.directory, UNFINISHED).unwrap_or_default() {
            let changed = rustix::fs::statat(&self.directory, &name, AtFlags::SYMLINK_NOFOLLOW);
            if changed.is_ok_and(|facts| facts.st_ctime + UNFINISHED_SECONDS < now_seconds) {
                let _ = self.remove(&name);
            }
        }
    }

    /// A umask, or a kill right after the drawer was made, can have left it closed to others.
    fn open_to_readers(&self) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(0o755);
        if Mode::from_raw_mode(fstat(&self.directory)?.st_mode) == mode {
            return Ok(());
        }
        rustix::fs::fchmod(&self.directory, mode)
    }
}

/// Overwrites a file in place: it stays the same file, with the time of its birth.
pub(crate) fn overwrite(file: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
    let mut at = 0;
    while at < bytes.len() {
        at += rustix::io::pwrite(file, &bytes[at..], at as u64)?;
    }
    rustix::fs::ftruncate(file, bytes.len() as u64)
}

/// Eight hexadecimal digits that nobody can guess.
pub(crate) fn random_word() -> String {
    let mut bytes = [0; 4];
    getrandom(&mut bytes, GetRandomFlags::empty())
        .expect("the kernel hands out a few random bytes without fail once it has started");
    format!("{:08x}", u32::from_ne_bytes(bytes))
}

/// Follows no link and crosses into no other file system: a user can mount one of their own (FUSE) on a directory of
/// theirs, and never answer.
fn open_beneath(directory: impl AsFd, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let directory = directory.as_fd();
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let stay = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match openat2(directory, name, flags, Mode::empty(), stay) {
        // Kernels before 5.6, and sandboxes that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {}
        other => return other,
    }
    let file = openat(directory, name, flags, Mode::empty())?;
    if fstat(&file)?.st_dev == fstat(directory)?.st_dev {
        Ok(file)
    } else {
        Err(Errno::XDEV)
    }
}

/// Errors that no user's drawer can bring about. With one of these no claim may be made: an honest user's claim could be
/// what was not read. Every other one below a drawer is its owner's doing (a mode, a lease on a file, a drawer that is
/// removed meanwhile), and must keep nobody else from claiming.
fn is_ours(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}

/// The names in a directory that begin so, sorted, so that every reader sees the same ones first.
fn names(directory: impl AsFd, prefix: &str) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().to_str()
            && name.starts_with(prefix)
        {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The whole file; `None` where it is longer than that.
fn read_up_to(file: &OwnedFd, most: usize) -> Result<Option<Vec<u8>>, Errno> {
    let mut bytes = vec![0; most + 1];
    let mut length = 0;
    while length < bytes.len() {
        match rustix::io::read(file, &mut bytes[length..])? {
            0 => {
                bytes.truncate(length);
                return Ok(Some(bytes));
            }
            more => length += more,
        }
    }
    Ok(None)
}

fn write_all(file: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = rustix::io::write(file, rest)?;
        rest = &rest[written..];
    }
    Ok(())
}

fn born(file: &OwnedFd) -> Option<i64> {
    use rustix::fs::{StatxFlags, statx};
    let facts = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
    let known = facts.stx_mask & StatxFlags::BTIME.bits() != 0;
    known.then_some(facts.stx_btime.tv_sec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawer_that_is_removed_meanwhile_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("{DRAWER}a"));
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("claim-00000000"), "{}").unwrap();
        let dir = ClaimDir::open(folder.path()).unwrap();
        let mut problems = Vec::new();
        let names = dir.drawer_names().unwrap();
        let drawer = dir.drawer(&names[0], &mut problems).unwrap().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
        let names = drawer.names("claim-", &mut Allowance::default(), &mut problems);
        assert_eq!(names.unwrap(), Vec::<String>::new());
        assert!(drawer.read("claim-00000000").unwrap().is_none());
        assert!(dir.drawer(&drawer.name, &mut problems).unwrap().is_none());
        assert_eq!(problems, []);
    }
}
