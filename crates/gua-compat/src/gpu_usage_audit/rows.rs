//! Reads rows of the two large tables from a file of gpu-usage-audit of any supported release: as blocks
//! of rows with the same time.
//!
//! A history has millions of rows that are almost the same as the ones before them, and this module exploits that for
//! speed. A row with an impossible time is left out and counted.

use gua_model::sane;
use gua_store::imported::{
    Block, Blocks, COMPUTE, Cell, CellKind, Column, ImportedRow, LegacyError, Stamp, Tally, TextId,
    Texts,
};
use rusqlite::types::ValueRef;
use rusqlite::{Rows, Statement};

use super::open::OldFile;

/// Columns that every release has, by table.
pub(crate) const REQUIRED: [(&str, &str); 8] = [
    ("gpu_sample", "ts"),
    ("gpu_sample", "gpu_uuid"),
    ("gpu_sample", "util_pct"),
    ("proc_sample", "ts"),
    ("proc_sample", "gpu_uuid"),
    ("proc_sample", "pid"),
    ("proc_sample", "mem_used_mb"),
    ("proc_sample", "loginuid_user"),
];

/// Selection of the cells of a row to read; the others are missing. Reading a cell takes about a tenth of the time of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    All,
    /// Cells that affect the accounting, or describe the last moment.
    Counted,
    /// Cells that totals are computed from.
    Totals,
}

impl Extent {
    fn has(self, table: &str, column: &str) -> bool {
        match (table, column) {
            ("gpu_sample", "usage_state" | "temperature_c" | "power_w") => self == Self::All,
            ("gpu_sample", "gpu_index" | "memory_used_mb") => self != Self::Totals,
            _ => true,
        }
    }
}

/// Selection and order of the rows of an old table.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// SQL after `FROM table`; its parameters are texts.
    pub(crate) clause: String,
    pub(crate) parameters: Vec<String>,
    /// Start (inclusive) and end (exclusive), as gpu-usage-audit writes times. Times are compared as text, as it does; other
    /// values are in no window.
    pub(crate) window: Option<(String, String)>,
    pub(crate) extent: Extent,
}

impl Choice {
    /// All rows in the order of writing, which is the order of time unless the clock was set back or two collectors wrote.
    /// A filter on the time in SQLite would take longer than reading all rows.
    pub(crate) fn by_row(window: Option<(String, String)>, extent: Extent) -> Self {
        Self {
            clause: "ORDER BY rowid".to_owned(),
            parameters: Vec::new(),
            window,
            extent,
        }
    }
}

/// Maximum number of rows of a block in memory.
const MAX_ROWS: usize = 4096;
/// Number of cells before those of the columns: rowid, ts, run_id.
const LEADING: usize = 3;

impl OldFile {
    /// Prepares a query for the chosen rows, with the cells that [`OldFile::reads`] names.
    pub(crate) fn select<R: ImportedRow>(
        &self,
        choice: &Choice,
    ) -> Result<Statement<'_>, LegacyError> {
        let run = match self.columns().has(R::TABLE, "run_id") {
            true => "run_id",
            false => "NULL",
        };
        let mut sql = format!("SELECT rowid, ts, {run}");
        let columns = R::COLUMNS.iter().map(|column| column.name);
        for column in columns.filter(|column| self.reads::<R>(choice, column)) {
            sql += ", ";
            sql += &match column {
                "process_type" => format!("nullif(process_type, '{COMPUTE}')"),
                column => column.to_owned(),
            };
        }
        sql += &format!(" FROM {} {}", R::TABLE, choice.clause);
        let statement = self.connection.prepare(&sql);
        statement.map_err(|source| self.failed(source))
    }

    /// Reports whether the cells of a column are read. A column that is missing in this file is never read.
    fn reads<R: ImportedRow>(&self, choice: &Choice, column: &str) -> bool {
        self.columns().has(R::TABLE, column) && choice.extent.has(R::TABLE, column)
    }
}

/// Iterates over the rows of an old file.
pub(crate) struct Scan<'statement, R> {
    file: &'statement OldFile,
    rows: Rows<'statement>,
    window: Option<(String, String)>,
    /// By column: recent values, if its cells are read.
    recalls: Vec<Option<Recall>>,
    /// The last row that was read. It is the first row of the next block.
    ahead: Option<Read<R>>,
    /// Time of that row, and its original text.
    at_us: i64,
    stamp: Vec<u8>,
    /// Number of rows of the last block. The next one usually has as many.
    usual: usize,
    /// All rows that were read.
    pub(crate) read: Tally,
    /// Rows with an impossible time.
    pub(crate) skipped: Tally,
}

struct Read<R> {
    /// Number in the file; `None` for the rows of a window, which are not imported.
    number: Option<i64>,
    run: Option<i64>,
    cells: R,
    /// Whether the row before it has another time.
    is_new: bool,
}

impl<'statement, R: ImportedRow> Scan<'statement, R> {
    pub(crate) fn new(
        file: &'statement OldFile,
        statement: &'statement mut Statement<'_>,
        choice: &Choice,
        texts: &mut Texts,
    ) -> Result<Self, LegacyError> {
        let rows = statement
            .query(rusqlite::params_from_iter(&choice.parameters))
            .map_err(|source| file.failed(source))?;
        let recalls = R::COLUMNS.iter().map(|column| {
            let is_read = file.reads::<R>(choice, column.name);
            is_read.then(Recall::default)
        });
        let mut scan = Self {
            file,
            rows,
            window: choice.window.clone(),
            recalls: recalls.collect(),
            ahead: None,
            at_us: 0,
            stamp: Vec::new(),
            usual: 0,
            read: Tally::none::<R>(),
            skipped: Tally::none::<R>(),
        };
        scan.ahead = scan.next_row(texts)?;
        Ok(scan)
    }

    /// Reads the next row of the window.
    fn next_row(&mut self, texts: &mut Texts) -> Result<Option<Read<R>>, LegacyError> {
        loop {
            let row = self.rows.next();
            let Some(row) = row.map_err(|source| self.file.failed(source))? else {
                return Ok(None);
            };
            let cell = |place: usize| {
                let cell = row.get_ref(place);
                cell.expect("the query has a column for each cell")
            };
            let number = || cell(0).as_i64().unwrap_or(0);
            let wrong = |what: String| LegacyError::Row {
                table: R::TABLE,
                row: number(),
                what,
            };
            let stamp = match (cell(1), &self.window) {
                (ValueRef::Text(stamp), _) => stamp,
                (_, Some(_)) => continue,
                (other, None) => return Err(wrong(bad_cell("ts", kind(other)))),
            };
            let is_new = stamp != self.stamp;
            let window = self.window.as_ref().filter(|_| is_new);
            if window.is_some_and(|(from, to)| stamp < from.as_bytes() || stamp >= to.as_bytes()) {
                continue;
            }
            let run = match cell(2) {
                ValueRef::Integer(run) => Some(run),
                ValueRef::Null => None,
                other => return Err(wrong(bad_cell("run_id", kind(other)))),
            };
            if is_new {
                let text = std::str::from_utf8(stamp);
                let text = text.map_err(|_| wrong("its time is not UTF-8".to_owned()))?;
                self.at_us = Stamp::micros(text)
                    .ok_or_else(|| wrong(format!("`{}` is not a time", text.escape_debug())))?;
                self.stamp.clear();
                self.stamp.extend_from_slice(stamp);
            }
            let (mut recalls, mut place, mut bad) = (self.recalls.iter_mut(), LEADING, None);
            let cells = R::from_cells(|column| {
                let Some(recall) = recalls.next()? else {
                    return Some(Cell::Missing);
                };
                let read = read_cell(column, cell(place), recall, texts);
                place += 1;
                read.inspect_err(|found| bad = Some(bad_cell(column.name, found)))
                    .ok()
            });
            let Some(cells) = cells else {
                return Err(wrong(bad.unwrap_or_default()));
            };
            if self.window.is_none() {
                self.read.add(&cells);
            }
            if sane::time(self.at_us).is_none() {
                self.skipped.add(&cells);
                continue;
            }
            return Ok(Some(Read {
                number: self.window.is_none().then(number),
                run,
                cells,
                is_new,
            }));
        }
    }
}

impl<R: ImportedRow> Blocks<R> for Scan<'_, R> {
    fn next(&mut self, texts: &mut Texts) -> Result<Option<Block<R>>, LegacyError> {
        let Some(first) = self.ahead.take() else {
            return Ok(None);
        };
        let mut block = Block {
            first_row: first.number.unwrap_or(0),
            stamp: match first.number {
                Some(_) => Stamp::of(self.at_us, &String::from_utf8_lossy(&self.stamp)),
                None => Stamp {
                    at_us: self.at_us,
                    written_as: None,
                },
            },
            run: first.run,
            rows: Vec::with_capacity(self.usual),
        };
        block.rows.push(first.cells);
        let mut expected = first.number;
        loop {
            expected = expected.map(|number| number.wrapping_add(1));
            self.ahead = self.next_row(texts)?;
            let follows = self.ahead.take_if(|next| {
                let is_next = !next.is_new && next.number == expected && next.run == block.run;
                is_next && block.rows.len() < MAX_ROWS
            });
            match follows {
                Some(next) => block.rows.push(next.cells),
                None => {
                    self.usual = block.rows.len();
                    return Ok(Some(block));
                }
            }
        }
    }
}

fn read_cell(
    column: &Column,
    value: ValueRef<'_>,
    recall: &mut Recall,
    texts: &mut Texts,
) -> Result<Cell, &'static str> {
    match (column.kind, value) {
        (_, ValueRef::Null) if !column.is_required() => Ok(Cell::Missing),
        (CellKind::Number, ValueRef::Integer(number)) => Ok(Cell::Number(number)),
        (CellKind::Text, ValueRef::Text(bytes)) => {
            let id = recall.id(bytes, texts).ok_or("text that is not UTF-8")?;
            Ok(Cell::Text(id))
        }
        (_, other) => Err(kind(other)),
    }
}

fn bad_cell(column: &str, found: &str) -> String {
    format!("column {column} holds {found}, which gpu-usage-audit does not write")
}

fn kind(value: ValueRef<'_>) -> &'static str {
    match value {
        ValueRef::Null => "nothing",
        ValueRef::Integer(_) => "a number",
        ValueRef::Real(_) => "a fraction",
        ValueRef::Text(_) => "text",
        ValueRef::Blob(_) => "bytes",
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
