//! The log file of a background daemon: standard output and standard error are redirected to it, and it is rotated when
//! it has grown.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use gua_compat::gpu_usage_audit::tick_line;

/// Number of rotated logs that are kept; `gua.log.1` is the newest.
const KEPT: u32 = 2;

/// The log file of this process.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    pub max_bytes: u64,
}

impl LogFile {
    /// Redirects standard output and standard error to the file.
    pub fn open(path: &Path, max_bytes: u64) -> io::Result<Self> {
        let log = Self {
            path: path.to_owned(),
            max_bytes,
        };
        log.reopen()?;
        Ok(log)
    }

    /// Opens the path again, after another program has renamed the file.
    pub fn reopen(&self) -> io::Result<()> {
        let file = open_to_append(&self.path)?;
        rustix::stdio::dup2_stdout(&file)?;
        rustix::stdio::dup2_stderr(&file)?;
        Ok(())
    }

    /// Rotates the log if it has reached its maximum size. After an error the daemon continues with the old file.
    pub fn rotate_if_full(&self) {
        let size = rustix::fs::fstat(io::stderr()).map_or(0, |stat| stat.st_size);
        if u64::try_from(size).unwrap_or(0) >= self.max_bytes && self.rotate().is_ok() {
            let _ = self.reopen();
        }
    }

    fn rotate(&self) -> io::Result<()> {
        for age in (1..KEPT).rev() {
            // Fails if there is no older log yet.
            let _ = std::fs::rename(self.rotated(age), self.rotated(age + 1));
        }
        std::fs::rename(&self.path, self.rotated(1))
    }

    fn rotated(&self, age: u32) -> PathBuf {
        gua_files::beside(&self.path, &format!(".{age}"))
    }
}

/// Opens a log file for appending.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    gua_files::open_own(path, OpenOptions::new().append(true))
}

/// The last lines of a log after an offset, for a daemon that did not start. Tick lines are left out, because they would
/// push out the reason.
pub fn last_lines(path: &Path, number: usize, from: u64) -> String {
    // Days of tick lines fit.
    const MAX_BYTES: u64 = 8 << 20;
    let read = || -> io::Result<Vec<u8>> {
        let file = gua_files::open_regular(path)?;
        let length = file.metadata()?.len();
        let begin = length.saturating_sub(MAX_BYTES);
        let mut file = BufReader::new(file);
        file.seek(SeekFrom::Start(from.max(begin).min(length)))?;
        if begin > from {
            // The rest of a line is not recognized as that of a tick.
            file.skip_until(b'\n')?;
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with(tick_line::PREFIX))
        .collect();
    let last = lines.get(lines.len().saturating_sub(number)..);
    last.unwrap_or_default()
        .iter()
        .map(|line| format!("{line}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_those_of_this_start() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gua.log");
        assert_eq!(last_lines(&path, 3, 0), "", "no file, no lines");
        std::fs::write(&path, "old\n1\n2\n3\n4\n").unwrap();
        assert_eq!(last_lines(&path, 3, 4), "2\n3\n4\n");
        assert_eq!(last_lines(&path, 9, 4), "1\n2\n3\n4\n");
        assert_eq!(last_lines(&path, 9, 4000), "");
        std::fs::write(&path, "why\nTick 7  ts=1\nTick 8  ts=2\n").unwrap();
        assert_eq!(last_lines(&path, 2, 0), "why\n");
    }
}
