//! Reads blocks of rows from a file of gpu-usage-audit, in an order chosen by the caller.

use gua_store::imported::{Block, Blocks, LegacyError, Stamp, Texts};
use rusqlite::types::ValueRef;
use rusqlite::{Rows, Statement};

use super::open::OldFile;
use super::rows::{BadCell, Cells, Extent, LEADING, OldRow};

/// Maximum number of rows of a block in memory.
const LONGEST: usize = 4096;

/// Selection and order of the rows of an old table.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// SQL after `FROM table`; its parameters are texts.
    pub(crate) clause: String,
    pub(crate) parameters: Vec<String>,
}

impl OldFile {
    /// Prepares a query for the chosen rows. Columns missing in this file are read as NULL.
    pub(crate) fn select<R: OldRow>(&self, choice: &Choice) -> Result<Statement<'_>, LegacyError> {
        let cell = |column: &str| match self.columns().has(R::TABLE, column) {
            true => column.to_owned(),
            false => "NULL".to_owned(),
        };
        let cells = R::COLUMNS
            .iter()
            .map(|column| cell(column))
            .collect::<Vec<_>>();
        let sql = format!(
            "SELECT rowid, ts, {run}, {cells} FROM {table} {clause}",
            run = cell("run_id"),
            cells = cells.join(", "),
            table = R::TABLE,
            clause = choice.clause
        );
        self.connection
            .prepare(&sql)
            .map_err(|source| self.failed(source))
    }
}

/// Iterates over the blocks of an old file.
pub(crate) struct Scan<'statement, R> {
    file: &'statement OldFile,
    rows: Rows<'statement>,
    /// First row of the next block, which was read to find the end of the previous block.
    ahead: Option<(i64, Option<i64>, R)>,
    /// Time of the row ahead, and its original text.
    stamp: Stamp,
    stamp_text: String,
}

impl<'statement, R: OldRow> Scan<'statement, R> {
    pub(crate) fn new(
        file: &'statement OldFile,
        statement: &'statement mut Statement<'_>,
        choice: &Choice,
    ) -> Result<Self, LegacyError> {
        let rows = statement
            .query(rusqlite::params_from_iter(&choice.parameters))
            .map_err(|source| file.failed(source))?;
        Ok(Self {
            file,
            rows,
            ahead: None,
            stamp: Stamp::default(),
            stamp_text: String::new(),
        })
    }

    /// Reads one row.
    fn read(&mut self, texts: &mut Texts) -> Result<Option<Read<R>>, LegacyError> {
        let Some(row) = self
            .rows
            .next()
            .map_err(|source| self.file.failed(source))?
        else {
            return Ok(None);
        };
        let wrong = |number: i64, what: String| LegacyError::Row {
            table: R::TABLE,
            row: number,
            what,
        };
        let cell = |at: usize| {
            row.get_ref(at)
                .expect("the query begins with three columns")
        };
        let number = match cell(0) {
            ValueRef::Integer(number) => number,
            _ => return Err(wrong(0, "it has no number".to_owned())),
        };
        let text = match cell(1) {
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok(),
            other => return Err(wrong(number, BadCell::new("ts", other).to_string())),
        };
        let run = match cell(2) {
            ValueRef::Integer(run) => Some(run),
            ValueRef::Null => None,
            other => return Err(wrong(number, BadCell::new("run_id", other).to_string())),
        };
        let text = text.ok_or_else(|| wrong(number, "its time is not UTF-8".to_owned()))?;
        let before = if text == self.stamp_text {
            None
        } else {
            let stamp = Stamp::parse(text)
                .ok_or_else(|| wrong(number, format!("`{}` is not a time", text.escape_debug())))?;
            self.stamp_text.clear();
            self.stamp_text.push_str(text);
            Some(std::mem::replace(&mut self.stamp, stamp))
        };
        let mut cells = Cells {
            row,
            next: LEADING,
            texts,
            columns: R::COLUMNS,
        };
        let cells =
            R::read(&mut cells, Extent::All).map_err(|bad| wrong(number, bad.to_string()))?;
        Ok(Some(Read {
            number,
            run,
            cells,
            before,
        }))
    }
}

struct Read<R> {
    number: i64,
    run: Option<i64>,
    cells: R,
    /// Time of the previous row, if it differs from the time of this one.
    before: Option<Stamp>,
}

impl<R: OldRow> Blocks<R> for Scan<'_, R> {
    fn next(&mut self, texts: &mut Texts) -> Result<Option<Block<R>>, LegacyError> {
        let (first_row, run, first) = match self.ahead.take() {
            Some(ahead) => ahead,
            None => match self.read(texts)? {
                Some(read) => (read.number, read.run, read.cells),
                None => return Ok(None),
            },
        };
        let mut rows = vec![first];
        let mut expected = first_row.wrapping_add(1);
        while rows.len() < LONGEST {
            let Some(read) = self.read(texts)? else { break };
            let follows = read.number == expected && read.run == run && read.before.is_none();
            if !follows {
                self.ahead = Some((read.number, read.run, read.cells));
                let stamp = read.before.unwrap_or_else(|| self.stamp.clone());
                return Ok(Some(Block {
                    first_row,
                    stamp,
                    run,
                    rows,
                }));
            }
            rows.push(read.cells);
            expected = expected.wrapping_add(1);
        }
        Ok(Some(Block {
            first_row,
            stamp: self.stamp.clone(),
            run,
            rows,
        }))
    }
}
