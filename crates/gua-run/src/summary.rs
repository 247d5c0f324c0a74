//! Computes ten numbers from the metric files of a run, written by gua or by the original program.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use gua_wire::run::summary::{ResourceSummary, Tally};

/// Maximum length of a line in these files; the rest is ignored.
const LONGEST_LINE: u64 = 4096;

/// A file exists and cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read `{}`", path.display())]
pub struct UnreadableFile {
    pub path: PathBuf,
    pub source: io::Error,
}

/// A summary with its qualifications.
#[derive(Clone, Debug)]
pub struct Summarized {
    pub summary: ResourceSummary,
    /// Names of values that were never measured and are zero in the summary.
    pub missing: Vec<&'static str>,
    /// Whether memory utilisation was read by column position, because the file has no header.
    pub guessed_mem_util: bool,
    /// Number of lines with readings in each of the files.
    pub gpu_lines: u64,
    pub cpu_lines: u64,
    pub dmon_lines: u64,
}

/// Computes what a job used from its metric files. The numbers of a file that is missing or not given are zero.
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
) -> Result<ResourceSummary, UnreadableFile> {
    summarize(gpu, cpu, dmon).map(|summarized| summarized.summary)
}

/// Like [`build_resource_summary`], and also returns the missing values.
pub fn summarize(
    gpu: Option<&Path>,
    cpu: Option<&Path>,
    dmon: Option<&Path>,
) -> Result<Summarized, UnreadableFile> {
    let mut tally = Tally::default();
    let gpu_lines = lines(gpu, |line| tally.gpu_line(line))?;
    let dmon_lines = lines(dmon, |line| tally.dmon_line(line))?;
    let cpu_lines = lines(cpu, |line| tally.cpu_line(line))?;
    Ok(Summarized {
        summary: tally.summary(),
        missing: tally.missing(),
        guessed_mem_util: tally.guessed_mem_util(),
        gpu_lines,
        cpu_lines,
        dmon_lines,
    })
}

/// Passes the lines of a file to `take` and counts those with readings.
fn lines(path: Option<&Path>, take: impl FnMut(&str) -> bool) -> Result<u64, UnreadableFile> {
    let Some(path) = path else { return Ok(0) };
    match File::open(path).and_then(|file| lines_of(file, take)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        counted => counted.map_err(|source| UnreadableFile {
            path: path.to_owned(),
            source,
        }),
    }
}

fn lines_of(file: File, mut take: impl FnMut(&str) -> bool) -> io::Result<u64> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let mut counted = 0;
    loop {
        line.clear();
        let read = (&mut reader)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(counted);
        }
        counted += u64::from(take(String::from_utf8_lossy(&line).trim_end()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_not_there_leave_zeros_and_are_told() {
        let nowhere = Path::new("/nonexistent/hw_metrics.csv");
        let found = summarize(Some(nowhere), None, Some(nowhere)).unwrap();
        assert_eq!(found.summary, ResourceSummary::default());
        assert_eq!(found.missing.len(), 6);
        assert_eq!(found.gpu_lines, 0);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = summarize(None, Some(folder.path()), None).unwrap_err();
        assert_eq!(error.path, folder.path());
        assert!(error.to_string().contains("cannot read `/"), "{error}");
    }

    #[test]
    fn a_file_without_lines_does_not_fill_the_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        std::fs::write(&path, vec![b'x'; 1 << 20]).unwrap();
        let found = summarize(Some(&path), Some(&path), Some(&path)).unwrap();
        assert_eq!(found.summary, ResourceSummary::default());
    }
}
