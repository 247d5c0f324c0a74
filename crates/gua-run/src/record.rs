//! The directory of a run, and its files. It is made before the job starts; what cannot be written afterwards is counted,
//! and costs the job nothing.

use std::io;
use std::path::{Path, PathBuf};

use gua_wire::run::file;
use gua_wire::run::json::Fields;
use gua_wire::run::{log, metrics};
use jiff::Timestamp;

use crate::lines::LineFile;
use crate::log::replace;
use crate::phases::PhaseSummary;
use crate::watch::CardLines;

/// Why there is no directory to write to.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to `{}`", path.display())]
pub struct OutputError {
    pub path: PathBuf,
    #[source]
    pub source: io::Error,
}

/// The files of one run.
#[derive(Debug)]
pub struct Record {
    directory: PathBuf,
    log: LineFile,
    gpu: LineFile,
    dmon: LineFile,
    cpu: LineFile,
    has_dmon_head: bool,
    summary_error: Option<io::Error>,
}

impl Record {
    /// Makes the directory and the files. `run.jsonl` goes on where an earlier run in the same directory ended; the others
    /// begin anew.
    pub fn open(directory: &Path) -> Result<Self, OutputError> {
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |source| OutputError { path, source }
        };
        std::fs::create_dir_all(directory).map_err(fail(directory))?;
        let at = |name: &str| directory.join(name);
        let made = |name: &str| LineFile::create(&at(name)).map_err(fail(&at(name)));
        let log = LineFile::append(&at(file::LOG)).map_err(fail(&at(file::LOG)))?;
        let (gpu, dmon, mut cpu) = (made(file::GPU)?, made(file::DMON)?, made(file::CPU)?);
        cpu.write(metrics::CPU_HEADER);
        match std::fs::remove_file(at(file::SUMMARY)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(fail(&at(file::SUMMARY))(error));
            }
            _ => {}
        }
        Ok(Self {
            directory: directory.to_owned(),
            log,
            gpu,
            dmon,
            cpu,
            has_dmon_head: false,
            summary_error: None,
        })
    }

    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn event(&mut self, at: Timestamp, name: &str, data: &Fields) {
        self.log.write(&log::event(at, name, data));
    }

    pub(crate) fn phase(&mut self, at: Timestamp, ended: &PhaseSummary) {
        let extra = match ended.gpu_util_mean_pct {
            Some(util) => Fields::new().with("gpu_util_mean_pct", util),
            None => Fields::new(),
        };
        self.log
            .write(&log::phase(at, &ended.name, ended.seconds, &extra));
    }

    pub(crate) fn sample(&mut self, at: Timestamp, fields: &Fields) {
        self.log.write(&log::other(at, "sample", fields));
    }

    pub(crate) fn cards(&mut self, lines: &CardLines) {
        for line in &lines.gpu {
            self.gpu.write(line);
        }
        for line in &lines.dmon {
            if !self.has_dmon_head {
                self.has_dmon_head = self.dmon.write(metrics::DMON_HEADER);
            }
            self.dmon.write(line);
        }
    }

    pub(crate) fn cpu(&mut self, line: &str) {
        self.cpu.write(line);
    }

    pub(crate) fn summary(&mut self, text: &str) {
        let path = self.directory.join(file::SUMMARY);
        self.summary_error = replace(&path, text.as_bytes()).err();
    }

    /// What could not be written so far, in a sentence.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let files = [&self.log, &self.gpu, &self.dmon, &self.cpu];
        let lost: u64 = files.iter().map(|file| file.lost()).sum();
        let error = files.iter().find_map(|file| file.last_error());
        match (lost, error, &self.summary_error) {
            (0, _, None) => None,
            (_, _, Some(error)) => Some(format!("{} is not written: {error}", file::SUMMARY)),
            (lost, error, None) => Some(format!(
                "{lost} lines are not written: {}",
                error.map_or_else(String::new, ToString::to_string)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_made_and_one_that_cannot_be_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a/b");
        let mut record = Record::open(&out).unwrap();
        record.event(Timestamp::UNIX_EPOCH, "e", &Fields::new());
        record.summary("{}\n");
        assert_eq!(record.trouble(), None);
        drop(record);
        Record::open(&out).unwrap();
        let log = std::fs::read_to_string(out.join("run.jsonl")).unwrap();
        assert_eq!(log.lines().count(), 1, "the log goes on");
        assert!(
            !out.join("summary.json").exists(),
            "an old summary is not ours"
        );

        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = Record::open(&file).unwrap_err();
        assert!(error.to_string().contains("/file`"), "{error}");
    }
}
