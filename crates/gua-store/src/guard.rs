//! Protection against SQLite files that another user created or changed. Every store of gua opens its file in this way.

use std::collections::BTreeMap;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use sha2::{Digest as _, Sha256};

/// Maximum length of a value and of a row. The longest value is a file of 64 MB in a board's archive.
const MAX_VALUE_LENGTH: i32 = 65 << 20;
const MAX_STATEMENT_LENGTH: i32 = 1 << 20;

/// Restricts a database that another user may have created: its views and triggers do not run, its schema cannot call unsafe
/// functions, and values and statements are no longer than any that gua writes.
pub fn harden(connection: &Connection) -> rusqlite::Result<()> {
    // Temporary views, which readers of earlier schemas make, still work.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // Query planner stability guarantee: without it, SQLite prepares some statements again for every new value.
    // https://www.sqlite.org/queryplanner-ng.html#qpsg
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_LENGTH)?;
    connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_STATEMENT_LENGTH)?;
    Ok(())
}

/// Maximum size of a file that is read in full before a writer uses it. Reading a larger one would delay the start.
const MAX_TO_READ: i64 = 64 << 20;

/// Whether a file is small enough to be read in full before a writer uses it.
pub fn is_small(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
    let bytes: i64 = connection.query_row(sql, [], |row| row.get(0))?;
    Ok(bytes <= MAX_TO_READ)
}

/// Reads all pages and returns the first damage that SQLite finds.
pub fn damage(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let words: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok(Some(words).filter(|words| words != "ok"))
}

/// Reads the first and last rows of every table. SQLite reports any damage it finds as an error.
pub fn read_ends(connection: &Connection) -> rusqlite::Result<()> {
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
    Ok(())
}

/// Reads all values of all rows.
pub(crate) fn read_rows(connection: &Connection, query: &str) -> rusqlite::Result<()> {
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

/// Table and SQL of each object of a schema, by name.
type Objects = BTreeMap<String, (String, String)>;

/// Returns the name of a table, index, view or trigger that differs from what the SQL of `schema` creates. Without its key or
/// an index, a table would give correct results, but each of thousands of queries would read all of it. Additional tables with
/// their indexes are accepted, because gpu-usage-audit creates its own in any file that it is given.
pub fn foreign_object(
    connection: &Connection,
    schema: &[&str],
) -> rusqlite::Result<Option<String>> {
    let made = Connection::open_in_memory()?;
    made.execute_batch(&schema.concat())?;
    let (found, expected) = (objects(connection)?, objects(&made)?);
    let is_ours = |table: &str| expected.values().any(|(its_table, _)| its_table == table);
    let wrong = found.iter().find(|(name, (table, sql))| {
        let is_plain = ["CREATE TABLE", "CREATE INDEX", "CREATE UNIQUE INDEX"]
            .iter()
            .any(|start| sql.starts_with(start));
        !expected.contains_key(*name) && (is_ours(table) || !is_plain)
    });
    let missing = expected
        .iter()
        .find(|(name, sql)| found.get(*name) != Some(sql));
    Ok(wrong.or(missing).map(|(name, _)| name.clone()))
}

/// Returns the SHA-256 of everything that [`foreign_object`] compares, in hexadecimal.
pub(crate) fn fingerprint(connection: &Connection) -> rusqlite::Result<String> {
    let mut hash = Sha256::new();
    for (name, (table, sql)) in objects(connection)? {
        for text in [name, table, sql] {
            hash.update(text);
            hash.update([0]);
        }
    }
    let bytes = hash.finalize();
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn objects(connection: &Connection) -> rusqlite::Result<Objects> {
    let mut statement = connection.prepare(
        "SELECT name, tbl_name, sql FROM main.sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    rows.collect()
}
