//! The directory of a run, and its files. It is created before the job starts; files of an earlier run are kept until the job
//! has started. Lines that cannot be written afterwards are counted, and never disturb the job.

use std::io;
use std::path::{Path, PathBuf};

use gua_files::{FileError, NewFile, Over};
use gua_wire::run::json::Fields;
use gua_wire::run::kind::RunFile;
use gua_wire::run::{SUMMARY, log, metrics};
use jiff::Timestamp;

use crate::lines::LineFile;
use crate::phases::PhaseSummary;
use crate::run_summary::counted;
use crate::watch::GpuLines;

/// The two metric files of GPUs.
#[derive(Debug)]
pub(crate) struct GpuFiles {
    gpu: LineFile,
    dmon: LineFile,
    has_dmon_head: bool,
}

impl GpuFiles {
    /// Opens the files of a directory with this function.
    pub(crate) fn open<E>(
        directory: &Path,
        open: impl Fn(&Path) -> Result<LineFile, E>,
    ) -> Result<Self, E> {
        Ok(Self {
            gpu: open(&directory.join(RunFile::Gpu.as_str()))?,
            dmon: open(&directory.join(RunFile::Dmon.as_str()))?,
            has_dmon_head: false,
        })
    }

    /// Writes the lines of one GPU; returns whether that of `hw_metrics.csv` is in the file.
    pub(crate) fn write(&mut self, gpu: &str, dmon: &str) -> bool {
        if !self.has_dmon_head {
            self.has_dmon_head = self.dmon.write(metrics::DMON_HEADER);
        }
        self.dmon.write(dmon);
        self.gpu.write(gpu)
    }

    /// Returns a write error since the last call.
    pub(crate) fn take_error(&mut self) -> Option<io::Error> {
        self.gpu.take_error().or(self.dmon.take_error())
    }
}

/// The files of one run.
#[derive(Debug)]
pub struct Record {
    directory: PathBuf,
    log: LineFile,
    gpus: GpuFiles,
    cpu: LineFile,
    /// Why files of an earlier run could not be removed.
    begin_error: Option<io::Error>,
}

impl Record {
    /// Creates the directory and the files, and checks that they can be written. Content of an earlier run stays until the
    /// job starts.
    pub fn open(directory: &Path) -> Result<Self, FileError> {
        let fail = |path: &Path| FileError::cannot("write to", path);
        std::fs::create_dir_all(directory).map_err(fail(directory))?;
        // The summary is written to a new file, which then replaces the old one.
        let summary = directory.join(SUMMARY);
        NewFile::begin(&summary, Over::Write).map_err(fail(&summary))?;
        let append = |path: &Path| LineFile::append(path).map_err(fail(path));
        Ok(Self {
            directory: directory.to_owned(),
            log: append(&directory.join(RunFile::Log.as_str()))?,
            gpus: GpuFiles::open(directory, append)?,
            cpu: append(&directory.join(RunFile::Cpu.as_str()))?,
            begin_error: None,
        })
    }

    /// Truncates the files, once the job has started. `run.jsonl` is appended to across runs in one directory.
    pub(crate) fn begin(&mut self) {
        let metrics = [&mut self.gpus.gpu, &mut self.gpus.dmon, &mut self.cpu];
        let emptied: io::Result<()> = metrics.into_iter().try_for_each(LineFile::empty);
        let removed = match std::fs::remove_file(self.directory.join(SUMMARY)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        self.begin_error = emptied.and(removed).err();
        self.cpu.write(metrics::CPU_HEADER);
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
        for (gpu, dmon) in &lines.metrics {
            self.gpus.write(gpu, dmon);
        }
    }

    pub(crate) fn cpu(&mut self, line: &str) {
        self.cpu.write(line);
    }

    /// Writes the summary, or returns why that failed, in a sentence.
    pub(crate) fn summary(&self, text: &str) -> Option<String> {
        let path = self.directory.join(SUMMARY);
        let error = gua_files::replace(&path, text.as_bytes(), 0o666).err()?;
        Some(format!("cannot write {SUMMARY}: {error}"))
    }

    /// Write failures so far, in sentences.
    pub fn problems(&self) -> Vec<String> {
        let files = [&self.log, &self.gpus.gpu, &self.gpus.dmon, &self.cpu];
        let lost: u64 = files.iter().map(|file| file.lost()).sum();
        let error = files.iter().find_map(|file| file.last_error());
        let lines = counted(lost, "line could", "lines could");
        let lines = lines
            .zip(error)
            .map(|(lines, error)| format!("{lines} not be written: {error}"));
        let old = self.begin_error.as_ref();
        let old = old.map(|error| format!("cannot remove files of an earlier run: {error}"));
        old.into_iter().chain(lines).collect()
    }
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
            metrics: vec![("gpu".to_owned(), "dmon".to_owned())],
            ..GpuLines::default()
        };
        let mut record = Record::open(folder.path()).unwrap();
        record.begin();
        record.event(Timestamp::UNIX_EPOCH, "e", &Fields::new());
        record.gpus(&line());
        assert_eq!(record.summary("{}\n"), None);
        assert_eq!(record.problems(), [""; 0]);
        drop(record);
        let mut record = Record::open(folder.path()).unwrap();
        assert_eq!(read("hw_metrics.csv").unwrap(), "gpu\n");
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
