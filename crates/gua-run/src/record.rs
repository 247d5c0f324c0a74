//! The directory of a run, and its files. It is created before the job starts; files of an earlier run are kept until the job
//! has started. Lines that cannot be written afterwards are counted, and never disturb the job.

use std::io;
use std::path::{Path, PathBuf};

use gua_wire::run::file;
use gua_wire::run::json::Fields;
use gua_wire::run::{log, metrics};
use jiff::Timestamp;

use crate::lines::LineFile;
use crate::log::{beside, replace};
use crate::phases::PhaseSummary;
use crate::run_summary::counted;
use crate::watch::GpuLines;

/// Error of opening a run's directory.
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
    /// Why files of an earlier run could not be removed.
    begin_error: Option<io::Error>,
    summary_error: Option<io::Error>,
}

impl Record {
    /// Creates the directory and the files, and checks that they can be written. Content of an earlier run stays until the
    /// job starts.
    pub fn open(directory: &Path) -> Result<Self, OutputError> {
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |source| OutputError { path, source }
        };
        std::fs::create_dir_all(directory).map_err(fail(directory))?;
        let at = |name: &str| directory.join(name);
        // The summary is written to a new file, which then replaces the old one.
        can_replace(&at(file::SUMMARY)).map_err(fail(&at(file::SUMMARY)))?;
        let append = |name: &str| LineFile::append(&at(name)).map_err(fail(&at(name)));
        Ok(Self {
            directory: directory.to_owned(),
            log: append(file::LOG)?,
            gpu: append(file::GPU)?,
            dmon: append(file::DMON)?,
            cpu: append(file::CPU)?,
            has_dmon_head: false,
            begin_error: None,
            summary_error: None,
        })
    }

    /// Truncates the files, once the job has started. `run.jsonl` is appended to across runs in one directory.
    pub(crate) fn begin(&mut self) {
        let metrics = [&mut self.gpu, &mut self.dmon, &mut self.cpu];
        let emptied: io::Result<()> = metrics.into_iter().try_for_each(LineFile::empty);
        let removed = match std::fs::remove_file(self.directory.join(file::SUMMARY)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        self.begin_error = emptied.and(removed).err();
        self.cpu.write(metrics::CPU_HEADER);
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

    pub(crate) fn gpus(&mut self, lines: &GpuLines) {
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

    /// Write failures so far, in sentences.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let files = [&self.log, &self.gpu, &self.dmon, &self.cpu];
        let lost: u64 = files.iter().map(|file| file.lost()).sum();
        let error = files.iter().find_map(|file| file.last_error());
        let lines = counted(
            lost,
            "line could not be written",
            "lines could not be written",
        );
        let lines = lines
            .zip(error)
            .map(|(lines, error)| format!("{lines}: {error}"));
        let old = self.begin_error.as_ref();
        let old = old.map(|error| format!("cannot remove files of an earlier run: {error}"));
        old.into_iter().chain(lines).collect()
    }

    /// Why the summary was not written, in a sentence.
    #[must_use]
    pub fn summary_problem(&self) -> Option<String> {
        let error = self.summary_error.as_ref()?;
        Some(format!("cannot write {}: {error}", file::SUMMARY))
    }
}

/// Checks that this file can be replaced.
fn can_replace(path: &Path) -> io::Result<()> {
    if path.symlink_metadata().is_ok_and(|facts| facts.is_dir()) {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let beside = beside(path);
    std::fs::File::create(&beside)?;
    std::fs::remove_file(&beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_created_and_an_error_names_it() {
        let folder = tempfile::tempdir().unwrap();
        Record::open(&folder.path().join("a/b")).unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = Record::open(&file).unwrap_err();
        assert!(error.to_string().contains("/file`"), "{error}");
        std::fs::create_dir_all(folder.path().join("c/summary.json")).unwrap();
        let error = Record::open(&folder.path().join("c")).unwrap_err();
        assert!(error.to_string().contains("/summary.json`"), "{error}");
    }

    #[test]
    fn files_of_an_earlier_run_stay_until_the_next_one_begins() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).ok();
        let line = || GpuLines {
            gpu: vec!["card".to_owned()],
            ..GpuLines::default()
        };
        let mut record = Record::open(folder.path()).unwrap();
        record.begin();
        record.event(Timestamp::UNIX_EPOCH, "e", &Fields::new());
        record.gpus(&line());
        record.summary("{}\n");
        assert_eq!(record.problems(), [""; 0]);
        drop(record);
        let mut record = Record::open(folder.path()).unwrap();
        assert_eq!(read("hw_metrics.csv").unwrap(), "card\n");
        assert_eq!(read("summary.json").unwrap(), "{}\n");
        record.begin();
        assert_eq!(read("hw_metrics.csv").unwrap(), "");
        assert_eq!(read("summary.json"), None, "an old summary is not ours");
        assert_eq!(
            read("cpu_metrics.csv").unwrap().lines().count(),
            1,
            "the head"
        );
        assert_eq!(
            read("run.jsonl").unwrap().lines().count(),
            1,
            "the log continues"
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
    }
}
