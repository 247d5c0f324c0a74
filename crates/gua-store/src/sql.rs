//! Statements that are prepared once and run many times: each connection caches them by their text.

use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, Transaction, TransactionBehavior};

use crate::error::ReadError;

/// Begins a transaction that takes the write lock at once.
pub(crate) fn begin(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// Runs a statement, and returns the number of rows that it changed.
pub(crate) fn run(
    connection: &Connection,
    sql: &str,
    values: impl Params,
) -> rusqlite::Result<usize> {
    connection.prepare_cached(sql)?.execute(values)
}

/// Returns the first column of the first row.
pub(crate) fn value<T: FromSql>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
) -> rusqlite::Result<T> {
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_row(values, |row| row.get(0))
}

/// Returns the first column of the first row; `None` if there is no row.
pub(crate) fn find<T: FromSql>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
) -> rusqlite::Result<Option<T>> {
    value(connection, sql, values).optional()
}

/// Calls `each` with every row of a query.
pub(crate) fn each<E: From<rusqlite::Error>>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    mut each: impl FnMut(&Row<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    while let Some(row) = rows.next()? {
        each(row)?;
    }
    Ok(())
}

/// Reads all rows of a query.
pub(crate) fn rows<T, E: From<rusqlite::Error>>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, E>,
) -> Result<Vec<T>, E> {
    let mut found = Vec::new();
    each(connection, sql, values, |row| {
        found.push(read(row)?);
        Ok::<_, E>(())
    })?;
    Ok(found)
}

/// Returns the content of a row, or `None` if the row is damaged: it has a value that gua never stores.
pub(crate) fn undamaged<T>(read: Result<T, ReadError>) -> Result<Option<T>, ReadError> {
    use rusqlite::Error::{
        FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error,
    };
    match read {
        Ok(content) => Ok(Some(content)),
        Err(
            ReadError::Value(_)
            | ReadError::Sqlite(
                FromSqlConversionFailure(..)
                | IntegralValueOutOfRange(..)
                | InvalidColumnType(..)
                | Utf8Error(..),
            ),
        ) => Ok(None),
        Err(other) => Err(other),
    }
}

/// Reads the undamaged rows of a query.
pub(crate) fn undamaged_rows<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, ReadError>,
) -> Result<Vec<T>, ReadError> {
    let found: Vec<Option<T>> = rows(connection, sql, values, |row| undamaged(read(row)))?;
    Ok(found.into_iter().flatten().collect())
}
