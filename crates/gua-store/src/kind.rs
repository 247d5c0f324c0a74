//! Detects the kind of file at a path without changing anything: no lock, no journal, no shared memory.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::schema::{APPLICATION_ID, VERSION};

/// Kind of file at a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileKind {
    #[error("not there")]
    Missing,
    /// A file without content, or a database without tables.
    #[error("an empty file")]
    Empty,
    #[error("a history of gua (schema {version})")]
    OurHistory { version: u32 },
    #[error("a history of a newer gua (schema {version})")]
    NewerHistory { version: u32 },
    #[error("a history of gpu-usage-audit")]
    GpuUsageAudit,
    #[error("a database of another program")]
    OtherSqlite,
    #[error("not a database")]
    NotSqlite,
    #[error("a directory")]
    Directory,
    #[error("unreadable ({why})")]
    Unreadable { why: String },
}

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const HEADER: usize = 100;

/// Detects the kind of file at a path. The header, which has gua's application id, is checked first; otherwise the
/// names of the tables decide.
pub fn what_is_this(path: &Path) -> FileKind {
    match header(path) {
        Ok(Ok(bytes)) => of_database(path, &bytes),
        Ok(Err(kind)) => kind,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => FileKind::Missing,
        Err(error) => FileKind::Unreadable {
            why: error.to_string(),
        },
    }
}

/// Reads the header of a database, or finds another kind of file.
fn header(path: &Path) -> std::io::Result<Result<[u8; HEADER], FileKind>> {
    let facts = std::fs::metadata(path)?;
    if facts.is_dir() {
        return Ok(Err(FileKind::Directory));
    }
    if !facts.is_file() {
        return Ok(Err(FileKind::NotSqlite));
    }
    let mut bytes = Vec::with_capacity(HEADER);
    File::open(path)?
        .take(HEADER as u64)
        .read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        return Ok(Err(FileKind::Empty));
    }
    let header = <[u8; HEADER]>::try_from(bytes).ok();
    let header = header.filter(|header| header.starts_with(MAGIC));
    Ok(header.ok_or(FileKind::NotSqlite))
}

fn of_database(path: &Path, header: &[u8; HEADER]) -> FileKind {
    let (version, application) = marks(header);
    if application == APPLICATION_ID {
        return of_version(version);
    }
    // All pages of a new file may still be in its write-ahead log.
    if let Some(page) = first_page_in_journal(path) {
        let (version, application) = marks(&page);
        if application == APPLICATION_ID {
            return of_version(version);
        }
    }
    match tables(path) {
        Ok(tables) if tables.iter().any(|name| name == "gpu_sample") => FileKind::GpuUsageAudit,
        Ok(tables) if tables.is_empty() && application == 0 && version == 0 => FileKind::Empty,
        Ok(_) => FileKind::OtherSqlite,
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) => {
            FileKind::NotSqlite
        }
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt) => {
            FileKind::OtherSqlite
        }
        Err(error) => FileKind::Unreadable {
            why: error.to_string(),
        },
    }
}

/// Reads `user_version` (at byte 60) and `application_id` (at byte 68) of SQLite's file header, both big endian.
fn marks(header: &[u8]) -> (u32, i32) {
    let number = |at: usize| {
        let bytes = header
            .get(at..at + 4)
            .and_then(|bytes| bytes.try_into().ok());
        u32::from_be_bytes(bytes.unwrap_or_default())
    };
    (number(60), number(68).cast_signed())
}

/// Finds the newest copy of page 1 in the write-ahead log: a header of 32 bytes, then frames of 24 bytes and a page
/// each. Current frames have the same two salts as the header. See <https://www.sqlite.org/fileformat2.html#walformat>.
fn first_page_in_journal(path: &Path) -> Option<Vec<u8>> {
    const LOG_HEADER: usize = 32;
    const FRAME_HEADER: usize = 24;
    let mut log = BufReader::new(File::open(crate::beside(path, "-wal")).ok()?);
    let mut head = [0; LOG_HEADER];
    log.read_exact(&mut head).ok()?;
    let size = u32::from_be_bytes(head[8..12].try_into().ok()?);
    if !(512..=65_536).contains(&size) {
        return None;
    }
    let mut frame = vec![0; FRAME_HEADER + usize::try_from(size).ok()?];
    let mut newest = None;
    while log.read_exact(&mut frame).is_ok() && frame[8..16] == head[16..24] {
        if frame[..4] == [0, 0, 0, 1] {
            newest = Some(frame[FRAME_HEADER..].to_vec());
        }
    }
    newest
}

/// Returns whether the write-ahead log beside a history of gua is one of another database: its pages have another size, or its
/// first page has another application id. A log without a first page cannot be distinguished.
pub(crate) fn is_foreign_journal(path: &Path) -> bool {
    let bytes = |path: &Path, at: usize| -> Option<[u8; 4]> {
        let mut head = [0; 24];
        File::open(path).ok()?.read_exact(&mut head).ok()?;
        head[at..at + 4].try_into().ok()
    };
    // The page size is at byte 16 of a database, where 1 means 65,536, and at byte 8 of a log.
    let of_file = bytes(path, 16).map(|[high, low, ..]| match u16::from_be_bytes([high, low]) {
        1 => 65_536,
        size => u32::from(size),
    });
    let of_log = bytes(&crate::beside(path, "-wal"), 8).map(u32::from_be_bytes);
    let first_page = first_page_in_journal(path);
    of_file != of_log || first_page.is_some_and(|page| marks(&page).1 != APPLICATION_ID)
}

fn of_version(version: u32) -> FileKind {
    if version > VERSION {
        FileKind::NewerHistory { version }
    } else {
        FileKind::OurHistory { version }
    }
}

/// Returns the names of the tables. A write-ahead log is read if SQLite can do so without creating files; if there is
/// none, the file is opened as immutable.
fn tables(path: &Path) -> rusqlite::Result<Vec<String>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let has_journal = crate::beside(path, "-wal").exists() && crate::beside(path, "-shm").exists();
    let connection = if has_journal {
        Connection::open_with_flags(path, flags)?
    } else {
        Connection::open_with_flags(crate::file_uri(path, "immutable=1"), flags)?
    };
    crate::guard::harden(&connection)?;
    let mut statement =
        connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
    let names = statement.query_map([], |row| row.get(0))?;
    let mut names: Vec<String> = names.collect::<Result<_, _>>()?;
    if !has_journal && let Some(page) = first_page_in_journal(path) {
        // The page of the `sqlite_schema` table, which contains the table names as plain text.
        let lists = |name: &str| page.windows(name.len()).any(|part| part == name.as_bytes());
        let name = if lists("gpu_sample") {
            "gpu_sample"
        } else {
            "some table"
        };
        names.push(name.to_owned());
    }
    Ok(names)
}
