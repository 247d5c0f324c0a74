//! Appends whole lines to one CSV file per day, synced to disk, or nothing at all. A file with another header is not
//! touched.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use gua_compat::gpu_stats::{Form, Minute};
use gua_files::FileError;
use thiserror::Error;

/// Upper bound on the length of a line.
const MAX_LINE: u64 = 4096;

/// The daily files of a directory, in one format.
#[derive(Clone, Debug)]
pub struct DayFiles {
    directory: PathBuf,
    pub form: Form,
}

/// Result of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    /// The rows were appended to `path`. An incomplete line at its end was moved to `torn`.
    Written {
        path: PathBuf,
        torn: Option<PathBuf>,
    },
    /// The file already has rows of this minute.
    Already { path: PathBuf },
}

/// Why rows could not be written. The file is unchanged.
#[derive(Debug, Error)]
pub enum CsvError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{}` is not changed: {why}", path.display())]
    NotOurs { path: PathBuf, why: &'static str },
}

impl DayFiles {
    pub fn new(directory: impl Into<PathBuf>, form: Form) -> Self {
        Self {
            directory: directory.into(),
            form,
        }
    }

    /// Appends whole lines to the file of their day and syncs them to disk.
    pub fn append(&self, minute: Minute, lines: &str) -> Result<Appended, CsvError> {
        fs::create_dir_all(&self.directory)
            .map_err(FileError::cannot("create directory", &self.directory))?;
        let path = self.directory.join(self.form.file_name(minute.day));
        let failed = FileError::cannot("write", &path);
        let options = OpenOptions::new().read(true).append(true).clone();
        let mut file = gua_files::open_own(&path, &options).map_err(&failed)?;
        let facts = file.metadata().map_err(&failed)?;
        let not_ours = |why| CsvError::NotOurs {
            path: path.clone(),
            why,
        };
        if !facts.is_file() {
            return Err(not_ours("it is not a regular file"));
        }
        // Another sampler may write the same file; the second one then finds the header.
        file.lock().map_err(&failed)?;
        let end = End::of(&mut file, self.form.header()).map_err(&failed)?;
        let keep = match end {
            End::Begun { last, .. } if is_of(last, minute) => {
                return Ok(Appended::Already { path });
            }
            End::Foreign => {
                return Err(not_ours("its first line is not the header of this format"));
            }
            End::Empty => 0,
            End::Begun { keep, .. } => keep,
        };
        let torn = set_aside(&mut file, &path, keep).map_err(&failed)?;
        let text = match keep {
            0 => format!("{}\n{lines}", self.form.header()),
            _ => lines.to_owned(),
        };
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_data());
        if let Err(source) = written {
            // Removes the incomplete line; if that fails too, the next append moves it aside.
            let _ = file.set_len(keep);
            return Err(failed(source).into());
        }
        if keep == 0 {
            // Syncs the directory entry of the new file.
            let _ = File::open(&self.directory).and_then(|directory| directory.sync_all());
        }
        Ok(Appended::Written { path, torn })
    }
}

fn is_of(last: Option<i64>, minute: Minute) -> bool {
    last.is_some_and(|last| (minute.second..minute.second + 60).contains(&last))
}

/// End of an existing file.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// Empty, or an incomplete header.
    Empty,
    /// Not a file of this format.
    Foreign,
    /// Length up to the last whole line, and the timestamp of that line.
    Begun { keep: u64, last: Option<i64> },
}

impl End {
    fn of(file: &mut File, header: &str) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let mut head = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        (&*file)
            .take(header.len() as u64 + 2)
            .read_to_end(&mut head)?;
        if header.as_bytes().starts_with(&head) {
            return Ok(End::Empty);
        }
        let after = head.strip_prefix(header.as_bytes());
        if !after.is_some_and(|rest| rest.starts_with(b"\n") || rest.starts_with(b"\r\n")) {
            return Ok(End::Foreign);
        }
        let mut tail = Vec::new();
        let from = length.saturating_sub(MAX_LINE);
        file.seek(SeekFrom::Start(from))?;
        (&*file).take(MAX_LINE).read_to_end(&mut tail)?;
        let Some(newline) = tail.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(End::Foreign);
        };
        let whole = tail.get(..newline).unwrap_or_default();
        let line = whole
            .rsplit(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        let stamp = line.split(|byte| *byte == b',').next().unwrap_or_default();
        Ok(End::Begun {
            keep: from + newline as u64 + 1,
            last: std::str::from_utf8(stamp)
                .ok()
                .and_then(|text| text.parse().ok()),
        })
    }
}

/// Moves an incomplete last line into a file beside and returns its path. An incomplete line may look like a complete
/// one with a smaller number, so it must not stay among the rows.
fn set_aside(file: &mut File, path: &Path, keep: u64) -> io::Result<Option<PathBuf>> {
    let length = file.metadata()?.len();
    if length <= keep {
        return Ok(None);
    }
    let mut half = Vec::new();
    file.seek(SeekFrom::Start(keep))?;
    (&*file).take(length - keep).read_to_end(&mut half)?;
    half.push(b'\n');
    let beside = gua_files::beside(path, ".torn");
    let mut aside = gua_files::open_own(&beside, OpenOptions::new().append(true))?;
    aside.write_all(&half)?;
    aside.sync_data()?;
    file.set_len(keep)?;
    Ok(Some(beside))
}
