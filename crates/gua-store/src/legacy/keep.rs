//! What our history does with old rows: takes them in, gives them back, erases a person in them.

use gua_model::Period;
use gua_model::legacy::LegacyCardTick;
use jiff::Timestamp;
use rusqlite::{Connection, Transaction};

use super::block::unpack;
use super::error::LegacyError;
use super::fold::fold_stored;
use super::import::{Imported, OnProgress, import, load_texts};
use super::open::OldFile;
use super::rows::{OldRow as _, ProcessRow, counted};
use crate::history::History;
use crate::store::Store;

/// A file that was imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldSource {
    pub id: i64,
    /// Where it lay at its last import.
    pub path: String,
    pub imported: Timestamp,
    pub card_rows: u64,
    pub process_rows: u64,
    /// Whether the last import came to its end.
    pub complete: bool,
}

impl Store {
    /// Imports an old history, or what is new in it, and checks that all of it is here. A file that a writer touched
    /// meanwhile is opened anew and the import goes on.
    pub fn import_old(
        &mut self,
        path: &std::path::Path,
        now: Timestamp,
        on_progress: OnProgress<'_>,
    ) -> Result<Imported, LegacyError> {
        let old = OldFile::open(path)?;
        match import(&old, &mut self.connection, now, on_progress) {
            Err(LegacyError::Changed { .. }) => {
                let old = OldFile::open(path)?;
                import(&old, &mut self.connection, now, on_progress)
            }
            other => other,
        }
    }
}

impl History {
    /// The files that were imported.
    pub fn old_sources(&self) -> Result<Vec<OldSource>, LegacyError> {
        sources(&self.connection)
    }

    /// Gives every imported card-tick of a window to `each`: one source after the other, each in the order of time.
    pub fn old_ticks(
        &self,
        window: Period,
        each: &mut dyn FnMut(&LegacyCardTick),
    ) -> Result<(), LegacyError> {
        for source in self.old_sources()? {
            fold_stored(&self.connection, source.id, window, each)?;
        }
        Ok(())
    }
}

pub(crate) fn sources(history: &Connection) -> Result<Vec<OldSource>, LegacyError> {
    let read = || -> Result<Vec<OldSource>, rusqlite::Error> {
        let mut query = history.prepare(
            "SELECT id, path, imported_us, complete, \
             (SELECT ifnull(sum(rows), 0) FROM old_card_block WHERE source = id), \
             (SELECT ifnull(sum(rows), 0) FROM old_process_block WHERE source = id) FROM old_source ORDER BY id",
        )?;
        let rows = query.query_map([], |row| {
            Ok(OldSource {
                id: row.get(0)?,
                path: row.get(1)?,
                imported: Timestamp::from_microsecond(row.get(2)?).unwrap_or_default(),
                complete: row.get(3)?,
                card_rows: counted(row, 4)?,
                process_rows: counted(row, 5)?,
            })
        })?;
        rows.collect()
    };
    read().map_err(LegacyError::Write)
}

/// Erases a person from imported rows: their process rows stay, as those of nobody known. The source then counts as
/// erased, so that a later import does not bring the name back. Returns how many rows named them.
pub(crate) fn forget(change: &Transaction<'_>, user: &str) -> Result<u64, LegacyError> {
    let texts = load_texts(change)?;
    let Some(name) = texts.find(user) else {
        return Ok(0);
    };
    let mut erased = 0;
    let mut blocks = change
        .prepare("SELECT source, at_us, first_row, rows, cells FROM old_process_block")
        .map_err(LegacyError::Write)?;
    let mut update = change
        .prepare("UPDATE old_process_block SET cells = ?4 WHERE source = ?1 AND at_us = ?2 AND first_row = ?3")
        .map_err(LegacyError::Write)?;
    let mut mark = change
        .prepare("UPDATE old_source SET erased = 1 WHERE id = ?1")
        .map_err(LegacyError::Write)?;
    let mut touched = Vec::new();
    let mut rows = blocks.query([]).map_err(LegacyError::Write)?;
    while let Some(row) = rows.next().map_err(LegacyError::Write)? {
        let get = || -> Result<(i64, i64, i64, u32), rusqlite::Error> {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        };
        let (source, at_us, first_row, count) = get().map_err(LegacyError::Write)?;
        let cells = row
            .get_ref(4)
            .ok()
            .and_then(|cells| cells.as_blob().ok())
            .unwrap_or_default();
        let damaged = LegacyError::Damaged {
            table: ProcessRow::BLOCKS,
            row: first_row,
        };
        let mut unpacked = unpack::<ProcessRow>(cells, count as usize).ok_or(damaged)?;
        let named =
            |row: &ProcessRow| row.loginuid_user == Some(name) || row.owner_user == Some(name);
        let of_them = unpacked.iter().filter(|row| named(row)).count() as u64;
        if of_them == 0 {
            continue;
        }
        erased += of_them;
        let mut packed = Vec::with_capacity(cells.len());
        for row in &mut unpacked {
            row.loginuid_user = row.loginuid_user.filter(|user| *user != name);
            row.owner_user = row.owner_user.filter(|user| *user != name);
            row.encode(&mut packed);
        }
        touched.push((source, at_us, first_row, packed));
    }
    drop(rows);
    for (source, at_us, first_row, packed) in touched {
        update
            .execute((source, at_us, first_row, packed))
            .map_err(LegacyError::Write)?;
        mark.execute([source]).map_err(LegacyError::Write)?;
    }
    // The name itself goes too; a program that was called like the person loses it as well.
    if erased > 0 {
        change
            .execute(
                "UPDATE old_text SET text = 'erased ' || id WHERE id = ?1",
                [name.0],
            )
            .map_err(LegacyError::Write)?;
    }
    Ok(erased)
}
