//! Integrity check of a file before a writer adds to it. It changes nothing. `gua db check` checks more.

use std::path::Path;

use rusqlite::Connection;

use crate::error::OpenError;
use crate::store::{CLEAN, meta};
use crate::{guard, schema};

/// Refuses a damaged file. Reads all pages if the file is small, or if the last writer crashed, since the pages that
/// SQLite recovered have not been checked yet. Otherwise reads both ends of each table.
pub(crate) fn refuse_damage(path: &Path, connection: &Connection) -> Result<(), OpenError> {
    let damage = || -> rusqlite::Result<Option<String>> {
        if schema::version(connection)? == 0 {
            return Ok(None);
        }
        if !guard::is_small(connection)? && meta(connection, CLEAN)? != Some(0) {
            read_ends(connection)?;
            return Ok(None);
        }
        guard::damage(connection)
    };
    match damage() {
        Ok(None) => Ok(()),
        Ok(Some(detail)) => Err(OpenError::damaged(path, detail)),
        Err(error) => Err(OpenError::from_sqlite(path, error)),
    }
}

/// Reads the first and last rows of every table, and the newest hour of ticks. SQLite reports any damage it finds.
fn read_ends(connection: &Connection) -> rusqlite::Result<()> {
    guard::read_ends(connection)?;
    guard::read_rows(
        connection,
        "SELECT * FROM tick WHERE at > (SELECT max(at) FROM tick) - 3600000000",
    )
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
