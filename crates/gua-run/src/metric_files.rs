//! Finds the metric files of a run, determines their kinds and summarizes them.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use gua_model::chain::chain;
use gua_model::failure::Failure;
use serde_json::Value;

use crate::{JAX_PEAK, RunFile, Summarized, UnreadableFile, summarize};

/// Maximum number of bytes read to determine the kind of a file, and maximum length of a relevant log line.
const LOOKED_AT: u64 = 64 << 10;

/// First event of a run; a log may contain several runs.
const RUN_STARTED: &str = "run_started";

/// Summarizes the metric files of a run: a directory, or some of its files.
pub fn summarize_paths(paths: &[PathBuf]) -> Result<Summarized, Failure> {
    let files = Files::of(paths)?;
    let mut found = summarize(
        files.gpu.as_deref(),
        files.cpu.as_deref(),
        files.dmon.as_deref(),
    )
    .map_err(|error| Failure::failed(chain(&error)))?;
    if let Some(log) = &files.log
        && let Some(peak) = jax_peak(log).map_err(unreadable(log))?
    {
        found.summary.jax_peak_bytes_mb = peak;
    }
    Ok(found)
}

fn unreadable(path: &Path) -> impl Fn(std::io::Error) -> Failure {
    move |source| {
        let path = path.to_owned();
        Failure::failed(chain(&UnreadableFile { path, source }))
    }
}

/// Peak memory of JAX as reported by the job; the last value counts. If a log contains several runs, the last run
/// counts, because the metric files are those of the last run.
fn jax_peak(log: &Path) -> std::io::Result<Option<f64>> {
    let mut reader = BufReader::new(File::open(log)?);
    let mut line = Vec::new();
    let mut peak = None;
    loop {
        line.clear();
        if (&mut reader).take(LOOKED_AT).read_until(b'\n', &mut line)? == 0 {
            return Ok(peak);
        }
        let text = String::from_utf8_lossy(&line);
        if (text.contains(JAX_PEAK) || text.contains(RUN_STARTED))
            && let Ok(entry) = serde_json::from_str::<Value>(&text)
        {
            if entry["event"] == RUN_STARTED {
                peak = None;
            }
            let reported = entry["data"][JAX_PEAK].as_f64();
            peak = reported.or_else(|| entry[JAX_PEAK].as_f64()).or(peak);
        }
    }
}

#[derive(Debug, Default)]
struct Files {
    gpu: Option<PathBuf>,
    cpu: Option<PathBuf>,
    dmon: Option<PathBuf>,
    log: Option<PathBuf>,
}

impl Files {
    fn of(paths: &[PathBuf]) -> Result<Self, Failure> {
        let mut files = Self::default();
        for path in paths {
            if path.is_dir() {
                return match paths {
                    [_] => Self::in_directory(path),
                    _ => Err(Failure::usage("one directory at a time, or files")),
                };
            }
            if !path.exists() {
                return Err(Failure::usage(format!("no file `{}`", path.display())));
            }
            let place = match kind(path)? {
                RunFile::Gpu => &mut files.gpu,
                RunFile::Cpu => &mut files.cpu,
                RunFile::Dmon => &mut files.dmon,
                RunFile::Log => &mut files.log,
            };
            if let Some(other) = place.replace(path.clone()) {
                let (other, path) = (other.display(), path.display());
                let problem = format!("`{other}` and `{path}` are files of the same kind");
                return Err(Failure::usage(problem));
            }
        }
        Ok(files)
    }

    fn in_directory(directory: &Path) -> Result<Self, Failure> {
        let there = |file: RunFile| Some(directory.join(file.name())).filter(|path| path.exists());
        let files = Self {
            gpu: there(RunFile::Gpu),
            cpu: there(RunFile::Cpu),
            dmon: there(RunFile::Dmon),
            log: there(RunFile::Log),
        };
        if files.gpu.is_none() && files.cpu.is_none() && files.dmon.is_none() {
            let names = [RunFile::Gpu, RunFile::Cpu, RunFile::Dmon].map(RunFile::name);
            return Err(Failure::usage(format!(
                "`{}` has none of the files {}",
                directory.display(),
                names.join(", ")
            )));
        }
        Ok(files)
    }
}

/// Determines the kind of a file by its contents, because file names vary; by its name if the contents are inconclusive.
/// The first recognized line counts, because messages of nvidia-smi may precede it.
fn kind(path: &Path) -> Result<RunFile, Failure> {
    let file = File::open(path).map_err(unreadable(path))?;
    let mut reader = BufReader::new(file.take(LOOKED_AT));
    let mut line = Vec::new();
    let mut is_empty = true;
    while reader
        .read_until(b'\n', &mut line)
        .map_err(unreadable(path))?
        > 0
    {
        if let Some(file) = RunFile::of_line(&String::from_utf8_lossy(&line)) {
            return Ok(file);
        }
        is_empty = false;
        line.clear();
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    RunFile::of_name(&name).ok_or_else(|| {
        let path = path.display();
        let message = match is_empty {
            true => format!("`{path}` is empty, and its name is not that of a run file"),
            false => format!("`{path}` is not a file of a run"),
        };
        let names = RunFile::ALL.map(RunFile::name).join(", ");
        Failure::usage(message).hint(format!("they are {names}, or files with such lines"))
    })
}
