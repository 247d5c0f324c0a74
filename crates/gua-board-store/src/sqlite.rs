//! The data of a board in one SQLite file: the registry and the ledger.
//!
//! The file is in WAL mode: one connection writes, any number reads, and a command on the board's host may write while the
//! server runs. `synchronous` is FULL, so that an acknowledged write survives a power failure as well; batches make that
//! affordable.

mod ledger;
mod registry;

use std::fs::{File, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gua_files::FileError;
use gua_store::BackupError;
use gua_store::guard;
use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, Params, Row, Transaction, TransactionBehavior};

use crate::error::{OpenError, Result, StoreError};

/// Name of the file in the data directory.
const FILE: &str = "board.db";
const LOCK: &str = "board.lock";
/// `GUAB` in ASCII.
const APPLICATION_ID: u32 = 0x4755_4142;
const VERSION: u32 = 3;
/// Migration `n` leads from `user_version` `n` to `n + 1`.
const MIGRATIONS: [&str; VERSION as usize] = [
    include_str!("sqlite/v1.sql"),
    include_str!("sqlite/v2.sql"),
    include_str!("sqlite/v3.sql"),
];
/// Maximum time to wait for a command or the server that is writing.
const BUSY: Duration = Duration::from_secs(5);
/// Maximum number of idle connections for reading.
const MAX_READERS: usize = 8;

/// The data of a board in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    writer: Mutex<Connection>,
    readers: Mutex<Vec<Connection>>,
}

/// Keeps a second server from using a data directory.
#[derive(Debug)]
pub struct ServerLock(#[expect(dead_code, reason = "closing the file releases the lock")] File);

impl SqliteStore {
    /// Opens the data in a directory and creates both if they do not exist. The directory is private to its owner.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        let created = builder.create(directory);
        created.map_err(in_directory(directory))?;
        // SQLite gives its companion files the mode of the file.
        open_private(directory, FILE)?;
        Self::connect(directory.join(FILE))
    }

    /// Opens existing data, for commands that must not create a board by mistake.
    pub fn open_existing(directory: &Path) -> Result<Self, OpenError> {
        let path = directory.join(FILE);
        if !path.exists() {
            return Err(OpenError::Missing {
                path: directory.to_owned(),
            });
        }
        Self::connect(path)
    }

    fn connect(path: PathBuf) -> Result<Self, OpenError> {
        let as_open_error = |source| OpenError::from_sqlite(&path, source);
        let mut connection = open_connection(&path).map_err(as_open_error)?;
        refuse(&path, &connection)?;
        migrate(&mut connection).map_err(as_open_error)?;
        Ok(Self {
            path,
            writer: Mutex::new(connection),
            readers: Mutex::default(),
        })
    }

    /// Locks the data directory for a server.
    pub fn lock_server(directory: &Path) -> Result<ServerLock, OpenError> {
        let file = open_private(directory, LOCK)?;
        match file.try_lock() {
            Ok(()) => Ok(ServerLock(file)),
            Err(_) => Err(OpenError::InUse {
                path: directory.to_owned(),
            }),
        }
    }

    /// Copies the data to a new file, also while a server writes.
    pub fn backup(&self, target: &Path) -> Result<(), BackupError> {
        let begin = || {
            let source = open_connection(&self.path)?;
            // One read transaction, so that writes meanwhile do not restart the copy.
            source.execute_batch("BEGIN; SELECT count(*) FROM meta")?;
            Ok(source)
        };
        let source = begin().map_err(|source| BackupError::Sqlite {
            path: target.to_owned(),
            source,
        })?;
        gua_store::write_backup(
            &source,
            target,
            Permissions::from_mode(0o600),
            &mut |_, _| {},
        )
    }

    /// Returns the problems that SQLite and the schema's references show; none if the data is sound.
    pub fn check(&self) -> Result<Vec<String>> {
        let texts = |sql: &str| self.many(sql, [], |row| Ok(row.get::<_, String>(0)?));
        let mut problems = texts("PRAGMA integrity_check")?;
        problems.retain(|line| line != "ok");
        let tables = texts("PRAGMA foreign_key_check")?.into_iter();
        problems.extend(tables.map(|table| format!("a row of `{table}` refers to a missing row")));
        Ok(problems)
    }

    /// Runs a transaction. It is rolled back if `work` fails.
    fn write<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let mut connection = lock(&self.writer);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let result = work(&transaction)?;
        transaction.commit()?;
        Ok(result)
    }

    /// Reads over a connection of its own, which a writer does not block.
    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = lock(&self.readers).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => open_connection(&self.path)?,
        };
        let result = work(&connection);
        let mut readers = lock(&self.readers);
        if readers.len() < MAX_READERS {
            readers.push(connection);
        }
        result
    }

    /// Returns the first row of a query.
    fn one<T>(
        &self,
        sql: &str,
        values: impl Params,
        convert: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.read(|connection| first_row(connection, sql, values, convert))
    }

    /// Returns all rows of a query.
    fn many<T>(
        &self,
        sql: &str,
        values: impl Params,
        convert: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            statement.query_and_then(values, convert)?.collect()
        })
    }
}

fn in_directory(path: &Path) -> impl Fn(std::io::Error) -> FileError {
    FileError::cannot("use the data directory", path)
}

/// Opens a file of the data directory, and creates it if it does not exist. It is private to its owner.
fn open_private(directory: &Path, name: &str) -> Result<File, FileError> {
    let mut options = File::options();
    options.append(true).create(true).mode(0o600);
    let file = gua_files::open_own(&directory.join(name), &options);
    file.map_err(in_directory(directory))
}

/// Returns the first row of a query.
fn first_row<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    convert: impl FnOnce(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    rows.next()?.map(convert).transpose()
}

/// Reads a stored time.
fn time(row: &Row<'_>, column: usize) -> Result<Timestamp> {
    optional_time(row, column)?.ok_or(StoreError::Invalid("time"))
}

fn optional_time(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>> {
    let micros: Option<i64> = row.get(column)?;
    let time = micros.map(Timestamp::from_microsecond).transpose();
    time.map_err(|_| StoreError::Invalid("time"))
}

/// Reads an enum value that is stored as a word.
fn word<T: FromStr>(row: &Row<'_>, column: usize, what: &'static str) -> Result<T> {
    let text: String = row.get(column)?;
    text.parse().map_err(|_| StoreError::Invalid(what))
}

/// Reads texts that are stored one on each line.
fn lines(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<String>> {
    let text: String = row.get(column)?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// A thread that panicked while it held a connection has rolled its transaction back.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_connection(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    // A backup that was restored may have been changed by others.
    guard::harden(&connection)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Creates the schema or brings an older one up to date, in one transaction.
fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have created it since the file was opened.
    let found: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for step in MIGRATIONS.iter().skip(found as usize) {
        transaction.execute_batch(step)?;
    }
    if found < 1 {
        registry::add_first_workspace(&transaction)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    if found < VERSION {
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}

/// Refuses a file that is not the data of a board, is damaged or was changed by another program. Reads all pages of a small file,
/// and both ends of each table of a large one. Nothing is written.
fn refuse(path: &Path, connection: &Connection) -> Result<(), OpenError> {
    let as_open_error = |source| OpenError::from_sqlite(path, source);
    let path = || path.to_owned();
    // One statement, because another process may be creating the data.
    let sql = "SELECT application_id, user_version, EXISTS (SELECT 1 FROM sqlite_schema)
               FROM pragma_application_id, pragma_user_version";
    let facts = connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let (id, found, has_tables): (i64, i64, bool) = facts.map_err(as_open_error)?;
    if (id, found, has_tables) == (0, 0, false) {
        return Ok(());
    }
    let found = u32::try_from(found).unwrap_or_default();
    if id != i64::from(APPLICATION_ID) || found == 0 {
        return Err(OpenError::NotOurs { path: path() });
    }
    if found > VERSION {
        return Err(OpenError::TooNew {
            path: path(),
            found,
            known: VERSION,
        });
    }
    let damage = match guard::is_small(connection).map_err(as_open_error)? {
        true => guard::damage(connection),
        false => guard::read_ends(connection).map(|()| None),
    };
    if let Some(detail) = damage.map_err(as_open_error)? {
        return Err(OpenError::Damaged {
            path: path(),
            detail,
        });
    }
    let steps = &MIGRATIONS[..found as usize];
    match guard::foreign_object(connection, steps).map_err(as_open_error)? {
        Some(name) => Err(OpenError::Foreign { path: path(), name }),
        None => Ok(()),
    }
}
