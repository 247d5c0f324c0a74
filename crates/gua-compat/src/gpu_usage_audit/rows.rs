//! Reads rows of the two large tables from a file of gpu-usage-audit of any supported release.

use gua_store::imported::{COMPUTE, CardRow, ImportedRow, ProcessRow, TextId, Texts};
use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::cursor::CountedCells;

/// A row that can be read from a file of gpu-usage-audit.
pub(crate) trait OldRow: ImportedRow {
    /// Columns in the order in which `read` takes them, after rowid, ts and run_id; optional ones come last.
    const COLUMNS: &'static [&'static str];
    /// Columns that affect the accounting, in the order in which `read_counted` takes them.
    const COUNTED: &'static [&'static str];
    /// Columns that every release has.
    const REQUIRED: &'static [&'static str];

    fn read(cells: &mut Cells<'_, '_>) -> Result<Self, BadCell>;
    fn read_counted(cells: &mut CountedCells<'_, '_>) -> Result<Self, BadCell>;
}

/// A cell with a value that no release writes.
#[derive(Debug)]
pub(crate) struct BadCell {
    pub(crate) column: &'static str,
    pub(crate) found: &'static str,
}

/// Cells of one row, read in order.
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

    fn optional_number(&mut self) -> Result<Option<i64>, BadCell> {
        match self.value() {
            (ValueRef::Null, _) => Ok(None),
            (ValueRef::Integer(number), _) => Ok(Some(number)),
            (other, column) => Err(BadCell::new(column, other)),
        }
    }

    fn number(&mut self) -> Result<i64, BadCell> {
        let column = self.columns[self.next - LEADING];
        self.optional_number()?.ok_or(BadCell {
            column,
            found: "nothing",
        })
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

    fn text(&mut self) -> Result<TextId, BadCell> {
        let column = self.columns[self.next - LEADING];
        self.optional_text()?.ok_or(BadCell {
            column,
            found: "nothing",
        })
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
        "usage_state",
        "gpu_index",
        "memory_used_mb",
        "temperature_c",
        "power_w",
    ];
    const COUNTED: &'static [&'static str] =
        &["gpu_uuid", "util_pct", "gpu_index", "memory_used_mb"];
    const REQUIRED: &'static [&'static str] = &["ts", "gpu_uuid", "util_pct"];

    fn read(cells: &mut Cells<'_, '_>) -> Result<Self, BadCell> {
        Ok(Self {
            gpu: cells.text()?,
            util_pct: cells.number()?,
            usage_state: cells.optional_text()?,
            gpu_index: cells.optional_number()?,
            memory_used_mb: cells.optional_number()?,
            temperature_c: cells.optional_number()?,
            power_w: cells.optional_number()?,
        })
    }

    fn read_counted(cells: &mut CountedCells<'_, '_>) -> Result<Self, BadCell> {
        Ok(Self {
            gpu: cells.text()?,
            util_pct: cells.number()?,
            usage_state: None,
            gpu_index: cells.optional_number()?,
            memory_used_mb: cells.optional_number()?,
            temperature_c: None,
            power_w: None,
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
    const COUNTED: &'static [&'static str] = &[
        "gpu_uuid",
        "pid",
        "mem_used_mb",
        "loginuid_user",
        "owner_user",
        "gpu_index",
        "process_name",
        "process_type",
    ];
    const REQUIRED: &'static [&'static str] =
        &["ts", "gpu_uuid", "pid", "mem_used_mb", "loginuid_user"];

    fn read(cells: &mut Cells<'_, '_>) -> Result<Self, BadCell> {
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
                word.filter(|word| cells.texts.get(*word) != Some(COMPUTE))
            },
        })
    }

    fn read_counted(cells: &mut CountedCells<'_, '_>) -> Result<Self, BadCell> {
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
                word.filter(|word| !cells.is(*word, COMPUTE))
            },
        })
    }
}
