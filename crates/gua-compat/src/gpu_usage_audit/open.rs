//! Opens an old history without changing anything: no lasting lock, no schema change, no migration, no new file beside
//! it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_files::FileError;
use gua_store::imported::{LegacyError, OLD_TABLES};
use gua_store::{FileKind, FilePrint, beside, what_is_this};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::rows::REQUIRED;

/// A history of gpu-usage-audit, opened read-only.
#[derive(Debug)]
pub struct OldFile {
    pub(crate) path: PathBuf,
    pub(crate) connection: Connection,
    columns: Columns,
    /// State of the file if it was opened as one without a writer.
    still: Option<FilePrint>,
    /// Whether it had a write-ahead log at that time.
    logged: bool,
    /// Fact that identifies the file, if its rows do not.
    pub(crate) known_by: Option<String>,
}

/// The tables and columns that a file has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns(pub(crate) BTreeSet<(String, String)>);

impl Columns {
    pub(crate) fn has(&self, table: &str, column: &str) -> bool {
        self.0.contains(&(table.to_owned(), column.to_owned()))
    }

    /// Formats the columns as one line, for the record of the source.
    pub(crate) fn line(&self) -> String {
        let names = self
            .0
            .iter()
            .map(|(table, column)| format!("{table}.{column}"));
        names.collect::<Vec<_>>().join(" ")
    }
}

impl OldFile {
    /// Opens the history at `path`, even if it belongs to another user and its directory is not writable.
    ///
    /// A file without a write-ahead log is read directly. A file with a log may have a writer; it is read through the
    /// log, as a snapshot, without blocking the writer.
    pub fn open(path: &Path) -> Result<Self, LegacyError> {
        match what_is_this(path) {
            FileKind::Missing => return Err(LegacyError::NoFile { path: path.into() }),
            FileKind::OurHistory { .. } | FileKind::NewerHistory { .. } => {
                return Err(LegacyError::Ours { path: path.into() });
            }
            kind @ (FileKind::NotSqlite | FileKind::Directory) => {
                return Err(not_a_history(path, &format!("it is {kind}")));
            }
            FileKind::Unreadable { .. } => {
                File::open(path).map_err(FileError::cannot("open", path))?;
            }
            FileKind::Empty if is_empty(path) => return Err(not_a_history(path, "it is empty")),
            // The tables of a history whose writer was killed may be in its log only, so these are opened too.
            FileKind::Empty | FileKind::OtherSqlite | FileKind::GpuUsageAudit => {}
        }
        let file = Self::connected(path)?;
        match missing(&file.columns) {
            Some(missing) => Err(not_a_history(path, &missing)),
            None => Ok(file),
        }
    }

    /// Opens whichever tables a file has.
    fn connected(path: &Path) -> Result<Self, LegacyError> {
        let (connection, still) = connect(path)?;
        let read = LegacyError::read(path);
        // One snapshot for all reads from here on.
        connection.execute_batch("BEGIN").map_err(&read)?;
        Ok(Self {
            path: path.into(),
            columns: columns(&connection).map_err(&read)?,
            connection,
            still,
            logged: log_of(path).exists(),
            known_by: None,
        })
    }

    /// Opens the tables that gpu-usage-audit made in a history of gua; `None` if there are none. The file itself is only
    /// opened by SQLite: closing another descriptor of it would release the locks of a writer in this process
    /// (<https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_>).
    pub(crate) fn inside(history: &Path) -> Result<Option<Self>, LegacyError> {
        let file = Self::connected(history)?;
        Ok(Some(file).filter(|file| missing(&file.columns).is_none()))
    }

    /// Wraps rows laid out as an old history in memory, with the path of their file and the fact that identifies it.
    pub(crate) fn in_memory(
        path: &Path,
        known_by: String,
        connection: Connection,
    ) -> Result<Self, rusqlite::Error> {
        let columns = columns(&connection)?;
        Ok(Self {
            path: path.into(),
            connection,
            columns,
            still: None,
            logged: false,
            known_by: Some(known_by),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Fails if a writer appeared while the file was read as one without a writer; the data read is then invalid.
    pub fn confirm(&self) -> Result<(), LegacyError> {
        let changed = match &self.still {
            None => false,
            Some(print) => {
                let log = log_of(&self.path).exists() != self.logged
                    || beside(&self.path, "-shm").exists();
                log || FilePrint::of(&self.path).as_ref() != Some(print)
            }
        };
        match changed {
            true => Err(LegacyError::Changed {
                path: self.path.clone(),
            }),
            false => Ok(()),
        }
    }

    pub(crate) fn failed(&self, source: rusqlite::Error) -> LegacyError {
        LegacyError::read(&self.path)(source)
    }
}

/// Connects to the file. A write-ahead log beside it means that it has a writer or that a writer was killed; without a
/// log the file is complete.
fn connect(path: &Path) -> Result<(Connection, Option<FilePrint>), LegacyError> {
    let print = FilePrint::of(path);
    let log = log_of(path).exists();
    let (options, print) = if !log && !beside(path, "-journal").exists() {
        ("mode=ro&immutable=1", print)
    } else if !log || beside(path, "-shm").exists() {
        ("mode=ro", None)
    } else {
        // A writer always has the shared-memory index of the log, so there is no writer without one. The index is built in
        // memory here, so that no file is created.
        (INDEX_IN_MEMORY, print)
    };
    let connection = open_with(path, options).map_err(LegacyError::read(path))?;
    Ok((connection, print))
}

/// Options for a file that no other process uses: no locks are needed, and the index of the log can be private.
const INDEX_IN_MEMORY: &str = "mode=ro&vfs=unix-none";

fn open_with(path: &Path, options: &str) -> Result<Connection, rusqlite::Error> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection =
        Connection::open_with_flags(gua_store::file_uri(&absolute, options), flags)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    gua_store::guard::harden(&connection)?;
    // For the whole life of the connection, which reads the file a few times at most.
    gua_store::Work::limit(&mut connection, path)?;
    // The last connection to close checkpoints and removes the log. That is left to gpu-usage-audit.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    if options == INDEX_IN_MEMORY {
        // This must precede the first read; otherwise SQLite would create the index as a file.
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    }
    // Bounds the memory for sorting; the rest of a scan needs little.
    connection.pragma_update(None, "cache_size", -8_000)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
    Ok(connection)
}

fn is_empty(path: &Path) -> bool {
    let length = |path: &Path| fs::metadata(path).map_or(0, |facts| facts.len());
    length(path) == 0 && length(&log_of(path)) == 0
}

fn log_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

fn columns(connection: &Connection) -> Result<Columns, rusqlite::Error> {
    let mut query = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let mut found = BTreeSet::new();
    for table in OLD_TABLES {
        let names = query.query_map([table], |row| row.get::<_, String>(0))?;
        for name in names {
            found.insert((table.to_owned(), name?));
        }
    }
    Ok(Columns(found))
}

/// Describes a missing table or column that a history must have; `None` if it has all. The other three tables came with
/// later releases, or may be missing in a copy of the samples.
fn missing(columns: &Columns) -> Option<String> {
    let mut needed = REQUIRED.into_iter();
    needed
        .find(|(table, column)| !columns.has(table, column))
        .map(|(table, column)| format!("it has no column {column} in a table {table}"))
}

fn not_a_history(path: &Path, why: &str) -> LegacyError {
    LegacyError::NotAHistory {
        path: path.into(),
        why: why.to_owned(),
    }
}
