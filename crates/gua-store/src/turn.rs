//! The transaction in which a tick is written.

use rusqlite::Connection;

/// A transaction that begins with the first statement that needs it. Most ticks are a single row whose names are all
/// known, and a single statement is a transaction by itself: separate `BEGIN` and `COMMIT` statements would cost as
/// much as the row. These statements are prepared once, unlike in rusqlite's own transaction.
pub(crate) struct Turn<'a> {
    connection: &'a Connection,
    is_begun: bool,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(connection: &'a Connection) -> Self {
        Self {
            connection,
            is_begun: false,
        }
    }

    /// Begins the transaction if necessary and returns the connection, for statements that must be committed together.
    pub(crate) fn begun(&mut self) -> rusqlite::Result<&'a Connection> {
        if !self.is_begun {
            self.connection
                .prepare_cached("BEGIN IMMEDIATE")?
                .execute([])?;
            self.is_begun = true;
        }
        Ok(self.connection)
    }

    pub(crate) fn commit(self) -> rusqlite::Result<()> {
        if self.is_begun {
            self.connection.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(())
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.is_begun && !self.connection.is_autocommit() {
            // Roll back if not committed. SQLite does the same when the connection is closed.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}
