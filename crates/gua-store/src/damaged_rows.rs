//! Damaged rows of the small tables: GPUs, owners, outages, requests that were not granted, and watched runs. Queries leave
//! them out, reports count them, and `gua db check` lists them.

use rusqlite::{Connection, Row};

use crate::error::ReadError;
use crate::history::{self, History};
use crate::sql::undamaged;
use crate::{names, refusal, watched};

impl History {
    /// Number of damaged rows in the small tables.
    pub fn damaged_rows(&self) -> Result<u32, ReadError> {
        let found = self.read(|connection| find(connection, usize::MAX))?.len();
        Ok(u32::try_from(found).unwrap_or(u32::MAX))
    }
}

/// Describes up to `most` damaged rows.
pub(crate) fn find(connection: &Connection, most: usize) -> Result<Vec<String>, ReadError> {
    let mut found = Vec::new();
    let mut look = |what: &str, sql: &str, read: &dyn Fn(&Row<'_>) -> Result<(), ReadError>| {
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if undamaged(read(row))?.is_none() && found.len() < most {
                let id: i64 = row.get("id")?;
                found.push(format!("{what} {id} holds a value that cannot be true"));
            }
        }
        Ok::<_, ReadError>(())
    };
    look("GPU", history::GPUS, &|row| {
        history::gpu(connection, row).map(drop)
    })?;
    look("owner", names::OWNERS, &|row| {
        names::owner_row(row).map(drop)
    })?;
    look("outage", history::OUTAGES, &|row| {
        history::outage(row).map(drop)
    })?;
    look("request", refusal::COLUMNS, &|row| {
        refusal::asking(row).map(drop)
    })?;
    look("watched run", watched::COLUMNS, &|row| {
        watched::from_row(row).map(drop)
    })?;
    Ok(found)
}
