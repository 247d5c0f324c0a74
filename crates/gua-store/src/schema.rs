//! Tables of a history file and the migrations that create them. A released migration is never edited; changes are
//! added as a new one.
//!
//! Times are whole microseconds since 1970 in UTC. Table names differ from those of gpu-usage-audit, so that no tool
//! mistakes one file for the other.
//!
//! The first writer that opens a file with an earlier schema migrates it in one transaction. A reader never writes: it
//! creates temporary views over such a file (`adapt`), so that every query can use the tables of the newest schema.

use rusqlite::Connection;

use crate::{guard, imported, maintain, sql, totals};

/// SQLite application id in the file header that identifies a history of gua: `gua1` in ASCII.
pub const APPLICATION_ID: i32 = 0x6775_6131;

/// Newest schema version that this program supports.
pub const VERSION: u32 = 4;

/// Fingerprint of the objects of the newest schema. Nearly every file has this schema, and creating its objects for a comparison
/// would take milliseconds.
const NEWEST: &str = "7f5a5d8dd97ff25ed2ea6f0f824c7b6346b0b13a0f057e1283462e72207e52c9";

/// Migration `n` leads from `user_version` `n` to `n + 1`.
const MIGRATIONS: [&str; VERSION as usize] = [
    concat!(
        include_str!("schema/v1.sql"),
        include_str!("schema/v1_old.sql")
    ),
    include_str!("schema/v2.sql"),
    include_str!("schema/v3.sql"),
    include_str!("schema/v4.sql"),
];

/// Migrates the file to the newest schema in one transaction. The caller has checked that it is a history of gua and
/// not newer.
pub(crate) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = sql::begin(connection)?;
    let found = version(&transaction)?;
    for step in MIGRATIONS.iter().skip(found as usize) {
        transaction.execute_batch(step)?;
    }
    if found == 1 {
        totals::convert(&transaction)?;
    }
    if found > 0 && found < 3 {
        // Before schema 3, a process of little memory was charged for a GPU that was free.
        maintain::fold_again(&transaction)?;
    }
    if (found > 0 && found < 3) || imported::have_earlier_form(&transaction)? {
        imported::rebuild(&transaction)?;
    }
    if found < VERSION {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}

/// Creates temporary views, so that a reader can query a file with an earlier schema as if it had the newest one.
pub(crate) fn adapt(connection: &Connection, found: u32) -> rusqlite::Result<()> {
    if found < 2 {
        connection.execute_batch(include_str!("schema/v1_as_v2.sql"))?;
    }
    if found < 3 {
        connection.execute_batch(include_str!("schema/v2_as_v3.sql"))?;
    }
    if found == 3 {
        connection.execute_batch("CREATE TEMP VIEW session_v3 AS SELECT * FROM main.session")?;
    }
    if found < 4 {
        connection.execute_batch(include_str!("schema/v3_as_v4.sql"))?;
    }
    Ok(())
}

/// Returns the name of a table, index, view or trigger that differs from what the migrations up to a version create.
pub(crate) fn foreign_object(
    connection: &Connection,
    found: u32,
) -> rusqlite::Result<Option<String>> {
    if found == VERSION && guard::fingerprint(connection)? == NEWEST {
        return Ok(None);
    }
    guard::foreign_object(connection, &MIGRATIONS[..found as usize])
}

pub(crate) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_is_that_of_the_newest_schema() -> rusqlite::Result<()> {
        let mut connection = Connection::open_in_memory()?;
        migrate(&mut connection)?;
        assert_eq!(guard::fingerprint(&connection)?, NEWEST);
        connection.execute_batch("CREATE VIEW planted AS SELECT 1")?;
        assert_ne!(guard::fingerprint(&connection)?, NEWEST);
        Ok(())
    }
}
