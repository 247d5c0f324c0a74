//! Adopts an old history at the default path: imports it into a new file, verifies the import, and only then renames
//! the old file.
//!
//! The new file is created under another name. The remaining steps are atomic renames: the old file (then its log) to
//! its new name, and the new file to the original path. A crash in between leaves the old file at its path, or both
//! files beside it; the next adoption completes the interrupted one.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use gua_files::{FileError, Over};
use gua_store::imported::{Imported, LegacyError, OnProgress};
use gua_store::{
    FileKind, FilePrint, OpenError, OpenMode, Store, WriterLock, WriterOptions, beside, directory,
    what_is_this,
};
use jiff::Timestamp;

use super::import::import;

/// Whether a collector of gpu-usage-audit is writing to the file. The caller has checked this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldCollector {
    Running,
    NotRunning,
}

/// An adopted old history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// The new history, now at the path of the old one.
    pub new_file: PathBuf,
    pub old_renamed_to: PathBuf,
    /// `None` if this call completed an adoption that was interrupted after its import.
    pub imported: Option<Imported>,
}

/// Adopts the old history at `path`, or completes an interrupted adoption. Returns `Ok(None)` if there is nothing to
/// adopt: no file, or one that is not an old history.
pub fn adopt(
    path: &Path,
    now: Timestamp,
    collector: OldCollector,
    options: &WriterOptions,
    on_progress: OnProgress<'_>,
) -> Result<Option<Adopted>, LegacyError> {
    adopt_with(path, now, collector, options, on_progress, &mut |_| Ok(()))
}

/// Points between two steps at which a test can interrupt an adoption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    Imported,
    OldSetAside,
    LogSetAside,
    InPlace,
}

pub(super) fn adopt_with(
    path: &Path,
    now: Timestamp,
    collector: OldCollector,
    options: &WriterOptions,
    on_progress: OnProgress<'_>,
    reached: &mut dyn FnMut(Point) -> Result<(), LegacyError>,
) -> Result<Option<Adopted>, LegacyError> {
    let staged = beside(path, STAGED);
    let Some(_) = begun(path, &staged)? else {
        return Ok(None);
    };
    // Only one adoption at a time: a second one does not wait but fails.
    let _lock = WriterLock::take(path).map_err(|error| LegacyError::History(Box::new(error)))?;
    match begun(path, &staged)? {
        // Another process completed the adoption between the check and the lock.
        None => return Ok(None),
        Some(Begun::Imported { aside }) => {
            finish(path, &staged, &aside, reached)?;
            return Ok(Some(Adopted {
                new_file: path.into(),
                old_renamed_to: aside,
                imported: None,
            }));
        }
        Some(Begun::Not) => {}
    }
    if collector == OldCollector::Running {
        return Err(LegacyError::CollectorRuns { path: path.into() });
    }
    discard(&staged)?;
    let before = facts(path);
    let imported = stage(path, &staged, now, options, on_progress)?;
    // A collector that started meanwhile has written rows that were not imported.
    if facts(path) != before {
        return Err(LegacyError::CollectorRuns { path: path.into() });
    }
    let aside = free_name(path);
    write_note(&staged, &aside)?;
    reached(Point::Imported)?;
    finish(path, &staged, &aside, reached)?;
    Ok(Some(Adopted {
        new_file: path.into(),
        old_renamed_to: aside,
        imported: Some(imported),
    }))
}

/// State of an adoption that is not complete.
enum Begun {
    Not,
    /// The import is complete; only the renames remain.
    Imported {
        aside: PathBuf,
    },
}

/// Returns the state of an adoption; `None` if there is nothing to adopt. A newer, foreign or damaged file is not an
/// error here: opening it reports that.
fn begun(path: &Path, staged: &Path) -> Result<Option<Begun>, LegacyError> {
    match what_is_this(path) {
        FileKind::GpuUsageAudit => Ok(Some(Begun::Not)),
        FileKind::Missing => Ok(read_note(staged)?.map(|aside| Begun::Imported { aside })),
        _ => Ok(None),
    }
}

/// Suffix of the new history while it is being created.
const STAGED: &str = ".importing";
/// Suffix of a note with the new name of the old file, beside the new history. It is written after the import is
/// complete and verified, so its existence marks that.
const NOTE: &str = "-old-becomes";
/// Suffixes of SQLite's companion files.
const COMPANIONS: [&str; 2] = ["-wal", "-shm"];

/// Returns the state of the file and of its write-ahead log.
fn facts(path: &Path) -> [Option<FilePrint>; 2] {
    ["", "-wal"].map(|suffix| FilePrint::of(&beside(path, suffix)))
}

fn stage(
    path: &Path,
    staged: &Path,
    now: Timestamp,
    options: &WriterOptions,
    on_progress: OnProgress<'_>,
) -> Result<Imported, LegacyError> {
    let opened = |error: OpenError| LegacyError::History(Box::new(error));
    // Keep the permissions of the old file.
    let mode = fs::metadata(path)
        .ok()
        .map(|facts| std::os::unix::fs::PermissionsExt::mode(&facts.permissions()) & 0o777);
    let options = WriterOptions {
        file_mode: options.file_mode.or(mode),
        ..options.clone()
    };
    let mut store = Store::open(staged, OpenMode::Create, &options).map_err(opened)?;
    let imported = import(&mut store, path, now, on_progress)?;
    store
        .close()
        .map_err(|error| LegacyError::Close(Box::new(error)))?;
    remove(&beside(staged, "-lock"))?;
    sync(staged)?;
    // If the close left a log behind, renaming only the file would lose it.
    match beside(staged, "-wal").exists() {
        true => Err(LegacyError::Unverified(
            "the new history could not be closed".to_owned(),
        )),
        false => Ok(imported),
    }
}

/// Performs the renames. Each is skipped if an interrupted adoption already did it.
fn finish(
    path: &Path,
    staged: &Path,
    aside: &Path,
    reached: &mut dyn FnMut(Point) -> Result<(), LegacyError>,
) -> Result<(), LegacyError> {
    if path.exists() {
        rename(path, aside)?;
        sync(directory(path))?;
    }
    reached(Point::OldSetAside)?;
    for companion in COMPANIONS {
        let there = beside(path, companion);
        if there.exists() {
            rename(&there, &beside(aside, companion))?;
        }
    }
    sync(directory(path))?;
    reached(Point::LogSetAside)?;
    rename(staged, path)?;
    sync(directory(path))?;
    reached(Point::InPlace)?;
    Ok(remove(&beside(staged, NOTE))?)
}

/// Removes the files of an adoption whose import did not complete.
fn discard(staged: &Path) -> Result<(), LegacyError> {
    for suffix in ["", "-wal", "-shm", "-lock", NOTE] {
        remove(&beside(staged, suffix))?;
    }
    Ok(())
}

/// First unused name of `gua.db.gpu-usage-audit-1`, `-2`, ...
fn free_name(path: &Path) -> PathBuf {
    let names = (1_u32..).map(|number| beside(path, &format!(".gpu-usage-audit-{number}")));
    let mut free = names.filter(|name| !name.exists() && !beside(name, "-wal").exists());
    free.next().expect("there are more numbers than files")
}

/// Maximum length of a file name (limits.h).
const MAX_NAME_LENGTH: u64 = 255;

fn write_note(staged: &Path, aside: &Path) -> Result<(), FileError> {
    use std::os::unix::ffi::OsStrExt as _;

    let note = beside(staged, NOTE);
    let name = aside.file_name().unwrap_or_default().as_bytes();
    gua_files::write(&note, name, Over::Write).map_err(FileError::cannot("write", &note))
}

/// New name of the old file, if an import was completed.
fn read_note(staged: &Path) -> Result<Option<PathBuf>, FileError> {
    use std::os::unix::ffi::OsStrExt as _;

    let note = beside(staged, NOTE);
    match gua_files::read_regular(&note, MAX_NAME_LENGTH) {
        Ok(name) if staged.exists() => Ok(Some(staged.with_file_name(OsStr::from_bytes(&name)))),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError::cannot("read", &note)(error)),
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    fs::rename(from, to).map_err(FileError::cannot("rename", from))
}

fn remove(path: &Path) -> Result<(), FileError> {
    gua_store::remove(path).map_err(FileError::cannot("remove", path))
}

fn sync(path: &Path) -> Result<(), FileError> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(FileError::cannot("write", path))
}

#[cfg(test)]
mod tests;
