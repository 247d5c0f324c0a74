//! Finds the metric files of a run and determines their kinds.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use gua_run::{RunFile, UnreadableFile};

use crate::failure::{Exit, Failure};

/// Maximum number of bytes read to determine the kind of a file.
const LOOKED_AT: u64 = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) gpu: Option<PathBuf>,
    pub(super) cpu: Option<PathBuf>,
    pub(super) dmon: Option<PathBuf>,
    pub(super) log: Option<PathBuf>,
}

impl Files {
    pub(super) fn of(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut files = Self::default();
        for path in paths {
            let shown = path.display();
            if path.is_dir() {
                if paths.len() > 1 {
                    return Err(Failure::usage("one directory at a time, or files").into());
                }
                return Ok(Self::in_directory(path)?);
            }
            if !path.exists() {
                return Err(Failure::usage(format!("there is no `{shown}`")).into());
            }
            let place = match kind(path)? {
                RunFile::Gpu => &mut files.gpu,
                RunFile::Cpu => &mut files.cpu,
                RunFile::Dmon => &mut files.dmon,
                RunFile::Log => &mut files.log,
            };
            if let Some(other) = place.replace(path.clone()) {
                let other = other.display();
                let problem = format!("`{other}` and `{shown}` are files of the same kind");
                return Err(Failure::usage(problem).into());
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

/// Determines the kind of a file by its contents, because file names vary; by its name if the contents are
/// inconclusive.
fn kind(path: &Path) -> anyhow::Result<RunFile> {
    let look = Look::at(path).map_err(|source| UnreadableFile {
        path: path.to_owned(),
        source,
    })?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let known = match look {
        Look::Known(file) => Some(file),
        Look::Empty | Look::Strange => RunFile::of_name(&name),
    };
    let shown = path.display();
    known.ok_or_else(|| {
        let message = match look {
            Look::Empty => format!("`{shown}` is empty, and its name is none of a run's files"),
            _ => format!("`{shown}` is no file of a run"),
        };
        let names = RunFile::ALL.map(RunFile::name).join(", ");
        let hint = format!("they are {names}, or files with such lines");
        Failure {
            exit: Exit::Usage,
            message,
            hint: Some(hint),
        }
        .into()
    })
}

enum Look {
    Known(RunFile),
    Empty,
    Strange,
}

impl Look {
    /// Uses the first recognized line, because messages of nvidia-smi may precede it.
    fn at(path: &Path) -> std::io::Result<Self> {
        let mut reader = BufReader::new(File::open(path)?.take(LOOKED_AT));
        let mut line = Vec::new();
        let mut look = Look::Empty;
        while reader.read_until(b'\n', &mut line)? > 0 {
            if let Some(file) = RunFile::of_line(&String::from_utf8_lossy(&line)) {
                return Ok(Look::Known(file));
            }
            look = Look::Strange;
            line.clear();
        }
        Ok(look)
    }
}
