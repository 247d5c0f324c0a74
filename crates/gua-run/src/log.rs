//! The log of a job: phases and events, kept in memory or written to a file as they happen. Lines in a file are not
//! kept in memory too, because a job may run for months.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use gua_files::{NewFile, Over};
use gua_wire::run::json::{Fields, NoJson};
use gua_wire::run::log::{self, Seconds};
use jiff::Timestamp;
use serde::de::IgnoredAny;

use crate::lines::LineFile;

/// Maximum number of lines that are kept for reading back after they went to a pipe or a device.
const MAX_RECENT: usize = 10_000;

/// Phases and events of one run, one JSON object each.
///
/// ```
/// use gua_run::{Fields, RunLog};
///
/// let at = "2026-05-11T00:00:00Z".parse().unwrap();
/// let mut log = RunLog::new();
/// log.phase(at, "fit", 1.5, &Fields::new().with("chains", 4));
/// log.event(at, "checkpoint", &Fields::new());
/// let lines = log.lines()?;
/// assert_eq!(lines.len(), 2);
/// assert!(lines[0].ends_with(r#""name": "fit", "seconds": 1.5, "chains": 4}"#));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct RunLog {
    length: usize,
    file: Option<LineFile>,
    /// Offset of the first line, in a file that can be read back.
    from: Option<u64>,
    /// Lines that cannot be read back from a file: those in memory alone, and the last ones that went to a pipe or a
    /// device.
    recent: VecDeque<String>,
}

impl RunLog {
    /// Creates a log in memory alone, until [`RunLog::write`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a log that appends to this file as events happen and keeps nothing in memory.
    pub fn in_file(path: &Path) -> io::Result<Self> {
        let file = LineFile::append(path)?;
        Ok(Self {
            from: file.length()?,
            file: Some(file),
            ..Self::default()
        })
    }

    /// Records a phase that ended at `at`, with its duration.
    pub fn phase(
        &mut self,
        at: Timestamp,
        name: &str,
        seconds: impl Into<Seconds>,
        extra: &Fields,
    ) {
        self.push(log::phase(at, name, seconds, extra));
    }

    /// Records an event.
    pub fn event(&mut self, at: Timestamp, name: &str, data: &Fields) {
        self.push(log::event(at, name, data));
    }

    /// Records an event whose data is any JSON value.
    pub fn event_with(&mut self, at: Timestamp, name: &str, json: &str) -> Result<(), NoJson> {
        let mut event = Fields::new().with("event", name);
        event.insert_json("data", json)?;
        self.push(log::other(at, "event", &event));
        Ok(())
    }

    /// Number of lines so far, including those that could not be written.
    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns all lines so far, oldest first. Lines in a file are read back from it, including lines that other
    /// programs appended meanwhile; for a pipe or a device, the last ten thousand are returned.
    pub fn lines(&self) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        self.for_each(|line| {
            lines.push(line.to_owned());
            Ok(())
        })?;
        Ok(lines)
    }

    /// File that the log appends to, with its write errors.
    pub fn file(&self) -> Option<&LineFile> {
        self.file.as_ref()
    }

    /// Writes all lines to a file and replaces its contents. A reader sees the old file or the new one, never a part.
    /// If it is the file that the log appends to, the log continues there.
    pub fn write(&mut self, path: &Path) -> io::Result<()> {
        let is_own = self.file().is_some_and(|file| file.is_at(path));
        let new = NewFile::begin(path, Over::Write)?;
        let mut out = BufWriter::new(&new.file);
        self.for_each(|line| writeln!(out, "{line}"))?;
        out.flush()?;
        drop(out);
        new.finish()?;
        match (&mut self.file, &mut self.from) {
            (Some(file), Some(from)) if is_own => {
                *from = 0;
                file.go_on(path)
            }
            _ => Ok(()),
        }
    }

    fn for_each(&self, mut take: impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
        let (Some(file), Some(from)) = (&self.file, self.from) else {
            return self.recent.iter().try_for_each(|line| take(line));
        };
        let mut reader = file.reader()?;
        reader.seek(SeekFrom::Start(from))?;
        for line in BufReader::new(reader).lines() {
            let line = line?;
            // A line that was truncated by a full disk is skipped.
            if serde_json::from_str::<IgnoredAny>(&line).is_ok() {
                take(&line)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, line: String) {
        self.length += 1;
        if let Some(file) = &mut self.file {
            file.write(&line);
            if self.recent.len() == MAX_RECENT {
                self.recent.pop_front();
            }
        }
        if self.from.is_none() {
            self.recent.push_back(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Timestamp {
        "2026-05-11T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn what_happens_is_in_the_file_at_once_and_the_whole_can_be_written_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let read = || std::fs::read_to_string(&path).unwrap();
        let mut log = RunLog::in_file(&path).unwrap();
        log.event(at(), "began", &Fields::new());
        assert_eq!(read().lines().count(), 1);
        log.phase(at(), "fit", 2.0, &Fields::new());
        assert_eq!(read().lines().count(), 2);
        let copy = folder.path().join("copy.jsonl");
        log.write(&copy).unwrap();
        log.write(&copy).unwrap();
        assert_eq!(std::fs::read_to_string(&copy).unwrap(), read());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn an_empty_log_is_an_empty_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        std::fs::write(&path, "old\n").unwrap();
        RunLog::new().write(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    }

    #[test]
    fn lines_of_a_file_are_read_back_from_where_it_was_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        std::fs::write(&path, "{\"of\": \"an earlier run\"}\n").unwrap();
        let mut log = RunLog::in_file(&path).unwrap();
        log.event(at(), "one", &Fields::new());
        std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(b"{\"cut o\n"))
            .unwrap();
        log.event(at(), "two", &Fields::new());
        assert_eq!((log.len(), log.is_empty()), (2, false));
        let lines = log.lines().unwrap();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[1].contains("two"), "{lines:?}");
        assert!(log.file().is_some());
    }

    #[test]
    fn a_log_that_is_written_over_its_own_file_continues_in_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        std::fs::write(&path, "{\"of\": \"an earlier run\"}\n").unwrap();
        let mut log = RunLog::in_file(&path).unwrap();
        for (said, own) in [(1, &path), (2, &path), (3, &link)] {
            log.event(at(), "more", &Fields::new());
            log.write(own).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text.lines().count(), said, "{text}");
            assert_eq!(log.lines().unwrap().len(), said);
        }
    }

    #[test]
    fn what_went_to_a_device_is_kept_for_a_while() {
        let mut log = RunLog::in_file(Path::new("/dev/null")).unwrap();
        for _ in 0..MAX_RECENT + 5 {
            log.event(at(), "more", &Fields::new());
        }
        assert_eq!(log.lines().unwrap().len(), MAX_RECENT);
        assert_eq!(log.len(), MAX_RECENT + 5);
    }
}
