//! `gua db backup` and `gua db vacuum`.

use std::fs::Permissions;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_files::{FileError, NewFile, Over};
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::error::{ReadError, WriteError};
use crate::history::History;
use crate::sql;
use crate::store::Store;

/// Reason a backup of a history or of a board failed. The partial copy is removed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("`{}` already exists", path.display())]
    Exists { path: PathBuf },
    #[error(transparent)]
    Write(#[from] FileError),
    #[error("cannot copy the database to `{}`", path.display())]
    Sqlite {
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error(transparent)]
    Read(#[from] ReadError),
}

const PAGES_AT_ONCE: i32 = 1000;
const PAUSE: Duration = Duration::from_millis(5);
/// Number of attempts to merge the journal: half a minute.
const MERGE_ATTEMPTS: u32 = 6;

impl History {
    /// Copies the history, even while a collector is writing to it. `progress` receives the number of pages copied and
    /// the total number of pages. The copy gets its final name only when it is complete.
    pub fn backup(
        &self,
        target: &Path,
        mut progress: impl FnMut(u32, u32),
    ) -> Result<(), BackupError> {
        let mode = std::fs::metadata(self.path()).map(|facts| facts.permissions());
        let mode = mode.map_err(FileError::cannot("write the backup", target))?;
        // A single read transaction, so that ticks written meanwhile do not restart the copy.
        self.read(|connection| write_backup(connection, target, mode, &mut progress))
    }
}

/// Writes a copy of a database to a new file. The file is created readable only by its owner, and gets `mode` before data is
/// copied.
pub fn write_backup(
    connection: &Connection,
    target: &Path,
    mode: Permissions,
    progress: &mut impl FnMut(u32, u32),
) -> Result<(), BackupError> {
    let exists = || BackupError::Exists {
        path: target.to_owned(),
    };
    if target.exists() {
        return Err(exists());
    }
    let failed = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::AlreadyExists => exists(),
        _ => FileError::cannot("write the backup", target)(source).into(),
    };
    let new = NewFile::begin_private(target, Over::Refuse).map_err(failed)?;
    new.file.set_permissions(mode).map_err(failed)?;
    copy(connection, new.part(), progress).map_err(|source| BackupError::Sqlite {
        path: target.to_owned(),
        source,
    })?;
    new.finish().map_err(failed)
}

fn copy(
    source: &Connection,
    target: &Path,
    progress: &mut impl FnMut(u32, u32),
) -> rusqlite::Result<()> {
    let mut copy = Connection::open(target)?;
    copy.pragma_update(None, "synchronous", "FULL")?;
    {
        let backup = Backup::new(source, &mut copy)?;
        loop {
            let step = backup.step(PAGES_AT_ONCE)?;
            let state = backup.progress();
            let all = state.pagecount.unsigned_abs();
            progress(all - state.remaining.unsigned_abs().min(all), all);
            match step {
                StepResult::Done => break,
                StepResult::More => {}
                _ => std::thread::sleep(PAUSE),
            }
        }
    }
    // A single file without `-wal` and `-shm` files, which can be read from a read-only directory.
    copy.pragma_update(None, "journal_mode", "DELETE")?;
    copy.close().map_err(|(_, error)| error)
}

impl Store {
    /// Returns free pages to the file system and rewrites the file, so that no deleted data remains in it. That is complete
    /// only when the journal is merged, which a reader prevents that began earlier: it still needs the old pages. After
    /// waiting for it, this fails.
    pub fn vacuum(&mut self) -> Result<(), WriteError> {
        self.connection.execute_batch("VACUUM")?;
        self.file.forget_length();
        // Each attempt waits for the reader as long as a write waits for a lock.
        for _ in 0..MERGE_ATTEMPTS {
            if self.merge_journal()? {
                return Ok(());
            }
        }
        Err(WriteError::Reader)
    }

    /// Checkpoints the whole write-ahead log into the file and truncates it. Returns whether no reader prevented that.
    pub(crate) fn merge_journal(&mut self) -> Result<bool, WriteError> {
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        let is_busy: bool = sql::value(&self.connection, checkpoint, [])?;
        Ok(!is_busy)
    }
}
