//! Computes ten numbers from the metric files of a run, written by gua or by the original program: finds the files,
//! determines their kinds and reads them line by line.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use gua_files::FileError;
use gua_model::chain::chain;
use gua_model::failure::Failure;
use gua_wire::run::kind::RunFile;
use gua_wire::run::metrics::DMON_HEADER;
use gua_wire::run::summary::{LineRule, ResourceSummary, Tally};
use serde_json::Value;

use crate::run_summary::JAX_PEAK;

/// Maximum length of a line in a metric file; the rest counts as another line.
const MAX_LINE_LENGTH: u64 = 4096;

/// Maximum number of bytes read to determine the kind of a file, and maximum length of a relevant log line.
const MAX_READ: u64 = 64 << 10;

/// First event of a run; a log may contain several runs.
const RUN_STARTED: &str = "run_started";

/// A summary with its qualifications.
#[derive(Clone, Debug)]
pub struct Summarized {
    pub summary: ResourceSummary,
    /// Names of values that were never measured and are zero in the summary.
    pub missing: Vec<&'static str>,
    /// Whether memory utilisation was read by column position, because the file has no header.
    pub guessed_mem_util: bool,
    /// Number of lines that were left out because one of their values is missing.
    pub left_out: u64,
}

/// Computes what a job used from its metric files, as the original does: a GPU line with a missing value does not count. The
/// numbers of a file that is missing or not given are zero.
///
/// ```
/// use gua_run::build_resource_summary;
///
/// # let folder = tempfile::tempdir()?;
/// let gpu = folder.path().join("hw_metrics.csv");
/// std::fs::write(&gpu, "2026/05/11 00:00:00.000, 40, 5, 1024, 40960, 50.25, 41, 1410, 1215\n")?;
/// let summary = build_resource_summary(Some(&gpu), None, None)?;
/// assert_eq!(summary.peak_vram_mb, 1024.0);
/// assert_eq!(summary.cpu_usr_mean_pct, 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn build_resource_summary(
    gpu: Option<&Path>,
    cpu: Option<&Path>,
    dmon: Option<&Path>,
) -> Result<ResourceSummary, FileError> {
    summarize(gpu, cpu, dmon, LineRule::WholeLine).map(|summarized| summarized.summary)
}

/// Like [`build_resource_summary`] by either rule, and also returns the missing values.
pub fn summarize(
    gpu: Option<&Path>,
    cpu: Option<&Path>,
    dmon: Option<&Path>,
    rule: LineRule,
) -> Result<Summarized, FileError> {
    let mut tally = Tally::by(rule);
    add_lines(gpu, &mut tally, Tally::gpu_line)?;
    add_lines(dmon, &mut tally, Tally::dmon_line)?;
    add_lines(cpu, &mut tally, Tally::cpu_line)?;
    Ok(Summarized {
        summary: tally.summary(),
        missing: tally.missing(),
        guessed_mem_util: tally.guessed_mem_util(),
        left_out: tally.left_out,
    })
}

/// Adds the lines of a file to the tally.
fn add_lines(
    path: Option<&Path>,
    tally: &mut Tally,
    add: fn(&mut Tally, &str) -> bool,
) -> Result<(), FileError> {
    let Some(path) = path else { return Ok(()) };
    let read = for_each_line(path, MAX_LINE_LENGTH, |line| {
        add(tally, line.trim_end());
        ControlFlow::<()>::Continue(())
    });
    match read {
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(()),
        read => read.map(drop),
    }
}

/// Passes the lines of a file to `take`, in parts of at most `longest` bytes, until it breaks.
fn for_each_line<T>(
    path: &Path,
    longest: u64,
    mut take: impl FnMut(&str) -> ControlFlow<T>,
) -> Result<Option<T>, FileError> {
    let mut read = || -> io::Result<Option<T>> {
        let mut reader = BufReader::new(gua_files::open_regular(path)?);
        let mut line = Vec::new();
        while (&mut reader).take(longest).read_until(b'\n', &mut line)? > 0 {
            if let ControlFlow::Break(found) = take(&String::from_utf8_lossy(&line)) {
                return Ok(Some(found));
            }
            line.clear();
        }
        Ok(None)
    };
    read().map_err(FileError::cannot("read", path))
}

/// Summarizes the metric files of a run: a directory, or some of its files. Without a rule, files that `gua run` wrote are
/// read per field, and all others as the original reads them.
pub fn summarize_paths(paths: &[PathBuf], rule: Option<LineRule>) -> Result<Summarized, Failure> {
    let files = match paths {
        [directory] if directory.is_dir() => in_directory(directory)?,
        paths => by_kind(paths)?,
    };
    let path = |file: RunFile| files.get(file.as_str()).map(PathBuf::as_path);
    let (dmon, log) = (path(RunFile::Dmon), path(RunFile::Log));
    let rule = match rule {
        Some(rule) => rule,
        None if is_own(dmon, log).map_err(|error| unreadable(&error))? => LineRule::PerField,
        None => LineRule::WholeLine,
    };
    let found = summarize(path(RunFile::Gpu), path(RunFile::Cpu), dmon, rule);
    let mut found = found.map_err(|error| unreadable(&error))?;
    let peak = log
        .map(jax_peak)
        .transpose()
        .map_err(|error| unreadable(&error))?;
    if let Some(peak) = peak.flatten() {
        found.summary.jax_peak_bytes_mb = peak;
    }
    Ok(found)
}

/// Whether `gua run` wrote the files: the header of its dmon file, or the first event of its log, which the original does
/// not write.
fn is_own(dmon: Option<&Path>, log: Option<&Path>) -> Result<bool, FileError> {
    let has = |path: Option<&Path>, is_mark: &dyn Fn(&str) -> bool| {
        let Some(path) = path else { return Ok(false) };
        let found = for_each_line(path, MAX_READ, |line| match is_mark(line.trim_end()) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        found.map(|found| found.is_some())
    };
    let header = DMON_HEADER.lines().next();
    let is_started = |line: &str| {
        line.contains(RUN_STARTED)
            && serde_json::from_str::<Value>(line).is_ok_and(|entry| entry["event"] == RUN_STARTED)
    };
    Ok(has(dmon, &|line| Some(line) == header)? || has(log, &is_started)?)
}

fn unreadable(error: &FileError) -> Failure {
    Failure::failed(chain(error))
}

/// Peak memory of JAX as reported by the job; the last value counts. If a log contains several runs, the last run
/// counts, because the metric files are those of the last run.
fn jax_peak(log: &Path) -> Result<Option<f64>, FileError> {
    let mut peak = None;
    for_each_line(log, MAX_READ, |text| {
        if (text.contains(JAX_PEAK) || text.contains(RUN_STARTED))
            && let Ok(entry) = serde_json::from_str::<Value>(text)
        {
            if entry["event"] == RUN_STARTED {
                peak = None;
            }
            let reported = entry["data"][JAX_PEAK].as_f64();
            peak = reported.or_else(|| entry[JAX_PEAK].as_f64()).or(peak);
        }
        ControlFlow::<()>::Continue(())
    })?;
    Ok(peak)
}

/// Files of a run by the names that they usually have.
type Files = BTreeMap<&'static str, PathBuf>;

fn by_kind(paths: &[PathBuf]) -> Result<Files, Failure> {
    let mut files = Files::new();
    for path in paths {
        if path.is_dir() {
            return Err(Failure::usage("one directory at a time, or files"));
        }
        if !path.exists() {
            return Err(Failure::usage(format!("no file `{}`", path.display())));
        }
        if let Some(other) = files.insert(kind(path)?.as_str(), path.clone()) {
            let (other, path) = (other.display(), path.display());
            let problem = format!("`{other}` and `{path}` are files of the same kind");
            return Err(Failure::usage(problem));
        }
    }
    Ok(files)
}

fn in_directory(directory: &Path) -> Result<Files, Failure> {
    let names = RunFile::ALL.map(RunFile::as_str).into_iter();
    let paths = names.map(|name| (name, directory.join(name)));
    let files: Files = paths.filter(|(_, path)| path.exists()).collect();
    if files.keys().all(|name| *name == RunFile::Log.as_str()) {
        let names = [RunFile::Gpu, RunFile::Cpu, RunFile::Dmon].map(RunFile::as_str);
        let (directory, names) = (directory.display(), names.join(", "));
        let problem = format!("`{directory}` has none of the files {names}");
        return Err(Failure::usage(problem));
    }
    Ok(files)
}

/// Determines the kind of a file by its contents, because file names vary; by its name if the contents are inconclusive.
/// The first recognized line counts, because messages of nvidia-smi may precede it.
fn kind(path: &Path) -> Result<RunFile, Failure> {
    let mut read = 0;
    let found = for_each_line(path, MAX_READ, |line| {
        read += line.len() as u64;
        match RunFile::of_line(line) {
            Some(file) => ControlFlow::Break(Some(file)),
            None if read >= MAX_READ => ControlFlow::Break(None),
            None => ControlFlow::Continue(()),
        }
    });
    if let Some(file) = found.map_err(|error| unreadable(&error))?.flatten() {
        return Ok(file);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    RunFile::of_name(&name).ok_or_else(|| {
        let path = path.display();
        let message = match read {
            0 => format!("`{path}` is empty, and its name is not that of a run file"),
            _ => format!("`{path}` is not a file of a run"),
        };
        let names = RunFile::ALL.map(RunFile::as_str).join(", ");
        Failure::usage(message).hint(format!(
            "pass a file named {names}, or a file in the format of one of them"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_files_leave_zeros_and_are_reported() {
        let nowhere = Path::new("/nonexistent/hw_metrics.csv");
        let found = summarize(Some(nowhere), None, Some(nowhere), LineRule::PerField).unwrap();
        assert_eq!(found.summary, ResourceSummary::default());
        assert_eq!(found.missing.len(), 6);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = summarize(None, Some(folder.path()), None, LineRule::PerField).unwrap_err();
        assert_eq!(error.path, folder.path());
        assert!(error.to_string().contains("cannot read `/"), "{error}");
    }

    #[test]
    fn a_file_without_lines_does_not_fill_the_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        std::fs::write(&path, vec![b'x'; 1 << 20]).unwrap();
        let found = summarize(Some(&path), Some(&path), Some(&path), LineRule::WholeLine).unwrap();
        assert_eq!(found.summary, ResourceSummary::default());
    }
}
