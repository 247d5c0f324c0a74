//! Renames an unusable file, without losing or overwriting anything.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{CWD, RenameFlags, renameat_with};

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
    let mut number = 1u32;
    loop {
        let target = match number {
            1 => crate::beside(path, suffix),
            _ => crate::beside(path, &format!("{suffix}-{number}")),
        };
        match rename_without_overwriting(path, &target) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            other => return other.map(|()| target),
        }
    }
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
