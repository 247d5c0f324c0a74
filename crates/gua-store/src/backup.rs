//! `gua db backup` and `gua db vacuum`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::error::{ReadError, WriteError};
use crate::history::History;
use crate::store::Store;

/// Reason a backup failed. The partial copy is removed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("`{}` is already there", path.display())]
    Exists { path: PathBuf },
    #[error("cannot write the backup `{}`", path.display())]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("cannot copy the history")]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Read(#[from] ReadError),
}

const PAGES_AT_ONCE: i32 = 1000;
const PAUSE: Duration = Duration::from_millis(5);

impl History {
    /// Copies the history, even while a collector is writing to it. `progress` receives the number of pages copied and
    /// the total number of pages. The copy gets its final name only when it is complete.
    pub fn backup(
        &self,
        target: &Path,
        mut progress: impl FnMut(u32, u32),
    ) -> Result<(), BackupError> {
        if target.exists() {
            return Err(BackupError::Exists {
                path: target.to_owned(),
            });
        }
        let partial = crate::beside(target, ".partial");
        // A single read transaction, so that ticks written meanwhile do not restart the copy.
        let copied = self.look(|connection| copy(connection, &partial, &mut progress));
        let written = copied.and_then(|()| {
            std::fs::hard_link(&partial, target)
                .or_else(|error| match error.kind() {
                    std::io::ErrorKind::AlreadyExists => Err(error),
                    // The file system does not support hard links.
                    _ => std::fs::rename(&partial, target),
                })
                .map_err(|source| BackupError::Write {
                    path: target.to_owned(),
                    source,
                })
        });
        for suffix in ["", "-wal", "-shm", "-journal"] {
            // The file may not exist.
            let _ = std::fs::remove_file(crate::beside(&partial, suffix));
        }
        written
    }
}

fn copy(
    source: &Connection,
    target: &Path,
    progress: &mut impl FnMut(u32, u32),
) -> Result<(), BackupError> {
    // Remove the remains of an earlier attempt.
    let _ = std::fs::remove_file(target);
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
    copy.close().map_err(|(_, error)| error.into())
}

impl Store {
    /// Returns free pages to the file system and rewrites the file, so that no deleted data remains in it.
    pub fn vacuum(&mut self) -> Result<(), WriteError> {
        self.connection.execute_batch("VACUUM")?;
        self.merge_journal()
    }

    /// Checkpoints the whole write-ahead log into the file and truncates it.
    pub(crate) fn merge_journal(&mut self) -> Result<(), WriteError> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }
}
