//! The tables of a history file and the steps that lead to them. A released step is never edited: the next is added.
//!
//! Times are whole microseconds since 1970 in UTC. Names of tables are unlike those of gpu-usage-audit, so that no tool
//! takes one file for the other.
//!
//! The first writer that opens a file of an earlier schema converts it in one transaction. A reader never writes: it puts
//! temporary views over such a file ([`adapt`]), so that every query names the tables of the newest schema.

use rusqlite::{Connection, TransactionBehavior};

use crate::totals;

/// `gua1` in ASCII: the mark in the file's header that says whose it is.
pub const APPLICATION_ID: i32 = 0x6775_6131;

/// The newest schema that this program knows.
pub const VERSION: u32 = 2;

/// Step `n` leads from `user_version` `n` to `n + 1`.
const MIGRATIONS: [&str; VERSION as usize] = [
    concat!(
        include_str!("schema/v1.sql"),
        include_str!("schema/v1_old.sql")
    ),
    include_str!("schema/v2.sql"),
];

/// Brings the file to the newest schema, in one transaction. The caller has made sure that it is ours and not newer.
pub(crate) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = version(&transaction)?;
    for step in MIGRATIONS.iter().skip(found as usize) {
        transaction.execute_batch(step)?;
    }
    if found == 1 {
        totals::convert(&transaction)?;
    }
    if found < VERSION {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}

/// Lets a reader ask a file of an earlier schema as if it had the newest one.
pub(crate) fn adapt(connection: &Connection, found: u32) -> rusqlite::Result<()> {
    match found {
        1 => connection.execute_batch(include_str!("schema/v1_as_v2.sql")),
        _ => Ok(()),
    }
}

pub(crate) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}
