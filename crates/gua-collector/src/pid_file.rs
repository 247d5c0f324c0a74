//! The pid file: the number of the collector that runs in the background, and a lock that lives exactly as long.
//!
//! The number is for people and for the Python tool, which reads the same file. The lock is the truth: it ends with its
//! process, however that ends. A file is removed only by whoever holds its lock, so nobody removes a newer one.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A pid has at most seven digits; what is longer is no pid file.
const MOST_BYTES: u64 = 64;
/// A file can be replaced between opening and locking it, but not for ever.
const ATTEMPTS: u32 = 100;

/// Where the number of the background collector stands.
#[derive(Clone, Debug)]
pub struct PidFile {
    path: PathBuf,
}

/// A pid file that is ours until this is dropped; then it is removed.
#[derive(Debug)]
pub struct HeldPidFile {
    file: File,
    path: PathBuf,
}

/// Why a pid file could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    #[error("another collector holds the pid file `{}`", path.display())]
    Held { path: PathBuf },
    #[error("cannot write the pid file `{}`", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl PidFile {
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number in it. Whatever is no number of a process counts as none.
    #[must_use]
    pub fn read(&self) -> Option<u32> {
        number_in(&mut File::open(&self.path).ok()?)
    }

    /// Whether a living collector holds it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        match File::open(&self.path) {
            Ok(file) => is_held(&file),
            Err(_) => false,
        }
    }

    /// Removes it if it still carries this number and nobody holds it.
    pub fn clear(&self, pid: u32) {
        let Ok(mut file) = File::open(&self.path) else {
            return;
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
            && is_at(&file, &self.path)
            && number_in(&mut file) == Some(pid)
        {
            // Where it cannot be removed, the next start overwrites it.
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Makes it ours, with our number in it.
    pub fn take(&self, own_pid: u32) -> Result<HeldPidFile, TakeError> {
        let failed = |source: io::Error| TakeError::Io {
            path: self.path.clone(),
            source,
        };
        for _ in 0..ATTEMPTS {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o644)
                .open(&self.path)
                .map_err(failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => break,
                Err(error) => return Err(failed(error.into())),
            }
            // Somebody may have removed it between opening and locking: then the lock is on a file without a name.
            if is_at(&file, &self.path) {
                write_number(&mut file, own_pid).map_err(failed)?;
                return Ok(HeldPidFile {
                    file,
                    path: self.path.clone(),
                });
            }
        }
        Err(TakeError::Held {
            path: self.path.clone(),
        })
    }
}

impl Drop for HeldPidFile {
    fn drop(&mut self) {
        if is_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn write_number(file: &mut File, pid: u32) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("{pid}\n").as_bytes())
}

fn number_in(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    let pid: i32 = text.trim().parse().ok()?;
    u32::try_from(pid).ok().filter(|pid| *pid > 0)
}

fn is_held(file: &File) -> bool {
    // A lock that we get is given back when the file is closed.
    matches!(
        flock(file, FlockOperation::NonBlockingLockShared),
        Err(Errno::WOULDBLOCK)
    )
}

/// Whether the open file is the one that the path leads to.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => {
            let named = if named.is_symlink() {
                std::fs::metadata(path).unwrap_or(named)
            } else {
                named
            };
            (open.dev(), open.ino()) == (named.dev(), named.ino())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, PidFile) {
        let directory = tempfile::tempdir().unwrap();
        let file = PidFile::at(&directory.path().join("gua.pid"));
        (directory, file)
    }

    #[test]
    fn only_a_positive_number_is_a_pid() {
        let (_directory, file) = place();
        assert_eq!(file.read(), None, "missing");
        for (content, expected) in [
            ("42\n", Some(42)),
            ("  42 \n\n", Some(42)),
            ("", None),
            ("0\n", None),
            ("-7\n", None),
            ("forty-two", None),
            ("42 43", None),
            ("99999999999999999999", None),
        ] {
            std::fs::write(file.path(), content).unwrap();
            assert_eq!(file.read(), expected, "{content:?}");
        }
        std::fs::write(file.path(), [0xff, 0xfe]).unwrap();
        assert_eq!(file.read(), None, "no text");
        std::fs::remove_file(file.path()).unwrap();
        std::fs::create_dir(file.path()).unwrap();
        assert_eq!(file.read(), None, "a directory");
        assert!(matches!(file.take(1), Err(TakeError::Io { .. })));
    }

    #[test]
    fn a_file_is_held_by_one_and_goes_with_it() {
        let (_directory, file) = place();
        std::fs::write(file.path(), "a longer text than a number\n").unwrap();
        let held = file.take(4711).unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "4711\n");
        assert!(file.is_held());
        assert!(matches!(file.take(4712), Err(TakeError::Held { .. })));
        file.clear(4711);
        assert_eq!(file.read(), Some(4711), "a held file is not cleared");
        drop(held);
        assert!(!file.path().exists());
        assert!(!file.is_held());
    }

    #[test]
    fn a_file_that_carries_another_number_by_now_is_not_cleared() {
        let (_directory, file) = place();
        std::fs::write(file.path(), "5\n").unwrap();
        file.clear(4);
        assert_eq!(file.read(), Some(5));
        file.clear(5);
        assert!(!file.path().exists());
    }

    #[test]
    fn whoever_lost_its_file_does_not_remove_the_next_ones() {
        let (_directory, file) = place();
        let first = file.take(1).unwrap();
        std::fs::remove_file(file.path()).unwrap();
        let second = file.take(2).unwrap();
        drop(first);
        assert_eq!(file.read(), Some(2));
        drop(second);
        assert!(!file.path().exists());
    }
}
