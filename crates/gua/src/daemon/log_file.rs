//! The log of a daemon in the background: standard output and standard error lead to it. When it has grown it is put
//! aside, and the two streams move on to a new one.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::observer;

/// Logs that were put aside and are kept: `gua.log.1` is the younger.
const KEPT: u32 = 2;

/// Where the lines go, and how many of them.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    most_bytes: u64,
    /// What may be written before its size is looked at again.
    room: Cell<u64>,
}

impl LogFile {
    /// Leads standard output and standard error to the file.
    pub(super) fn open(path: &Path, most_bytes: u64) -> io::Result<Self> {
        let log = Self {
            path: path.to_owned(),
            most_bytes,
            room: Cell::new(0),
        };
        log.reopen()?;
        Ok(log)
    }

    /// Opens the file again under its name, for whoever has moved it away.
    pub(super) fn reopen(&self) -> io::Result<()> {
        let file = open_to_append(&self.path)?;
        rustix::stdio::dup2_stdout(&file)?;
        rustix::stdio::dup2_stderr(&file)?;
        self.room.set(0);
        Ok(())
    }

    pub(super) fn limit(&mut self, most_bytes: u64) {
        self.most_bytes = most_bytes;
        self.room.set(0);
    }

    /// Puts a log that has grown aside, after so many bytes were written to it. What goes wrong here must not stop the
    /// daemon: the old file is then written on.
    pub(super) fn settle(&self, written: usize) {
        let room = self.room.get().saturating_sub(written as u64);
        self.room.set(room);
        if room > 0 {
            return;
        }
        let size = rustix::fs::fstat(io::stderr()).map(|facts| facts.st_size);
        let size = size.map_or(0, |size| u64::try_from(size).unwrap_or(0));
        let room = self.most_bytes.saturating_sub(size);
        self.room.set(room);
        if room == 0 && self.put_aside().is_ok() {
            let _ = self.reopen();
        }
    }

    fn put_aside(&self) -> io::Result<()> {
        for age in (1..KEPT).rev() {
            // There may be no older one yet.
            let _ = std::fs::rename(self.aside(age), self.aside(age + 1));
        }
        std::fs::rename(&self.path, self.aside(1))
    }

    fn aside(&self, age: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{age}"));
        name.into()
    }
}

/// A log to write on.
pub(super) fn open_to_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// The last lines of a log, for a person whose daemon did not start. Ticks that were read would push the reason out.
pub(super) fn last_lines(path: &Path, number: usize, from: u64) -> String {
    const MOST_BYTES: u64 = 64 * 1024;
    let read = || -> io::Result<Vec<u8>> {
        use std::io::{Read as _, Seek as _, SeekFrom};
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(
            from.max(length.saturating_sub(MOST_BYTES)).min(length),
        ))?;
        let mut bytes = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with(observer::TICK))
        .collect();
    let shown = lines.get(lines.len().saturating_sub(number)..);
    shown
        .unwrap_or_default()
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
