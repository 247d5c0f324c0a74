//! The files of a database: their names, how they change, and how an unusable one is renamed without losing or overwriting
//! anything.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{CWD, RenameFlags, renameat_with};

/// A database and the files that SQLite keeps beside it.
fn files_of(path: &Path) -> [PathBuf; 4] {
    ["", "-wal", "-shm", "-journal"].map(|suffix| crate::beside(path, suffix))
}

/// Removes a database and the files beside it, as far as they exist.
pub(crate) fn remove_database(path: &Path) -> io::Result<()> {
    files_of(path).iter().try_for_each(|file| remove(file))
}

/// Removes a file if it exists.
pub fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Length of a database or of a file beside it; 0 if there is none.
pub(crate) fn length(path: &Path, suffix: &str) -> u64 {
    std::fs::metadata(crate::beside(path, suffix)).map_or(0, |facts| facts.len())
}

/// Metadata that shows whether a file was replaced or written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePrint([u64; 3], [i64; 2]);

impl FilePrint {
    pub fn of(path: &Path) -> Option<Self> {
        let facts = std::fs::metadata(path).ok()?;
        Some(Self(
            [facts.dev(), facts.ino(), facts.len()],
            [facts.mtime(), facts.mtime_nsec()],
        ))
    }
}

/// Renames a history and its companion files to `gua.db.damaged-20261115-224500` beside it, and returns the new name.
/// The time is in UTC. If the name is taken, a number is appended.
pub fn set_aside(path: &Path, now: Timestamp) -> io::Result<PathBuf> {
    let stamp = now.strftime(".damaged-%Y%m%d-%H%M%S").to_string();
    let target = rename_to_free_name(path, &stamp)?;
    for companion in ["-wal", "-shm", "-journal"] {
        let from = crate::beside(path, companion);
        if from.exists() {
            rename_without_overwriting(&from, &crate::beside(&target, companion))?;
        }
    }
    Ok(target)
}

/// Appends a suffix to the name of a file, with a number if that name is taken, and returns the new name.
pub(crate) fn rename_to_free_name(path: &Path, suffix: &str) -> io::Result<PathBuf> {
    for target in numbered(path, suffix) {
        match rename_without_overwriting(path, &target) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map(|()| target),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Names of a file with a suffix: without a number, and then with 2, 3 and so on.
pub(crate) fn numbered(path: &Path, suffix: &str) -> impl Iterator<Item = PathBuf> {
    let others = (2_u32..).map(move |number| crate::beside(path, &format!("{suffix}-{number}")));
    std::iter::once(crate::beside(path, suffix)).chain(others)
}

fn rename_without_overwriting(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system does not support an atomic rename without replacement.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            if to.exists() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            std::fs::rename(from, to)
        }
        other => other.map_err(Into::into),
    }
}
