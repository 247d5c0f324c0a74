//! Queries that are prepared once and run many times.

use rusqlite::{Connection, Params, Row};

use crate::error::ReadError;

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
