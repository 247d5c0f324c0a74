//! Reads rows of the two large tables from a file of gpu-usage-audit of any supported release.

use gua_store::imported::{COMPUTE, CardRow, ImportedRow, ProcessRow, TextId, Texts};
use rusqlite::Row;
use rusqlite::types::ValueRef;

/// A row that can be read from a file of gpu-usage-audit.
pub(crate) trait OldRow: ImportedRow {
    /// Columns in the order in which `read` takes them, after rowid, ts and run_id.
    const COLUMNS: &'static [&'static str];
    /// Columns that affect the accounting: the first of `COLUMNS`.
    const COUNTED: &'static [&'static str];
    /// Columns that every release has.
    const REQUIRED: &'static [&'static str];

    /// Reads the columns of `COLUMNS`, or those of `COUNTED` where the rest is not read.
    fn read(cells: &mut impl CellReader, extent: Extent) -> Result<Self, BadCell>;
}

/// Which columns of a row are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    All,
    Counted,
}

/// Cells of one row, read in order.
pub(crate) trait CellReader {
    fn optional_number(&mut self) -> Result<Option<i64>, BadCell>;
    fn optional_text(&mut self) -> Result<Option<TextId>, BadCell>;
    /// Name of the column that was read last.
    fn column(&self) -> &'static str;
    fn texts(&self) -> &Texts;

    fn number(&mut self) -> Result<i64, BadCell> {
        let number = self.optional_number()?;
        number.ok_or_else(|| self.absent())
    }

    fn text(&mut self) -> Result<TextId, BadCell> {
        let text = self.optional_text()?;
        text.ok_or_else(|| self.absent())
    }

    fn absent(&self) -> BadCell {
        BadCell {
            column: self.column(),
            found: "nothing",
        }
    }
}

/// A cell with a value that no release writes.
#[derive(Debug)]
pub(crate) struct BadCell {
    pub(crate) column: &'static str,
    pub(crate) found: &'static str,
}

/// All cells of one row.
pub(crate) struct Cells<'row, 'texts> {
    pub(crate) row: &'row Row<'row>,
    pub(crate) next: usize,
    pub(crate) texts: &'texts mut Texts,
    pub(crate) columns: &'static [&'static str],
}

/// Number of cells before the cells of `OldRow::COLUMNS`: rowid, ts, run_id.
pub(crate) const LEADING: usize = 3;

impl<'row> Cells<'row, '_> {
    fn value(&mut self) -> (ValueRef<'row>, &'static str) {
        let at = self.next;
        self.next += 1;
        let value = self
            .row
            .get_ref(at)
            .expect("the query has a column for each cell");
        (value, self.columns[at - LEADING])
    }
}

impl CellReader for Cells<'_, '_> {
    fn optional_number(&mut self) -> Result<Option<i64>, BadCell> {
        match self.value() {
            (ValueRef::Null, _) => Ok(None),
            (ValueRef::Integer(number), _) => Ok(Some(number)),
            (other, column) => Err(BadCell::new(column, other)),
        }
    }

    fn optional_text(&mut self) -> Result<Option<TextId>, BadCell> {
        let (value, column) = self.value();
        match value {
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Some(self.texts.id(text))),
                Err(_) => Err(BadCell {
                    column,
                    found: "text that is not UTF-8",
                }),
            },
            other => Err(BadCell::new(column, other)),
        }
    }

    fn column(&self) -> &'static str {
        self.columns[self.next - 1 - LEADING]
    }

    fn texts(&self) -> &Texts {
        self.texts
    }
}

impl BadCell {
    pub(crate) fn new(column: &'static str, value: ValueRef<'_>) -> Self {
        let found = match value {
            ValueRef::Null => "nothing",
            ValueRef::Integer(_) => "a number",
            ValueRef::Real(_) => "a fraction",
            ValueRef::Text(_) => "text",
            ValueRef::Blob(_) => "bytes",
        };
        Self { column, found }
    }
}

impl std::fmt::Display for BadCell {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "column {} holds {}, which gpu-usage-audit does not write",
            self.column, self.found
        )
    }
}

impl OldRow for CardRow {
    const COLUMNS: &'static [&'static str] = &[
        "gpu_uuid",
        "util_pct",
        "gpu_index",
        "memory_used_mb",
        "usage_state",
        "temperature_c",
        "power_w",
    ];
    const COUNTED: &'static [&'static str] =
        &["gpu_uuid", "util_pct", "gpu_index", "memory_used_mb"];
    const REQUIRED: &'static [&'static str] = &["ts", "gpu_uuid", "util_pct"];

    fn read(cells: &mut impl CellReader, extent: Extent) -> Result<Self, BadCell> {
        let is_all = extent == Extent::All;
        Ok(Self {
            gpu: cells.text()?,
            util_pct: cells.number()?,
            gpu_index: cells.optional_number()?,
            memory_used_mb: cells.optional_number()?,
            usage_state: if is_all { cells.optional_text()? } else { None },
            temperature_c: if is_all {
                cells.optional_number()?
            } else {
                None
            },
            power_w: if is_all {
                cells.optional_number()?
            } else {
                None
            },
        })
    }
}

impl OldRow for ProcessRow {
    const COLUMNS: &'static [&'static str] = &[
        "gpu_uuid",
        "pid",
        "mem_used_mb",
        "loginuid_user",
        "owner_user",
        "gpu_index",
        "process_name",
        "process_type",
    ];
    const COUNTED: &'static [&'static str] = Self::COLUMNS;
    const REQUIRED: &'static [&'static str] =
        &["ts", "gpu_uuid", "pid", "mem_used_mb", "loginuid_user"];

    fn read(cells: &mut impl CellReader, _: Extent) -> Result<Self, BadCell> {
        Ok(Self {
            gpu: cells.text()?,
            pid: cells.number()?,
            mem_used_mb: cells.optional_number()?,
            loginuid_user: cells.optional_text()?,
            owner_user: cells.optional_text()?,
            gpu_index: cells.optional_number()?,
            process_name: cells.optional_text()?,
            process_type: {
                let word = cells.optional_text()?;
                word.filter(|word| cells.texts().get(*word) != Some(COMPUTE))
            },
        })
    }
}
