//! Reads the rows of an old table for a fold: only the cells that affect the accounting, grouped by time, in the
//! requested order. A history has millions of rows that are almost the same as the ones before them, and this module
//! exploits that for speed.

use gua_store::imported::{LegacyError, Moments, Stamp, TextId, Texts};
use rusqlite::types::ValueRef;
use rusqlite::{Row, Rows, Statement};

use super::open::OldFile;
use super::rows::{BadCell, CellReader, Extent, OldRow};
use super::scan::Choice;

/// Rows to be folded.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// All rows of the window, and possibly others.
    pub(crate) rows: Choice,
    /// Start (inclusive) and end (exclusive) of the window, as gpu-usage-audit writes times. Times are compared as
    /// text, as it does.
    pub(crate) window: (String, String),
}

/// Iterates over the rows of an old file.
pub(crate) struct Cursor<'statement, R> {
    file: &'statement OldFile,
    rows: Rows<'statement>,
    shape: Shape,
    window: (String, String),
    /// First row of the next moment.
    ahead: Option<(Option<i64>, R)>,
    /// Time of that row, and its original text.
    at_us: i64,
    stamp: Vec<u8>,
    recalls: Vec<Recall>,
}

/// Cells that a query returns.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    has_run: bool,
    /// Whether each counted column is present.
    has: Vec<bool>,
    /// Position of the row number: last, since only errors need it.
    number: usize,
}

impl OldFile {
    /// Prepares a query for the counted cells of the chosen rows.
    pub(crate) fn select_counted<R: OldRow>(
        &self,
        wanted: &Wanted,
    ) -> Result<(Statement<'_>, Shape), LegacyError> {
        let has = |column: &str| self.columns().has(R::TABLE, column);
        let shape = Shape {
            has_run: has("run_id"),
            has: R::COUNTED.iter().map(|column| has(column)).collect(),
            number: 0,
        };
        let mut cells = vec!["ts"];
        cells.extend(shape.has_run.then_some("run_id"));
        let counted = R::COUNTED.iter().zip(&shape.has);
        cells.extend(counted.filter(|(_, has)| **has).map(|(column, _)| *column));
        let number = cells.len();
        let sql = format!(
            "SELECT {}, rowid FROM {} {}",
            cells.join(", "),
            R::TABLE,
            wanted.rows.clause
        );
        let statement = self.connection.prepare(&sql);
        let statement = statement.map_err(|source| self.failed(source))?;
        Ok((statement, Shape { number, ..shape }))
    }
}

impl<'statement, R: OldRow> Cursor<'statement, R> {
    pub(crate) fn new(
        file: &'statement OldFile,
        (statement, shape): &'statement mut (Statement<'_>, Shape),
        wanted: &Wanted,
        texts: &mut Texts,
    ) -> Result<Self, LegacyError> {
        let rows = statement
            .query(rusqlite::params_from_iter(&wanted.rows.parameters))
            .map_err(|source| file.failed(source))?;
        let mut cursor = Self {
            file,
            rows,
            recalls: shape.has.iter().map(|_| Recall::default()).collect(),
            shape: shape.clone(),
            window: wanted.window.clone(),
            ahead: None,
            at_us: 0,
            stamp: Vec::new(),
        };
        cursor.step(texts, &mut Vec::new())?;
        Ok(cursor)
    }

    /// Adds rows up to the first with another time, which becomes the row ahead.
    fn step(
        &mut self,
        texts: &mut Texts,
        rows: &mut Vec<(Option<i64>, R)>,
    ) -> Result<(), LegacyError> {
        loop {
            let row = self.rows.next();
            let Some(row) = row.map_err(|source| self.file.failed(source))? else {
                return Ok(());
            };
            // gpu-usage-audit excludes values that are not text from every window.
            let ValueRef::Text(stamp) = cell(row, 0) else {
                continue;
            };
            let is_new = stamp != self.stamp;
            let (from, to) = &self.window;
            if is_new && !(from.as_bytes() <= stamp && stamp < to.as_bytes()) {
                continue;
            }
            let shape = &self.shape;
            let wrong = |what: String| wrong::<R>(row, shape, what);
            let run = match shape.has_run.then(|| cell(row, 1)) {
                Some(ValueRef::Integer(run)) => Some(run),
                None | Some(ValueRef::Null) => None,
                Some(other) => return Err(wrong(BadCell::new("run_id", other).to_string())),
            };
            let mut cells = CountedCells {
                row,
                shape,
                place: 1 + usize::from(shape.has_run),
                column: 0,
                recalls: &mut self.recalls,
                texts,
                columns: R::COUNTED,
            };
            let read =
                R::read(&mut cells, Extent::Counted).map_err(|bad| wrong(bad.to_string()))?;
            if !is_new {
                rows.push((run, read));
                continue;
            }
            let text = std::str::from_utf8(stamp).ok();
            let text = text.ok_or_else(|| wrong("its time is not UTF-8".to_owned()))?;
            let at_us = Stamp::micros(text)
                .ok_or_else(|| wrong(format!("`{}` is not a time", text.escape_debug())))?;
            self.at_us = at_us;
            self.stamp.clear();
            self.stamp.extend_from_slice(stamp);
            self.ahead = Some((run, read));
            return Ok(());
        }
    }
}

impl<R: OldRow> Moments<R> for Cursor<'_, R> {
    fn peek(&self) -> Option<i64> {
        self.ahead.as_ref().map(|_| self.at_us)
    }

    fn take(
        &mut self,
        texts: &mut Texts,
        rows: &mut Vec<(Option<i64>, R)>,
    ) -> Result<(), LegacyError> {
        rows.extend(self.ahead.take());
        self.step(texts, rows)
    }
}

fn cell<'row>(row: &'row Row<'_>, place: usize) -> ValueRef<'row> {
    row.get_ref(place)
        .expect("the query has a column for each cell")
}

#[cold]
fn wrong<R: OldRow>(row: &Row<'_>, shape: &Shape, what: String) -> LegacyError {
    LegacyError::Row {
        table: R::TABLE,
        row: row.get(shape.number).unwrap_or(0),
        what,
    }
}

/// Counted cells of one row, read in order. Columns missing in the file are read as NULL.
pub(crate) struct CountedCells<'a, 'row> {
    row: &'a Row<'row>,
    shape: &'a Shape,
    place: usize,
    column: usize,
    recalls: &'a mut [Recall],
    texts: &'a mut Texts,
    columns: &'static [&'static str],
}

impl<'a> CountedCells<'a, '_> {
    fn value(&mut self) -> ValueRef<'a> {
        let has = self.shape.has[self.column];
        self.column += 1;
        if !has {
            return ValueRef::Null;
        }
        self.place += 1;
        cell(self.row, self.place - 1)
    }
}

impl CellReader for CountedCells<'_, '_> {
    fn optional_number(&mut self) -> Result<Option<i64>, BadCell> {
        match self.value() {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(number) => Ok(Some(number)),
            other => Err(BadCell::new(self.column(), other)),
        }
    }

    fn optional_text(&mut self) -> Result<Option<TextId>, BadCell> {
        match self.value() {
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) => match self.recalls[self.column - 1].id(bytes, self.texts) {
                Some(id) => Ok(Some(id)),
                None => Err(BadCell {
                    column: self.column(),
                    found: "text that is not UTF-8",
                }),
            },
            other => Err(BadCell::new(self.column(), other)),
        }
    }

    fn column(&self) -> &'static str {
        self.columns[self.column - 1]
    }

    fn texts(&self) -> &Texts {
        self.texts
    }
}

/// Recent values of a column. The next value is usually the same, or the one that followed it last time.
#[derive(Clone, Debug, Default)]
struct Recall {
    last: Option<TextId>,
    /// By text id: the different text that followed it last.
    follower: Vec<Option<TextId>>,
}

impl Recall {
    fn id(&mut self, bytes: &[u8], texts: &mut Texts) -> Option<TextId> {
        let is_it = |id: &TextId| texts.get(*id).is_some_and(|text| text.as_bytes() == bytes);
        let Some(last) = self.last else {
            let id = texts.id(std::str::from_utf8(bytes).ok()?);
            self.last = Some(id);
            return Some(id);
        };
        if is_it(&last) {
            return Some(last);
        }
        let place = last.0 as usize;
        let likely = self.follower.get(place).copied().flatten();
        if let Some(likely) = likely.filter(is_it) {
            self.last = Some(likely);
            return Some(likely);
        }
        let id = texts.id(std::str::from_utf8(bytes).ok()?);
        if self.follower.len() <= place {
            self.follower.resize(place + 1, None);
        }
        self.follower[place] = Some(id);
        self.last = Some(id);
        Some(id)
    }
}
