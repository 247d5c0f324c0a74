//! `gua db backup` and `gua db vacuum`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use crate::error::{ReadError, WriteError};
use crate::history::History;
use crate::store::Store;

/// Why there is no backup. What was begun is taken away.
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
    /// Copies the history, also while a collector writes to it. `progress` hears how many pages are done, and of how
    /// many. The copy appears under its name when it is whole.
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
        // One look at the file, so that ticks that come meanwhile do not begin the copy anew.
        let copied = self.look(|connection| copy(connection, &partial, &mut progress));
        let written = copied.and_then(|()| {
            std::fs::hard_link(&partial, target)
                .or_else(|error| match error.kind() {
                    std::io::ErrorKind::AlreadyExists => Err(error),
                    // No links on this file system.
                    _ => std::fs::rename(&partial, target),
                })
                .map_err(|source| BackupError::Write {
                    path: target.to_owned(),
                    source,
                })
        });
        for suffix in ["", "-wal", "-shm", "-journal"] {
            // What is not there need not be taken away.
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
    // What an earlier attempt left is not worth keeping.
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
    // One file that can be read from a read-only place, without companions.
    copy.pragma_update(None, "journal_mode", "DELETE")?;
    copy.close().map_err(|(_, error)| error.into())
}

impl Store {
    /// Gives free room back to the disk and writes the file anew, without traces of what was deleted.
    pub fn vacuum(&mut self) -> Result<(), WriteError> {
        self.connection.execute_batch("VACUUM")?;
        self.merge_journal()
    }

    /// Brings all of the journal into the file and empties it.
    pub(crate) fn merge_journal(&mut self) -> Result<(), WriteError> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }
}
