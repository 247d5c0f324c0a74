//! Renames an unusable file, without losing or overwriting anything.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Renames a history and its companion files to `gua.db.damaged-20261115-224500` beside it, and returns the new name.
/// The time is in UTC. If the name is taken, a number is appended.
pub fn set_aside(path: &Path, now: Timestamp) -> io::Result<PathBuf> {
    let stamp = now.strftime(".damaged-%Y%m%d-%H%M%S").to_string();
    let mut number = 1u32;
    loop {
        let suffix = if number == 1 {
            stamp.clone()
        } else {
            format!("{stamp}-{number}")
        };
        let target = crate::beside(path, &suffix);
        match rename_without_overwriting(path, &target) {
            Ok(()) => {
                for companion in ["-wal", "-shm", "-journal"] {
                    let from = crate::beside(path, companion);
                    if from.exists() {
                        rename_without_overwriting(&from, &crate::beside(&target, companion))?;
                    }
                }
                return Ok(target);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
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
