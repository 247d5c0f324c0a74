//! Damaged rows of the small tables: collector runs, GPUs, owners, outages, requests that were not granted, and watched runs.
//! Queries leave them out, and `gua db check` lists them. Reports count all but watched runs, of which they use nothing.

use rusqlite::{Connection, Row};

use crate::error::ReadError;
use crate::history::{self, History};
use crate::sql::undamaged;
use crate::{names, refusal, watched};

impl History {
    /// Number of damaged collector runs, GPUs, owners, outages and requests.
    pub fn damaged_rows(&self) -> Result<u32, ReadError> {
        let found = self.read(used_by_reports)?.len();
        Ok(u32::try_from(found).unwrap_or(u32::MAX))
    }
}

/// Describes up to `most` damaged rows.
pub(crate) fn find(connection: &Connection, most: usize) -> Result<Vec<String>, ReadError> {
    let mut found = used_by_reports(connection)?;
    look(
        connection,
        &mut found,
        "watched run",
        watched::COLUMNS,
        &|row| watched::from_row(row).map(drop),
    )?;
    found.truncate(most);
    Ok(found)
}

fn used_by_reports(connection: &Connection) -> Result<Vec<String>, ReadError> {
    let mut found = Vec::new();
    let mut look =
        |what: &str, sql: &str, read: ReadRow<'_>| look(connection, &mut found, what, sql, read);
    look("collector run", history::RUNS, &|row| {
        history::run(row).map(drop)
    })?;
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
    Ok(found)
}

type ReadRow<'a> = &'a dyn Fn(&Row<'_>) -> Result<(), ReadError>;

/// Describes the damaged rows of a query.
fn look(
    connection: &Connection,
    found: &mut Vec<String>,
    what: &str,
    sql: &str,
    read: ReadRow<'_>,
) -> Result<(), ReadError> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if undamaged(read(row))?.is_none() {
            let id: i64 = row.get("id")?;
            found.push(format!("{what} {id} holds a value that cannot be true"));
        }
    }
    Ok(())
}
