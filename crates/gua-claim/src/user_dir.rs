//! A user directory: reads files of other users without trusting them, and writes the caller's own.
//!
//! Anything that a user can put into a user directory (a link, a FIFO, a device of another file system, a file of a
//! gigabyte) costs that user's entries and nothing else. Limits apply per person, so that nobody can crowd out another.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use gua_model::Uid;
use jiff::Timestamp;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, fstat, openat, openat2,
    renameat, renameat_with,
};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::{Problem, Trouble};

/// Prefix of a file that is being written; it is renamed when it is complete.
const UNFINISHED: &str = "new-";
/// Maximum number of entries read in a user directory, files of every kind together. Only a forged directory has more;
/// the rest is not read.
const MAX_ENTRIES: usize = 4096;
/// Maximum number of files of one kind that are read from one person, in all user directories together; a user directory
/// counts as one more.
const MAX_OF_A_USER: usize = 4 * MAX_FILES;
/// Maximum number of bytes read from one person. The largest permitted number of claims and tickets, on a host of 256
/// GPUs, is below it.
const MAX_BYTES_OF_A_USER: usize = 2 << 20;
/// Maximum number of files of each kind in a user directory. Writers stop below it, so only forged files are left out.
pub(crate) const MAX_FILES: usize = 256;
/// Maximum size of a file. A claim on 256 GPUs has about 12 KB.
pub(crate) const MAX_FILE: usize = 32 << 10;
/// Age after which an unfinished file of a killed writer is removed.
const UNFINISHED_SECONDS: i64 = 3600;

/// One user's directory in the shared one.
#[derive(Debug)]
pub(crate) struct UserDir {
    pub(crate) owner: Uid,
    /// The person to whom the owner belongs, for limits.
    pub(crate) person: Uid,
    pub(crate) directory: OwnedFd,
    pub(crate) name: String,
}

/// Counts the files of each kind that were read from each person, so that nobody crowds out another, and lists those that do
/// not count.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    /// By the prefix of the kind.
    used: HashMap<(&'static str, Uid), Used>,
    pub(crate) problems: Vec<Problem>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Used {
    files: usize,
    bytes: usize,
    is_reported: bool,
}

impl Allowance {
    /// Whether this entry may still be read. Too many entries of a person are reported once.
    fn read(&mut self, kind: &'static str, person: Uid, entry: &Entry) -> bool {
        let used = self.used.entry((kind, person)).or_default();
        used.bytes = used.bytes.saturating_add(entry.bytes.len());
        let is_allowed = used.bytes <= MAX_BYTES_OF_A_USER;
        if !is_allowed {
            used.report(entry.owner, &entry.name, &mut self.problems);
        }
        is_allowed
    }

    pub(crate) fn report(&mut self, owner: Uid, name: &str, trouble: Trouble) {
        self.problems.push(Problem::new(owner, name, trouble));
    }
}

impl Used {
    fn report(&mut self, owner: Uid, name: &str, problems: &mut Vec<Problem>) {
        if !self.is_reported {
            self.is_reported = true;
            problems.push(Problem::new(owner, name, Trouble::TooMany));
        }
    }
}

/// A complete file of a user directory. Its owner is that of the user directory.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) owner: Uid,
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// Time of the last change, which only the kernel sets.
    pub(crate) changed: Timestamp,
}

impl UserDir {
    /// Returns the names of the files with this prefix, sorted. A user directory that its owner has closed or removed
    /// has none.
    pub(crate) fn names(
        &self,
        prefix: &'static str,
        allowance: &mut Allowance,
    ) -> Result<Vec<String>, Errno> {
        let Allowance { used, problems } = allowance;
        let used = used.entry((prefix, self.person)).or_default();
        let left = MAX_OF_A_USER.saturating_sub(used.files);
        if left == 0 || used.bytes > MAX_BYTES_OF_A_USER {
            used.report(self.owner, &self.name, problems);
            return Ok(Vec::new());
        }
        let (mut names, is_all) = match names(&self.directory, prefix) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(Vec::new()),
            Err(error) if is_ours(error) => return Err(error),
            Err(error) => {
                let trouble = Trouble::Closed(error);
                problems.push(Problem::new(self.owner, &self.name, trouble));
                return Ok(Vec::new());
            }
        };
        let most = left.min(MAX_FILES);
        if names.len() > most || !is_all {
            names.truncate(most);
            used.report(self.owner, &self.name, problems);
        }
        used.files += 1 + names.len();
        Ok(names)
    }

    /// Reads the files with this prefix, up to the limits. Files that do not count are reported.
    pub(crate) fn entries(
        &self,
        prefix: &'static str,
        allowance: &mut Allowance,
    ) -> Result<Vec<Entry>, Errno> {
        let mut entries = Vec::new();
        for name in self.names(prefix, allowance)? {
            match self.read(&name)? {
                Some(Ok(entry)) if allowance.read(prefix, self.person, &entry) => {
                    entries.push(entry);
                }
                Some(Err(problem)) => allowance.problems.push(problem),
                Some(Ok(_)) | None => {}
            }
        }
        Ok(entries)
    }

    /// Returns a file, or why it does not count; `None` if it was removed meanwhile.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Result<Entry, Problem>>, Errno> {
        let wrong = |trouble| Ok(Some(Err(Problem::new(self.owner, name, trouble))));
        // Without NONBLOCK, a FIFO without a writer would block forever.
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
        // A hard link to another user's file, or a file that another user put into a directory left open.
        if facts.st_uid != self.owner.0 {
            return wrong(Trouble::Foreign(Uid(facts.st_uid)));
        }
        let bytes = match read_up_to(file, MAX_FILE) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return wrong(Trouble::TooLarge),
            Err(error) if is_ours(error) => return Err(error),
            Err(error) => return wrong(Trouble::Closed(error)),
        };
        Ok(Some(Ok(Entry {
            owner: self.owner,
            name: name.to_owned(),
            bytes,
            changed: Timestamp::new(facts.st_ctime, 0).unwrap_or_default(),
        })))
    }

    /// Writes a file atomically, replacing one of the same name.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Errno> {
        self.put(bytes, |unfinished| {
            renameat(&self.directory, unfinished, &self.directory, name)
        })
    }

    /// Replaces an existing file atomically. A file that was removed is not created again.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), Errno> {
        self.put(bytes, |unfinished| {
            let here = &self.directory;
            match renameat_with(here, unfinished, here, name, RenameFlags::EXCHANGE) {
                Ok(()) => {
                    let _ = self.remove(unfinished);
                    Ok(())
                }
                // The file system cannot exchange two names: between these two steps only the owner or root could
                // remove the file.
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    rustix::fs::statat(here, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    renameat(here, unfinished, here, name)
                }
                Err(error) => Err(error),
            }
        })
    }

    fn put(
        &self,
        bytes: &[u8],
        name_it: impl FnOnce(&str) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let unfinished = format!("{UNFINISHED}{}", random_word());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let readable_by_all = Mode::from_raw_mode(0o644);
        let file = openat(&self.directory, &unfinished, flags, readable_by_all)?;
        // The umask may have removed permissions.
        rustix::fs::fchmod(&file, readable_by_all)?;
        let mut file = File::from(file);
        let written = file.write_all(bytes).map_err(|error| errno(&error));
        let written = written.and_then(|()| name_it(&unfinished));
        if written.is_err() {
            let _ = self.remove(&unfinished);
        }
        written
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.directory, name, AtFlags::empty())
    }

    /// Removes the unfinished files of killed writers.
    pub(crate) fn sweep_unfinished(&self, now_seconds: i64) {
        let Ok((found, _)) = names(&self.directory, UNFINISHED) else {
            return;
        };
        for name in found.into_iter().take(MAX_FILES) {
            let changed = rustix::fs::statat(&self.directory, &name, AtFlags::SYMLINK_NOFOLLOW);
            if changed.is_ok_and(|facts| facts.st_ctime + UNFINISHED_SECONDS < now_seconds) {
                let _ = self.remove(&name);
            }
        }
    }

    /// Restores read access for others. A umask, or a kill right after the user directory was created, can have left it
    /// closed.
    pub(crate) fn open_to_readers(&self) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(0o755);
        if Mode::from_raw_mode(fstat(&self.directory)?.st_mode) == mode {
            return Ok(());
        }
        rustix::fs::fchmod(&self.directory, mode)
    }
}

/// Returns eight random hexadecimal digits.
pub fn random_word() -> String {
    let mut bytes = [0; 4];
    getrandom(&mut bytes, GetRandomFlags::empty())
        .expect("the kernel hands out a few random bytes without fail once it has started");
    format!("{:08x}", u32::from_ne_bytes(bytes))
}

/// Opens a path without following links or crossing into another file system: a user can mount a FUSE file system on
/// one of their directories and never answer.
pub(crate) fn open_beneath(
    directory: impl AsFd,
    name: &str,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let directory = directory.as_fd();
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let stay = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match openat2(directory, name, flags, Mode::empty(), stay) {
        // Kernels before 5.6 lack the call, and some sandboxes do not know it.
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

/// Whether an error cannot be caused by the contents of a user directory. After such an error no claim may be made,
/// because the claim of an honest user may not have been read. Every other error below a user directory is caused by
/// its owner (a mode, a lease on a file, a user directory that is removed meanwhile), and must not keep others from
/// claiming.
pub(crate) fn is_ours(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}

/// Returns the names in a directory with this prefix, sorted, so that every reader sees the same ones first, and whether the
/// directory was read to its end.
fn names(directory: impl AsFd, prefix: &str) -> Result<(Vec<String>, bool), Errno> {
    let mut names = Vec::new();
    let mut is_all = true;
    for (number, entry) in Dir::read_from(directory)?.enumerate() {
        if number >= MAX_ENTRIES {
            is_all = false;
            break;
        }
        let entry = entry?;
        if let Ok(name) = entry.file_name().to_str()
            && name.starts_with(prefix)
        {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok((names, is_all))
}

/// Reads the whole file; `None` if it is longer than `most`.
fn read_up_to(file: OwnedFd, most: usize) -> Result<Option<Vec<u8>>, Errno> {
    let mut bytes = Vec::new();
    let read = File::from(file)
        .take(most as u64 + 1)
        .read_to_end(&mut bytes);
    let length = read.map_err(|error| errno(&error))?;
    Ok((length <= most).then_some(bytes))
}

/// Returns the error number of an error of the standard library.
fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::ClaimDir;
    use crate::user_dirs::USER_DIR_PREFIX;

    #[test]
    fn a_user_dir_that_is_removed_meanwhile_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("{USER_DIR_PREFIX}a"));
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("claim-00000000"), "{}").unwrap();
        let dir = ClaimDir::open(folder.path()).unwrap();
        let mut allowance = Allowance::default();
        let user_dir = dir.existing_user_dir().unwrap().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
        let names = user_dir.names("claim-", &mut allowance);
        assert_eq!(names.unwrap(), Vec::<String>::new());
        assert!(user_dir.read("claim-00000000").unwrap().is_none());
        assert!(dir.existing_user_dir().unwrap().is_none());
        assert_eq!(allowance.problems, []);
    }
}
