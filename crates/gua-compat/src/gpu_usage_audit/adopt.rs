//! Taking over an old history at the default path: imported into a new file, checked, and only then set aside.
//!
//! The new file is made under another name. What follows are renames, each of which happens or does not: the old file
//! (then its log) to its new name, the new one to the old place. A crash in between leaves the old file at its place, or
//! both files beside it; the next adoption finishes what was begun.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use gua_store::imported::{Imported, LegacyError, OnProgress};
use gua_store::{
    FileKind, OpenError, OpenMode, Store, WriterLock, WriterOptions, beside, directory,
    what_is_this,
};
use jiff::Timestamp;

use super::import::import;

/// Whether a collector of gpu-usage-audit writes the file; the caller has looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldCollector {
    Running,
    NotRunning,
}

/// An old history that was taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// Our history, now at the path of the old one.
    pub new_file: PathBuf,
    pub old_renamed_to: PathBuf,
    /// `None` where an adoption that was cut off after its import was finished.
    pub imported: Option<Imported>,
}

/// Takes over the old history at `path`, or finishes an adoption that was cut off. `Ok(None)` where there is nothing to
/// take over: no file, or one that is not an old history.
pub fn adopt(
    path: &Path,
    now: Timestamp,
    collector: OldCollector,
    options: &WriterOptions,
    on_progress: OnProgress<'_>,
) -> Result<Option<Adopted>, LegacyError> {
    adopt_with(path, now, collector, options, on_progress, &mut |_| Ok(()))
}

/// The points between two steps, where a test may cut an adoption off.
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
    // One at a time: another that starts now waits for nothing and is refused.
    let _lock = WriterLock::take(path).map_err(|error| LegacyError::History(Box::new(error)))?;
    match begun(path, &staged)? {
        // Another has done it between the look and the lock.
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
    // A collector that came meanwhile has rows that were not imported.
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

/// How far an adoption is that has something to do.
enum Begun {
    Not,
    /// The import is complete; what is left are renames.
    Imported {
        aside: PathBuf,
    },
}

/// `None` where there is nothing to adopt. A newer file, a foreign one or damage is for whoever opens it to refuse.
fn begun(path: &Path, staged: &Path) -> Result<Option<Begun>, LegacyError> {
    match what_is_this(path) {
        FileKind::GpuUsageAudit => Ok(Some(Begun::Not)),
        FileKind::Missing => Ok(read_note(staged)?.map(|aside| Begun::Imported { aside })),
        _ => Ok(None),
    }
}

/// Beside the history, the new one in the making.
const STAGED: &str = ".importing";
/// Beside that, the name that the old file gets. It is written when the import is complete and checked, so that its
/// presence says so.
const NOTE: &str = "-old-becomes";
/// The files that SQLite keeps beside a database.
const COMPANIONS: [&str; 2] = ["-wal", "-shm"];

/// Sizes and times of the file and its log.
fn facts(path: &Path) -> Vec<Option<(u64, Option<std::time::SystemTime>)>> {
    let one = |path: &Path| {
        fs::metadata(path)
            .ok()
            .map(|facts| (facts.len(), facts.modified().ok()))
    };
    vec![one(path), one(&beside(path, "-wal"))]
}

fn stage(
    path: &Path,
    staged: &Path,
    now: Timestamp,
    options: &WriterOptions,
    on_progress: OnProgress<'_>,
) -> Result<Imported, LegacyError> {
    let opened = |error: OpenError| LegacyError::History(Box::new(error));
    // Readable by whom the old one was.
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
    // Had the last close left a log, a rename of the file alone would lose it.
    match beside(staged, "-wal").exists() {
        true => Err(LegacyError::Unverified(
            "the new history could not be closed".to_owned(),
        )),
        false => Ok(imported),
    }
}

/// The renames. Each is done unless an earlier, interrupted adoption did it.
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
    remove(&beside(staged, NOTE))
}

/// Throws away what an adoption left that did not come to the end of its import.
fn discard(staged: &Path) -> Result<(), LegacyError> {
    for suffix in ["", "-wal", "-shm", "-lock", NOTE] {
        remove(&beside(staged, suffix))?;
    }
    Ok(())
}

/// The first of `gua.db.gpu-usage-audit-1`, `-2`, ... that nothing has.
fn free_name(path: &Path) -> PathBuf {
    let names = (1_u32..).map(|number| beside(path, &format!(".gpu-usage-audit-{number}")));
    let mut free = names.filter(|name| !name.exists() && !beside(name, "-wal").exists());
    free.next().expect("there are more numbers than files")
}

fn write_note(staged: &Path, aside: &Path) -> Result<(), LegacyError> {
    use std::os::unix::ffi::OsStrExt as _;

    let note = beside(staged, NOTE);
    let name = aside.file_name().unwrap_or_default().as_bytes();
    fs::write(&note, name).map_err(file("write", &note))?;
    sync(&note)?;
    sync(directory(&note))
}

/// The name that the old file gets, where an import was completed.
fn read_note(staged: &Path) -> Result<Option<PathBuf>, LegacyError> {
    use std::os::unix::ffi::OsStrExt as _;

    let note = beside(staged, NOTE);
    match fs::read(&note) {
        Ok(name) if staged.exists() => Ok(Some(staged.with_file_name(OsStr::from_bytes(&name)))),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file("read", &note)(error)),
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), LegacyError> {
    fs::rename(from, to).map_err(file("rename", from))
}

fn remove(path: &Path) -> Result<(), LegacyError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(file("remove", path)(error)),
        _ => Ok(()),
    }
}

fn sync(path: &Path) -> Result<(), LegacyError> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(file("write", path))
}

fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LegacyError {
    let path = path.to_owned();
    move |source| LegacyError::File { what, path, source }
}

#[cfg(test)]
mod tests;
