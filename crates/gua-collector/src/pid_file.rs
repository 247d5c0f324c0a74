//! The PID file of the background collector, locked for as long as the collector lives.
//!
//! The PID is for people and for the Python tool, which reads the same file. The lock is authoritative: the kernel
//! releases it when the process ends, however it ends. Only the holder of the lock removes the file, so a newer file is
//! never removed by mistake.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use gua_files::{FileError, is_at};

/// Maximum size that is read; a PID has at most seven digits.
const MAX_BYTES: u64 = 64;
/// Maximum number of attempts; the file can be replaced between opening and locking it.
const ATTEMPTS: u32 = 100;

/// Path of the background collector's PID file.
#[derive(Clone, Debug)]
pub struct PidFile {
    path: PathBuf,
}

/// A PID file that this process has locked. Dropping it removes the file.
#[derive(Debug)]
pub struct LockedPidFile {
    file: File,
    path: PathBuf,
}

/// Why the PID file could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum PidFileError {
    #[error("another collector has locked the PID file `{}`", path.display())]
    Locked { path: PathBuf },
    #[error(transparent)]
    File(#[from] FileError),
}

impl PidFile {
    pub fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The PID in the file; `None` for any content that is not a positive number.
    pub fn read(&self) -> Option<u32> {
        read_pid(&mut gua_files::open_regular(&self.path).ok()?)
    }

    /// Whether a running collector has locked the file.
    pub fn is_locked(&self) -> bool {
        let file = gua_files::open_regular(&self.path);
        // A lock acquired here is released when the file is closed.
        let lock = file.map(|file| file.try_lock_shared());
        matches!(lock, Ok(Err(TryLockError::WouldBlock)))
    }

    /// Removes the file if it still contains this PID and is not locked.
    pub fn clear(&self, pid: u32) {
        let Ok(mut file) = gua_files::open_regular(&self.path) else {
            return;
        };
        if file.try_lock().is_ok() && is_at(&file, &self.path) && read_pid(&mut file) == Some(pid) {
            // If this fails, the next start overwrites the file.
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Locks the file and writes this PID into it.
    pub fn lock(&self, own_pid: u32) -> Result<LockedPidFile, PidFileError> {
        let failed = FileError::cannot("write PID file", &self.path);
        for _ in 0..ATTEMPTS {
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).mode(0o644);
            let mut file = gua_files::open_own(&self.path, options).map_err(&failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => break,
                Err(TryLockError::Error(error)) => return Err(failed(error).into()),
            }
            // If the file was removed between opening and locking, the lock is on an unlinked file.
            if is_at(&file, &self.path) {
                write_pid(&mut file, own_pid).map_err(&failed)?;
                return Ok(LockedPidFile {
                    file,
                    path: self.path.clone(),
                });
            }
        }
        Err(PidFileError::Locked {
            path: self.path.clone(),
        })
    }
}

impl Drop for LockedPidFile {
    fn drop(&mut self) {
        if is_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn write_pid(file: &mut File, pid: u32) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("{pid}\n").as_bytes())
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    let pid: i32 = text.trim().parse().ok()?;
    u32::try_from(pid).ok().filter(|pid| *pid > 0)
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
        assert_eq!(file.read(), None, "not text");
        std::fs::remove_file(file.path()).unwrap();
        std::fs::create_dir(file.path()).unwrap();
        assert_eq!(file.read(), None, "a directory");
        assert!(matches!(file.lock(1), Err(PidFileError::File(_))));
    }

    #[test]
    fn one_process_locks_the_file_and_removes_it_at_the_end() {
        let (_directory, file) = place();
        std::fs::write(file.path(), "a longer text than a number\n").unwrap();
        let locked = file.lock(4711).unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "4711\n");
        assert!(file.is_locked());
        assert!(matches!(file.lock(4712), Err(PidFileError::Locked { .. })));
        file.clear(4711);
        assert_eq!(file.read(), Some(4711), "a locked file is not cleared");
        drop(locked);
        assert!(!file.path().exists());
        assert!(!file.is_locked());
    }

    #[test]
    fn a_file_with_another_pid_is_not_cleared() {
        let (_directory, file) = place();
        std::fs::write(file.path(), "5\n").unwrap();
        file.clear(4);
        assert_eq!(file.read(), Some(5));
        file.clear(5);
        assert!(!file.path().exists());
    }

    #[test]
    fn a_process_whose_file_was_removed_does_not_remove_the_next_one() {
        let (_directory, file) = place();
        let first = file.lock(1).unwrap();
        std::fs::remove_file(file.path()).unwrap();
        let second = file.lock(2).unwrap();
        drop(first);
        assert_eq!(file.read(), Some(2));
        drop(second);
        assert!(!file.path().exists());
    }

    /// Only root can create files of another user.
    #[test]
    fn files_that_another_user_planted_are_refused() {
        if !gua_test::runs_as_root("PID files of another user") {
            return;
        }
        type Open = fn(&Path) -> bool;
        let opens: [(&str, Open); 5] = [
            ("gua.pid", |path| PidFile::at(path).lock(1).is_ok()),
            ("gua.log", |path| {
                crate::log_file::open_to_append(path).is_ok()
            }),
            ("x-outage", |path| {
                let pid_file = path.with_file_name("x");
                crate::outage_file::OutageFile::create(&pid_file).is_ok()
            }),
            ("20261115_gpu_stats.csv", |path| {
                let form = gua_compat::gpu_stats::Form::Classic;
                let files = crate::csv::DayFiles::new(path.parent().unwrap(), form);
                let at = "2026-11-15T12:00:00Z".parse().unwrap();
                let minute = gua_compat::gpu_stats::Minute::of(at, &jiff::tz::TimeZone::UTC);
                assert_eq!(form.file_name(minute.day), "20261115_gpu_stats.csv");
                files.append(minute, "1,2\n").is_ok()
            }),
            ("gua.db-lock", |path| {
                gua_store::WriterLock::take(&path.with_file_name("gua.db")).is_ok()
            }),
        ];
        for (name, open) in opens {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join(name);
            let victim = directory.path().join("victim");
            let give = |path: &Path| {
                std::os::unix::fs::lchown(path, Some(65534), Some(65534)).unwrap();
            };
            std::fs::write(&victim, "").unwrap();
            std::os::unix::fs::symlink(&victim, &path).unwrap();
            give(&path);
            assert!(!open(&path), "link {name}");
            assert_eq!(std::fs::read_to_string(&victim).unwrap(), "", "{name}");
            std::fs::remove_file(&path).unwrap();
            let mode = rustix::fs::Mode::from_raw_mode(0o666);
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
            give(&path);
            assert!(!open(&path), "pipe {name}");
            std::fs::remove_file(&path).unwrap();
            std::fs::create_dir(&path).unwrap();
            give(&path);
            assert!(!open(&path), "directory {name}");
            std::fs::remove_dir(&path).unwrap();
            std::fs::hard_link(&victim, &path).unwrap();
            give(directory.path());
            assert!(!open(&path), "hard link {name}");
            assert_eq!(std::fs::read_to_string(&victim).unwrap(), "", "{name}");
            std::fs::remove_file(&path).unwrap();
            assert!(open(&path), "{name}");
        }
    }
}
