//! The file behind the path of a history. A writer keeps its file open, and meanwhile others may rename, delete, replace or
//! truncate it. SQLite does not notice: it writes on into a file, or into the journal of a file, that nobody finds again.
//!
//! A writer therefore checks before each tick that its file is still at its path ([`Store::follow_file`]). If it is not,
//! everything that the file and its journal hold is kept under some name, and the writer continues at the path.

use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gua_files::FileError;
use jiff::Timestamp;
use rusqlite::config::DbConfig;

use crate::backup;
use crate::error::{OpenError, WriteError};
use crate::files::{length, numbered, remove, rename_to_free_name, set_aside};
use crate::kind;
use crate::store::{OpenMode, Store};

/// Change of a running writer's file by someone else. The writer now writes to the file at its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// It was renamed, and is complete under its new name.
    Moved,
    /// It was deleted; its content was written to this path.
    Deleted { kept_as: PathBuf },
    /// It was truncated; what is left of it and its journal was renamed to this.
    Truncated { kept_as: PathBuf },
}

/// An open history file.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// Locked with flock(2), which is tied to the file and not to its name, so that a hard link does not allow a second
    /// writer. Closing a descriptor of a file releases the locks of SQLite on it (see fcntl(2)), so that this is closed
    /// after the database.
    file: File,
    /// Greatest length so far. Only [`Store::vacuum`] makes a history shorter.
    length: u64,
}

impl OpenFile {
    pub(crate) fn lock(path: &Path) -> Result<Self, OpenError> {
        let unreadable = |error| OpenError::Unreadable(FileError::cannot("read", path)(error));
        let file = File::open(path).map_err(unreadable)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file, length: 0 }),
            Err(TryLockError::WouldBlock) => Err(OpenError::Busy {
                path: path.to_owned(),
                pid: None,
            }),
            Err(TryLockError::Error(source)) => Err(unreadable(source)),
        }
    }

    pub(crate) fn forget_length(&mut self) {
        self.length = 0;
    }

    /// Returns the change of the file since the last call; `None` if it is unchanged.
    fn check(&mut self, path: &Path) -> io::Result<Option<Found>> {
        let mine = self.file.metadata()?;
        let is_there = std::fs::metadata(path).is_ok_and(|there| is_same(&there, &mine));
        if mine.len() < self.length {
            return Ok(Some(Found::Truncated { is_there }));
        }
        self.length = mine.len();
        Ok(match (is_there, mine.nlink()) {
            (true, _) => None,
            (false, 0) => Some(Found::Deleted),
            (false, _) => Some(Found::Moved),
        })
    }
}

enum Found {
    Moved,
    Deleted,
    Truncated { is_there: bool },
}

pub(crate) fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

impl Store {
    /// Checks that the file is still at its path. If it is not, keeps what it holds and continues in the file at the path,
    /// which is created if there is none; a new collector run must then begin.
    pub fn follow_file(&mut self, now: Timestamp) -> Result<Option<FileChange>, WriteError> {
        let path = self.path.clone();
        let failed = |source| WriteError::Moved {
            path: path.clone(),
            source,
        };
        let Some(found) = self.file.check(&path).map_err(failed)? else {
            return Ok(None);
        };
        // Closing the old file must neither write to it nor delete a journal.
        self.connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        let change = match found {
            Found::Moved if self.merge_journal()? => {
                self.remove_companions().map_err(failed)?;
                FileChange::Moved
            }
            Found::Moved | Found::Deleted => {
                let kept_as = self.write_again(now).map_err(failed)?;
                self.remove_companions().map_err(failed)?;
                FileChange::Deleted { kept_as }
            }
            Found::Truncated { is_there: true } => FileChange::Truncated {
                kept_as: set_aside(&path, now).map_err(failed)?,
            },
            Found::Truncated { is_there: false } => {
                let journal = crate::beside(&path, "-wal");
                let kept_as = rename_to_free_name(&journal, ".truncated").map_err(failed)?;
                FileChange::Truncated { kept_as }
            }
        };
        self.open_again()?;
        Ok(Some(change))
    }

    /// Copies the deleted file to its path, or beside another file that is there now.
    fn write_again(&self, now: Timestamp) -> io::Result<PathBuf> {
        let stamp = now.strftime(".deleted-%Y%m%d-%H%M%S").to_string();
        let names = numbered(&self.path, &stamp);
        for target in std::iter::once(self.path.clone()).chain(names) {
            let mode = self.file.file.metadata()?.permissions();
            match backup::write_backup(&self.connection, &target, mode, &mut |_, _| {}) {
                Ok(()) => return Ok(target),
                Err(backup::BackupError::Exists { .. }) => {}
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Removes the journal of the old file, whose content was kept elsewhere, and the index of the journal. Another process
    /// may still have the old file open: it must not share them with the new one.
    fn remove_companions(&self) -> io::Result<()> {
        if self.journal != journal_of(&self.path) {
            return Ok(());
        }
        remove(&crate::beside(&self.path, "-wal"))?;
        remove(&crate::beside(&self.path, "-shm"))
    }

    fn open_again(&mut self) -> Result<(), WriteError> {
        let opened = Self::open_file(&self.path, OpenMode::CreateOrAppend, &self.options);
        let opened = opened.map_err(|error| WriteError::Reopen(Box::new(error)))?;
        // In this order: the database is closed before the descriptor of its file.
        drop(std::mem::replace(&mut self.connection, opened.connection));
        self.file = opened.file;
        self.journal = journal_of(&self.path);
        self.stranded = opened.stranded;
        self.restart_chain();
        Ok(())
    }
}

/// Device and inode of the journal at a path.
pub(crate) fn journal_of(path: &Path) -> Option<(u64, u64)> {
    let facts = std::fs::metadata(crate::beside(path, "-wal")).ok()?;
    Some((facts.dev(), facts.ino()))
}

/// Renames a journal that does not belong to the file at a path: SQLite would delete it, or write the pages of another file
/// into this one. Returns its new name.
pub(crate) fn rescue_journal(path: &Path) -> io::Result<Option<PathBuf>> {
    let journal = crate::beside(path, "-wal");
    if length(path, "-wal") == 0 || (length(path, "") > 0 && !kind::is_foreign_journal(path)) {
        return Ok(None);
    }
    rename_to_free_name(&journal, ".stranded").map(Some)
}
