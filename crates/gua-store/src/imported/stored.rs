//! Reads the blocks of one source from the history, in order of time or of the original rows.

use std::cell::Cell;

use gua_model::sane;
use rusqlite::{Connection, Rows, Statement};

use super::block::{Block, unpack};
use super::error::LegacyError;
use super::rows::{ImportedRow, Texts};
use super::stamp::Stamp;
use crate::history::History;

/// Iterates over the blocks of one table.
pub trait Blocks<R> {
    fn next(&mut self, texts: &mut Texts) -> Result<Option<Block<R>>, LegacyError>;
}

impl History {
    /// Every text used by imported rows.
    pub fn imported_texts(&self) -> Result<Texts, LegacyError> {
        load_texts(&self.connection)
    }

    /// Calls `each` with the blocks of a source that have a time in `[from, to)`.
    pub fn imported_blocks<R: ImportedRow>(
        &self,
        source: i64,
        ends: (i64, i64),
        order: Order,
        each: impl FnMut(Block<R>) -> Result<(), LegacyError>,
    ) -> Result<(), LegacyError> {
        each_block(&self.connection, source, ends, order, each)
    }
}

pub(super) fn each_block<R: ImportedRow>(
    connection: &Connection,
    source: i64,
    ends: (i64, i64),
    order: Order,
    mut each: impl FnMut(Block<R>) -> Result<(), LegacyError>,
) -> Result<(), LegacyError> {
    let mut texts = load_texts(connection)?;
    let mut statement = stored_statement::<R>(connection, order)?;
    let mut stored = Stored::new(&mut statement, source, ends, None)?;
    while let Some(block) = Blocks::<R>::next(&mut stored, &mut texts)? {
        each(block)?;
    }
    Ok(())
}

/// All texts, in the order of their ids. If one is missing, those after it are missing too: rows that use them are damaged.
pub(super) fn load_texts(history: &Connection) -> Result<Texts, LegacyError> {
    let mut texts = Texts::default();
    let mut query = history.prepare("SELECT id, text FROM old_text ORDER BY id")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        if usize::try_from(row.get::<_, i64>(0)?) != Ok(texts.all().len()) {
            break;
        }
        texts.id(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?);
    }
    Ok(texts)
}

/// Blocks of one source in the history.
pub(super) struct Stored<'statement> {
    rows: Rows<'statement>,
    /// Number of unreadable rows, if they are to be skipped.
    unreadable: Option<&'statement Cell<u64>>,
}

/// The order in which stored blocks are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Time,
    /// The order of the old file.
    Rows,
}

pub(super) fn stored_statement<R: ImportedRow>(
    connection: &Connection,
    order: Order,
) -> Result<Statement<'_>, LegacyError> {
    let order = match order {
        Order::Time => "at_us, first_row",
        Order::Rows => "first_row",
    };
    let sql = format!(
        "SELECT first_row, at_us, written_as, run, rows, cells FROM {} \
         WHERE source = ?1 AND at_us >= ?2 AND at_us < ?3 ORDER BY {order}",
        R::BLOCKS
    );
    Ok(connection.prepare(&sql)?)
}

impl<'statement> Stored<'statement> {
    /// Selects the blocks with a sane time in `[from_us, to_us)`.
    pub(super) fn new(
        statement: &'statement mut Statement<'_>,
        source: i64,
        (from_us, to_us): (i64, i64),
        unreadable: Option<&'statement Cell<u64>>,
    ) -> Result<Self, LegacyError> {
        let (from, to) = (from_us.max(sane::FIRST), to_us.min(sane::END));
        let rows = statement.query((source, from, to))?;
        Ok(Self { rows, unreadable })
    }
}

impl<R: ImportedRow> Blocks<R> for Stored<'_> {
    fn next(&mut self, texts: &mut Texts) -> Result<Option<Block<R>>, LegacyError> {
        while let Some(row) = self.rows.next()? {
            match (stored_block(row, texts), self.unreadable) {
                (Err(LegacyError::Damaged { .. }), Some(unreadable)) => {
                    unreadable.set(unreadable.get() + u64::from(row.get::<_, u32>(4).unwrap_or(1)));
                }
                (block, _) => return block.map(Some),
            }
        }
        Ok(None)
    }
}

/// Reads `first_row, at_us, written_as, run, rows, cells`.
pub(super) fn stored_block<R: ImportedRow>(
    row: &rusqlite::Row<'_>,
    texts: &Texts,
) -> Result<Block<R>, LegacyError> {
    let first_row = row.get(0)?;
    let written_as: Option<String> = row.get(2)?;
    let count: u32 = row.get(4)?;
    let cells = row.get_ref(5)?.as_blob().map_err(rusqlite::Error::from)?;
    let rows = unpack::<R>(cells, count as usize);
    let rows = rows.filter(|rows| rows.iter().all(|row| row.knows(texts)));
    Ok(Block {
        first_row,
        stamp: Stamp {
            at_us: row.get(1)?,
            written_as: written_as.map(Into::into),
        },
        run: row.get(3)?,
        rows: rows.ok_or(LegacyError::Damaged {
            table: R::BLOCKS,
            row: first_row,
        })?,
    })
}
