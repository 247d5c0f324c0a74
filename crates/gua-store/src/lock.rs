//! One writer a history: a lock file beside it, which names the process that holds it.
//!
//! Only its owner may open the lock file, so that no other user can keep the collector out.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::error::OpenError;

/// The right to write a history, or to rename it: nobody else has it as long as this lives.
#[derive(Debug)]
pub struct WriterLock {
    /// The lock lasts as long as the file is open, so the kernel frees it when the process dies.
    file: File,
    /// Whether this call made the lock file.
    pub(crate) is_new: bool,
}

impl WriterLock {
    pub fn take(path: &Path) -> Result<Self, OpenError> {
        let name = crate::beside(path, "-lock");
        let as_open_error = |source| OpenError::Directory {
            path: crate::directory(path).to_owned(),
            source,
        };
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        let (mut file, is_new) = match options.clone().create_new(true).open(&name) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let file = options.create(true).truncate(false).open(&name);
                (file.map_err(as_open_error)?, false)
            }
            Err(error) => return Err(as_open_error(error)),
        };
        lock(&mut file, path, &name)?;
        // One that failed to make its history takes its lock file away. A lock on that keeps nobody out.
        if !is_at(&file, &name) {
            return Err(OpenError::Busy {
                path: path.to_owned(),
                pid: None,
            });
        }
        // The number is a courtesy; a full disk must not keep the collector from opening its history.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { file, is_new })
    }

    /// As where a writer takes it, and makes no lock file. `None` where there is none: nobody has written, and a lock file
    /// that root made would keep the owner's collector out.
    pub fn take_if_there(path: &Path) -> Result<Option<Self>, OpenError> {
        let name = crate::beside(path, "-lock");
        let mut options = std::fs::OpenOptions::new();
        let mut file = match options.read(true).write(true).open(&name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(OpenError::Directory { path: name, source }),
            Ok(file) => file,
        };
        lock(&mut file, path, &name)?;
        Ok(Some(Self {
            file,
            is_new: false,
        }))
    }
}

/// Locks the lock file `name` of the history at `path`, or says who has it.
fn lock(file: &mut File, path: &Path, name: &Path) -> Result<(), OpenError> {
    match flock(&*file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut text = String::new();
            // The other may not have written its number yet; the lock says enough.
            let _ = file.read_to_string(&mut text);
            Err(OpenError::Busy {
                path: path.to_owned(),
                pid: text.trim().parse().ok(),
            })
        }
        Err(error) => Err(OpenError::Directory {
            path: name.to_owned(),
            source: error.into(),
        }),
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        // A child that another thread is just starting has a copy of the open file until it runs its program, and would
        // keep the lock for so long. If this fails, closing the file does it.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Whether an open file is still the one of this name.
fn is_at(file: &File, name: &Path) -> bool {
    let same = |one: std::fs::Metadata, other: std::fs::Metadata| {
        (one.dev(), one.ino()) == (other.dev(), other.ino())
    };
    match (file.metadata(), std::fs::metadata(name)) {
        (Ok(one), Ok(other)) => same(one, other),
        _ => false,
    }
}

/// The name of a file system over a network, on which the shared memory of two programs may differ.
pub(crate) fn network_filesystem(path: &Path) -> Option<&'static str> {
    // The numbers are those of statfs(2).
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
    // The field is signed on some machines, and its upper half is then all ones.
    let number = u64::try_from(i128::from(facts.f_type) & 0xffff_ffff).ok()?;
    NETWORK
        .iter()
        .find(|(known, _)| *known == number)
        .map(|(_, name)| *name)
}
