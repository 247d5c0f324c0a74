//! Integrity check of a file before a writer adds to it. It changes nothing. `gua db check` checks more.

use std::path::Path;

use rusqlite::Connection;

use crate::error::OpenError;
use crate::schema;
use crate::store::{CLEAN, meta};

/// Refuses a damaged file. Reads all pages if the file is small, or if the last writer crashed, since the pages that
/// SQLite recovered have not been checked yet. Otherwise reads both ends of each table.
pub(crate) fn refuse_damage(path: &Path, connection: &Connection) -> Result<(), OpenError> {
    let damage = || -> rusqlite::Result<Option<String>> {
        if schema::version(connection)? == 0 {
            return Ok(None);
        }
        let bytes: i64 = connection.query_row(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
            [],
            |row| row.get(0),
        )?;
        if bytes > MOST_TO_READ && meta(connection, CLEAN)? != Some(0) {
            read_ends(connection)?;
            return Ok(None);
        }
        let words: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        Ok(Some(words).filter(|words| words != "ok"))
    };
    match damage() {
        Ok(None) => Ok(()),
        Ok(Some(detail)) => Err(OpenError::Damaged {
            path: path.to_owned(),
            detail,
        }),
        Err(error) => Err(OpenError::from_sqlite(path, error)),
    }
}

/// Maximum size of a file that is read in full although it was closed cleanly. Reading a larger one at each start would
/// delay the first tick on a slow disk.
const MOST_TO_READ: i64 = 64 << 20;

/// Reads the first and last rows of every table, and the newest hour of ticks. SQLite reports any damage it finds.
fn read_ends(connection: &Connection) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(
        "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table'",
    )?;
    let tables = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for table in tables {
        let (name, without_rowid): (String, bool) = table?;
        let key = if without_rowid { "1" } else { "rowid" };
        for order in ["ASC", "DESC"] {
            let query = format!("SELECT * FROM \"{name}\" ORDER BY {key} {order} LIMIT 1");
            read_rows(connection, &query)?;
        }
    }
    read_rows(
        connection,
        "SELECT * FROM tick WHERE at > (SELECT max(at) FROM tick) - 3600000000",
    )
}

/// Reads all values of all rows.
fn read_rows(connection: &Connection, query: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(query)?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        for column in 0..columns {
            row.get_ref(column)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{OpenMode, Store, WriterOptions};

    #[test]
    fn the_ends_of_a_large_file_are_read_and_a_broken_one_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gua.db");
        let options = WriterOptions::default();
        let store = Store::open(&path, OpenMode::Create, &options).unwrap();
        store
            .connection
            .execute_batch(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
                 INSERT INTO tick SELECT i, 1, zeroblob(100) FROM n",
            )
            .unwrap();
        read_ends(&store.connection).unwrap();
        let root: u32 = store
            .connection
            .query_row(
                "SELECT rootpage FROM sqlite_schema WHERE name = 'tick'",
                [],
                |row| row.get(0),
            )
            .unwrap();
        store.close().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let end = usize::try_from(root).unwrap() * 4096;
        bytes[end - 4096..end].fill(0xa5);
        std::fs::write(&path, bytes).unwrap();
        let connection = Connection::open(&path).unwrap();
        assert!(read_ends(&connection).is_err());
    }
}
