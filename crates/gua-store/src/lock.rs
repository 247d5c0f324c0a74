//! Writer lock of a history: a lock file beside it that contains the PID of the process holding it.
//!
//! Only its owner can open the lock file, so that no other user can block the collector.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::Path;

use gua_files::FileError;
use rustix::process::geteuid;

use crate::error::OpenError;
use crate::open_file::is_same;

/// Exclusive right to write or rename a history, held until this value is dropped.
#[derive(Debug)]
pub struct WriterLock {
    /// The lock lasts as long as this file is open, so the kernel releases it when the process dies.
    file: File,
    /// Whether this call created the lock file.
    pub(crate) is_new: bool,
}

impl WriterLock {
    pub fn take(path: &Path) -> Result<Self, OpenError> {
        let name = crate::beside(path, "-lock");
        let as_open_error = OpenError::in_directory(path);
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        let (mut file, is_new) = match options.clone().create_new(true).open(&name) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let file = gua_files::open_of(&name, &options, owner(path));
                (file.map_err(&as_open_error)?, false)
            }
            Err(error) => return Err(as_open_error(error).into()),
        };
        if is_new && owner(path) != geteuid().as_raw() {
            // Root may work on the history of a service. The lock file must then belong to the service, or it could not write.
            fchown(&file, Some(owner(path)), None).map_err(&as_open_error)?;
        }
        lock(&mut file, path, &name)?;
        // A writer that fails to create its history removes its lock file. A lock on the removed file would exclude no
        // one.
        if !is_at(&file, &name) {
            return Err(OpenError::Busy {
                path: path.to_owned(),
                pid: None,
            });
        }
        // The PID is informational: a full disk must not prevent the collector from opening its history.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { file, is_new })
    }

    /// Takes the lock without creating the lock file. Returns `None` if the file does not exist: the history has never
    /// had a writer, and a lock file created by root would block the owner's collector.
    pub fn take_if_there(path: &Path) -> Result<Option<Self>, OpenError> {
        let name = crate::beside(path, "-lock");
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true);
        if !name.exists() {
            return Ok(None);
        }
        let mut file = match gua_files::open_of(&name, &options, owner(path)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FileError::cannot("open", &name)(error).into()),
            Ok(file) => file,
        };
        lock(&mut file, path, &name)?;
        Ok(Some(Self {
            file,
            is_new: false,
        }))
    }
}

/// Owner of the lock file: for root, that of the history, if there is one.
fn owner(path: &Path) -> u32 {
    let own = geteuid();
    let history = path.metadata().map(|facts| facts.uid());
    match own.is_root() {
        true => history.unwrap_or(own.as_raw()),
        false => own.as_raw(),
    }
}

/// Locks the lock file `name` of the history at `path`, or returns an error with the PID of its holder.
fn lock(file: &mut File, path: &Path, name: &Path) -> Result<(), OpenError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            // The holder may not have written its PID yet; the error is returned without it.
            let _ = file.read_to_string(&mut text);
            Err(OpenError::Busy {
                path: path.to_owned(),
                pid: text.trim().parse().ok(),
            })
        }
        Err(TryLockError::Error(error)) => Err(FileError::cannot("lock", name)(error).into()),
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        // A child process that another thread is starting has a copy of the descriptor until it calls exec, and would
        // hold the lock until then. If the unlock fails, closing the file releases the lock.
        let _ = self.file.unlock();
    }
}

/// Returns whether an open file is still the one at this path.
fn is_at(file: &File, name: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(name)) {
        (Ok(one), Ok(other)) => is_same(&one, &other),
        _ => false,
    }
}

/// Name of the network file system that a path is on, if any. Shared memory is not coherent between hosts there, so a
/// write-ahead log is unsafe.
pub(crate) fn network_filesystem(path: &Path) -> Option<&'static str> {
    // Magic numbers from statfs(2).
    const NETWORK: [(u64, &str); 9] = [
        (0x6969, "NFS"),
        (0x517b, "SMB"),
        (0xff53_4d42, "CIFS"),
        (0xfe53_4d42, "SMB"),
        (0x00c3_6400, "Ceph"),
        (0x0bd0_0bd0, "Lustre"),
        (0x5346_414f, "AFS"),
        (0x4750_4653, "GPFS"),
        (0x1983_0326, "BeeGFS"),
    ];
    let facts = rustix::fs::statfs(crate::directory(path)).ok()?;
    // The field is signed on some platforms and sign-extended to 64 bits.
    let number = u64::try_from(i128::from(facts.f_type) & 0xffff_ffff).ok()?;
    NETWORK
        .iter()
        .find(|(known, _)| *known == number)
        .map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_about_a_lock_file_that_cannot_be_opened_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("gua.db-lock");
        std::fs::create_dir(&name).unwrap();
        let error = WriterLock::take_if_there(&directory.path().join("gua.db")).unwrap_err();
        let expected = format!("cannot open `{}`", name.display());
        assert_eq!(error.to_string(), expected);
    }
}
