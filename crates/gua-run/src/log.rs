//! What a job says of itself: phases and events, kept in memory and, where there is a file, written as they happen.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use gua_wire::run::json::Fields;
use gua_wire::run::log;
use jiff::Timestamp;

use crate::lines::LineFile;

/// Phases and events of one run, one JSON object each.
///
/// ```
/// use gua_run::{Fields, RunLog};
///
/// let at = "2026-05-11T00:00:00Z".parse().unwrap();
/// let mut log = RunLog::new();
/// log.phase(at, "fit", 1.5, &Fields::new().with("chains", 4));
/// log.event(at, "checkpoint", &Fields::new());
/// assert_eq!(log.lines().count(), 2);
/// assert!(log.lines().next().unwrap().ends_with(r#""name": "fit", "seconds": 1.5, "chains": 4}"#));
/// ```
#[derive(Debug, Default)]
pub struct RunLog {
    lines: Vec<String>,
    file: Option<LineFile>,
}

impl RunLog {
    /// In memory alone, until [`RunLog::write`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Also written to the end of this file, as it happens.
    pub fn in_file(path: &Path) -> io::Result<Self> {
        Ok(Self {
            lines: Vec::new(),
            file: Some(LineFile::append(path)?),
        })
    }

    /// A phase that ended at `at` and took so long.
    pub fn phase(&mut self, at: Timestamp, name: &str, seconds: f64, extra: &Fields) {
        self.push(log::phase(at, name, seconds, extra));
    }

    /// Something that happened.
    pub fn event(&mut self, at: Timestamp, name: &str, data: &Fields) {
        self.push(log::event(at, name, data));
    }

    /// All lines so far, oldest first.
    pub fn lines(&self) -> impl ExactSizeIterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }

    /// The file that it writes as it goes; what could not be written is told there.
    #[must_use]
    pub fn file(&self) -> Option<&LineFile> {
        self.file.as_ref()
    }

    /// Puts all lines into a file, in place of what was there. A reader sees the old file or the new one, never a part.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = self.lines.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        replace(path, text.as_bytes())
    }

    fn push(&mut self, line: String) {
        if let Some(file) = &mut self.file {
            file.write(&line);
        }
        self.lines.push(line);
    }
}

/// Where the new file is written that is to take this one's place.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    path.with_file_name(name)
}

/// Writes a file beside the old one and puts it in its place. What is no plain file (a pipe, `/dev/stdout`) is written to.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let is_special = path.metadata().is_ok_and(|facts| !facts.is_file());
    let is_link = path
        .symlink_metadata()
        .is_ok_and(|facts| facts.file_type().is_symlink());
    if is_special || is_link || path.file_name().is_none() {
        return std::fs::write(path, content);
    }
    let beside = beside(path);
    let written = std::fs::File::create(&beside)
        .and_then(|mut file| file.write_all(content))
        .and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
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
}
