//! Queries that are prepared once and run many times.

use rusqlite::{Connection, Params, Row};

/// Reads all rows of a query.
pub(crate) fn rows<T, E: From<rusqlite::Error>>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, E>,
) -> Result<Vec<T>, E> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}
