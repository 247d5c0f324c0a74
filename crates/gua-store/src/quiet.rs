//! Opening of a file for reading. A history with an active writer is read through SQLite's shared memory. If that does
//! not exist and cannot (or should not) be created, the file is opened as immutable, and every query checks afterwards
//! that the file has not changed.

use std::ffi::OsStr;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::error::OpenError;
use crate::files::{FilePrint, length};
use crate::kind::{FileKind, what_is_this};
use crate::schema;
use crate::store::BUSY;

/// Metadata of a file without a writer; `None` if it has one. A writer has a journal while it is active, and changes the file
/// before it closes it.
pub(crate) fn print_without_writer(path: &Path) -> Option<FilePrint> {
    FilePrint::of(path).filter(|_| length(path, "-wal") == 0)
}

pub(crate) fn open(path: &Path) -> Result<(Connection, Option<FilePrint>), OpenError> {
    refuse_others(path)?;
    // Without a journal there is no writer, and SQLite would create one beside the file just to read it. A reader must
    // leave no files behind; files owned by the reading user would later block the writer.
    if !crate::beside(path, "-wal").exists() {
        return open_quiet(path);
    }
    let shared = connect(path, path.as_os_str());
    match shared {
        Err(OpenError::Sqlite { source, .. })
            if source.sqlite_error_code() == Some(rusqlite::ErrorCode::CannotOpen) =>
        {
            open_quiet(path)
        }
        other => other.map(|connection| (connection, None)),
    }
}

fn open_quiet(path: &Path) -> Result<(Connection, Option<FilePrint>), OpenError> {
    let quiet = print_without_writer(path).ok_or_else(|| OpenError::Unmerged {
        path: path.to_owned(),
    })?;
    let connection = connect(path, crate::file_uri(path, "immutable=1").as_ref())?;
    Ok((connection, Some(quiet)))
}

fn connect(path: &Path, address: &OsStr) -> Result<Connection, OpenError> {
    let as_open_error = |error| OpenError::from_sqlite(path, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let connection = hardened(address, flags).map_err(as_open_error)?;
    refuse_foreign_objects(path, &connection)?;
    match schema::version(&connection).map_err(as_open_error)? {
        found @ 1..=schema::VERSION => {
            schema::adapt(&connection, found).map_err(as_open_error)?;
            Ok(connection)
        }
        found => Err(OpenError::TooNew {
            path: path.to_owned(),
            found,
        }),
    }
}

/// Opens a database that another user may have made.
pub(crate) fn hardened(address: &OsStr, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(address, flags)?;
    connection.busy_timeout(BUSY)?;
    crate::guard::harden(&connection)?;
    Ok(connection)
}

/// Refuses a file with other tables, views or triggers than gua makes.
pub(crate) fn refuse_foreign_objects(
    path: &Path,
    connection: &Connection,
) -> Result<(), OpenError> {
    let object = || match schema::version(connection)? {
        found @ 1..=schema::VERSION => schema::foreign_object(connection, found),
        _ => Ok(None),
    };
    match object().map_err(|error| OpenError::from_sqlite(path, error))? {
        Some(name) => {
            let detail = format!(
                "it contains `{}`, which gua does not create",
                name.escape_debug()
            );
            Err(OpenError::damaged(path, detail))
        }
        None => Ok(()),
    }
}

fn refuse_others(path: &Path) -> Result<(), OpenError> {
    let path = path.to_owned();
    match what_is_this(&path) {
        FileKind::OurHistory { .. } => Ok(()),
        FileKind::Missing => Err(OpenError::Missing { path }),
        FileKind::NewerHistory { version: found } => Err(OpenError::TooNew { path, found }),
        kind => Err(OpenError::not_ours(path, kind)),
    }
}
