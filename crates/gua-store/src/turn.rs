//! The transaction in which a tick is written.

use rusqlite::Connection;

/// Begun with the first statement that needs it. Most ticks are one row whose names are known, and one statement is a
/// transaction by itself: to begin and to end it in words of its own would cost as much as the row. The words are prepared
/// once, which a plain transaction does not do.
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

    /// The connection, for statements that are only good together with others.
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
            // Not committed: nothing of it stays. SQLite does the same by itself when the connection is closed.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}
