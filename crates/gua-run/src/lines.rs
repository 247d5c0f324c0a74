//! An append-only file of lines. Each line is passed to the kernel as a whole, so that `tail -f` shows it at once and a crash
//! of this process loses nothing. A line that cannot be written is lost and counted; later ones are tried.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::Path;

/// An append-only file of lines.
#[derive(Debug)]
pub struct LineFile {
    file: File,
    /// The file does not end with a newline: a write was truncated, ours or that of an earlier run, by a full disk or a crash.
    is_torn: bool,
    lost: u64,
    last_error: Option<io::Error>,
}

impl LineFile {
    /// Opens the file for appending, and creates it if it does not exist.
    pub fn append(path: &Path) -> io::Result<Self> {
        let mut file = Self {
            file: gua_files::open_own(path, OpenOptions::new().append(true))?,
            is_torn: false,
            lost: 0,
            last_error: None,
        };
        // A file that cannot be read can still be written.
        file.is_torn = file.ends_within_a_line().unwrap_or(false);
        Ok(file)
    }

    /// Creates the file, or truncates it.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut file = Self::append(path)?;
        file.empty()?;
        Ok(file)
    }

    /// Truncates a regular file.
    pub(crate) fn empty(&mut self) -> io::Result<()> {
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
            self.is_torn = false;
        }
        Ok(())
    }

    /// Whether a regular file ends without a newline.
    fn ends_within_a_line(&self) -> io::Result<bool> {
        if self.length()?.unwrap_or(0) == 0 {
            return Ok(false);
        }
        let mut reader = self.reader()?;
        reader.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        reader.read_exact(&mut last)?;
        Ok(last != *b"\n")
    }

    /// Opens the same file for reading, even if it was renamed.
    pub(crate) fn reader(&self) -> io::Result<File> {
        File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// Length of a regular file, which can be read back.
    pub(crate) fn length(&self) -> io::Result<Option<u64>> {
        let facts = self.file.metadata()?;
        Ok(facts.is_file().then_some(facts.len()))
    }

    /// Whether the path still names this file.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        gua_files::is_at(&self.file, path)
    }

    /// Continues in another file. The count of lost lines is kept.
    pub(crate) fn go_on(&mut self, path: &Path) -> io::Result<()> {
        let other = Self::append(path)?;
        self.file = other.file;
        self.is_torn = other.is_torn;
        Ok(())
    }

    /// Writes the line with a newline; returns whether it is in the file.
    pub fn write(&mut self, line: &str) -> bool {
        let mut bytes = Vec::with_capacity(line.len() + 2);
        if self.is_torn {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        let written = self.file.write_all(&bytes);
        self.is_torn = written.is_err() && self.ends_within_a_line().unwrap_or(self.is_torn);
        let is_written = written.is_ok();
        if let Err(error) = written {
            self.lost += 1;
            self.last_error = Some(error);
        }
        is_written
    }

    /// Number of lines that could not be written.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Error of the last of them.
    pub fn last_error(&self) -> Option<&io::Error> {
        self.last_error.as_ref()
    }

    /// Returns the error, and forgets it.
    pub(crate) fn take_error(&mut self) -> Option<io::Error> {
        self.last_error.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_in_the_file_before_anything_else_happens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let mut file = LineFile::append(&path).unwrap();
        assert!(file.write("one"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n");
        let mut again = LineFile::append(&path).unwrap();
        assert!(again.write("two"));
        assert!(file.write("three"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\nthree\n");
        LineFile::create(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    }

    #[test]
    fn a_line_that_an_earlier_run_left_torn_does_not_swallow_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let check = |before: &str, expected: &str| {
            std::fs::write(&path, before).unwrap();
            let mut file = LineFile::append(&path).unwrap();
            assert!(file.write("one") && file.write("two"));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        };
        check("{\"ts\": ", "{\"ts\": \none\ntwo\n");
        check("whole\n", "whole\none\ntwo\n");
        check("", "one\ntwo\n");
        std::fs::write(&path, "torn").unwrap();
        let mut second = LineFile::create(&path).unwrap();
        assert!(second.write("one"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n");
    }

    #[test]
    fn lines_lost_to_a_full_disk_are_counted() {
        // Every write to it fails as on a full disk (full(4)).
        let mut file = LineFile::append(Path::new("/dev/full")).unwrap();
        assert!(!file.write("one"));
        assert!(!file.write("two"));
        assert_eq!(file.lost(), 2);
        let error = file.last_error().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    /// Only root can create files of another user.
    #[test]
    fn what_another_user_planted_is_neither_followed_nor_opened() {
        if !gua_test::runs_as_root("run files of another user") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "kept").unwrap();
        let path = folder.path().join("hw_metrics.csv");
        let plant: [(&str, &dyn Fn()); 4] = [
            ("link", &|| {
                std::os::unix::fs::symlink(&victim, &path).unwrap();
            }),
            ("pipe", &|| {
                let mode = rustix::fs::Mode::from_raw_mode(0o666);
                rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
            }),
            ("directory", &|| {
                std::fs::create_dir(&path).unwrap();
            }),
            ("hard link", &|| {
                std::fs::hard_link(&victim, &path).unwrap();
            }),
        ];
        let give = |path: &Path| {
            std::os::unix::fs::lchown(path, Some(65534), Some(65534)).unwrap();
        };
        give(folder.path());
        for (what, plant) in plant {
            plant();
            if what != "hard link" {
                give(&path);
            }
            for open in [LineFile::create, LineFile::append] {
                let refused = open(&path).unwrap_err();
                assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{what}");
            }
            assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept", "{what}");
            let removed = std::fs::remove_file(&path);
            removed.or_else(|_| std::fs::remove_dir(&path)).unwrap();
        }
    }
}
