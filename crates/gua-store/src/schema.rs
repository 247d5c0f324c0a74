//! Tables of a history file and the migrations that create them. A released migration is never edited; changes are
//! added as a new one.
//!
//! Times are whole microseconds since 1970 in UTC. Table names differ from those of gpu-usage-audit, so that no tool
//! mistakes one file for the other.
//!
//! The first writer that opens a file with an earlier schema migrates it in one transaction. A reader never writes: it
//! creates temporary views over such a file (`adapt`), so that every query can use the tables of the newest schema.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, TransactionBehavior};

use crate::{imported, maintain, totals};

/// SQLite application id in the file header that identifies a history of gua: `gua1` in ASCII.
pub const APPLICATION_ID: i32 = 0x6775_6131;

/// Newest schema version that this program supports.
pub const VERSION: u32 = 3;

/// Migration `n` leads from `user_version` `n` to `n + 1`.
const MIGRATIONS: [&str; VERSION as usize] = [
    concat!(
        include_str!("schema/v1.sql"),
        include_str!("schema/v1_old.sql")
    ),
    include_str!("schema/v2.sql"),
    include_str!("schema/v3.sql"),
];

/// Migrates the file to the newest schema in one transaction. The caller has checked that it is a history of gua and
/// not newer.
pub(crate) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
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
    Ok(())
}

/// Limits what a database that others may have made can do: none of its views and triggers run, its functions are not
/// trusted, and no value or statement is longer than any that is written on purpose.
pub fn harden(connection: &Connection) -> rusqlite::Result<()> {
    const LONGEST_VALUE: i32 = 64 << 20;
    const LONGEST_STATEMENT: i32 = 1 << 20;
    // Temporary views, which `adapt` makes, still work.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_VALUE)?;
    connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, LONGEST_STATEMENT)?;
    Ok(())
}

/// Returns the name of a table, index, view or trigger that is not as the migrations make it. Without its key or an index, a
/// table would answer correctly, but each of thousands of questions would read all of it. Other tables with their indexes
/// are no damage: gpu-usage-audit makes its own in any file that it is pointed at.
pub(crate) fn foreign_object(
    connection: &Connection,
    found: u32,
) -> rusqlite::Result<Option<String>> {
    let (found, expected) = (objects(connection)?, expected(found)?);
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

/// Table and SQL of each object of a schema, by name.
type Objects = BTreeMap<String, (String, String)>;

/// The objects that the migrations up to a version make, computed once.
fn expected(version: u32) -> rusqlite::Result<&'static Objects> {
    static KNOWN: [OnceLock<Objects>; VERSION as usize] =
        [const { OnceLock::new() }; VERSION as usize];
    let (steps, known) = (version as usize, &KNOWN[version as usize - 1]);
    if known.get().is_none() {
        let made = Connection::open_in_memory()?;
        made.execute_batch(&MIGRATIONS[..steps].concat())?;
        let _ = known.set(objects(&made)?);
    }
    Ok(known.get_or_init(Objects::new))
}

fn objects(connection: &Connection) -> rusqlite::Result<Objects> {
    let mut statement = connection.prepare(
        "SELECT name, tbl_name, sql FROM main.sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    rows.collect()
}

pub(crate) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}
