//! Rows of the two large tables of gpu-usage-audit. Columns missing in a release are `None`.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// Id of a text that occurs repeatedly (a GPU, a user, a name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TextId(pub u32);

/// Every text seen so far, without duplicates.
#[derive(Debug, Default)]
pub struct Texts {
    ids: HashMap<Box<str>, TextId>,
    all: Vec<Box<str>>,
}

impl Texts {
    pub fn id(&mut self, text: &str) -> TextId {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = TextId(u32::try_from(self.all.len()).expect("four billion names fit no file"));
        self.ids.insert(text.into(), id);
        self.all.push(text.into());
        id
    }

    pub fn find(&self, text: &str) -> Option<TextId> {
        self.ids.get(text).copied()
    }

    pub fn get(&self, id: TextId) -> Option<&str> {
        self.all.get(id.0 as usize).map(Box::as_ref)
    }

    /// All texts in the order of their ids.
    pub fn all(&self) -> &[Box<str>] {
        &self.all
    }
}

/// Process type of a row without one.
pub const COMPUTE: &str = "compute";

/// A row of one of the two large tables, as stored in a block.
pub trait ImportedRow: Copy + PartialEq + std::fmt::Debug + Sized {
    /// Table name in the replaced tool.
    const TABLE: &'static str;
    /// Table of blocks in the history.
    const BLOCKS: &'static str;
    /// Column of `old_source` with the number of the last imported row.
    const LAST_ROW: &'static str;
    /// Columns after the time and the run, in the order in which a block stores them.
    const COLUMNS: &'static [Column];

    /// The cells of the row, in the order of `COLUMNS`.
    fn cells(&self) -> impl Iterator<Item = Cell>;

    /// Makes a row of the cells that `next` returns for each column; `None` if it returns none, or one of another kind.
    fn from_cells(next: impl FnMut(&'static Column) -> Option<Cell>) -> Option<Self>;

    /// Returns whether every text id of the row is known.
    fn knows(&self, texts: &Texts) -> bool {
        self.cells().all(|cell| match cell {
            Cell::Text(id) => texts.get(id).is_some(),
            Cell::Number(_) | Cell::Missing => true,
        })
    }
}

/// A column of the replaced tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub kind: CellKind,
    /// Bit of a block that marks a present cell; 0 for a cell that every row has.
    pub(super) bit: u8,
}

impl Column {
    /// Whether every row has a value.
    pub fn is_required(&self) -> bool {
        self.bit == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellKind {
    Number,
    Text,
}

/// One cell of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    Number(i64),
    Text(TextId),
    Missing,
}

/// A type of cells.
trait CellValue: Copy {
    fn to_cell(self) -> Cell;
    fn of(cell: Cell) -> Option<Self>;
}

impl CellValue for i64 {
    fn to_cell(self) -> Cell {
        Cell::Number(self)
    }

    fn of(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Number(number) => Some(number),
            Cell::Text(_) | Cell::Missing => None,
        }
    }
}

impl CellValue for TextId {
    fn to_cell(self) -> Cell {
        Cell::Text(self)
    }

    fn of(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Text(id) => Some(id),
            Cell::Number(_) | Cell::Missing => None,
        }
    }
}

impl<T: CellValue> CellValue for Option<T> {
    fn to_cell(self) -> Cell {
        self.map_or(Cell::Missing, T::to_cell)
    }

    fn of(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Missing => Some(None),
            there => T::of(there).map(Some),
        }
    }
}

/// Declares the rows: for each field its type, its column, and the bit that marks it in a block. The order of the fields and
/// the bits are part of the file format.
macro_rules! imported_rows {
    ($(
        $(#[$about:meta])*
        $Row:ident in $table:literal, $blocks:literal, $last:literal {
            $($(#[$what:meta])* $field:ident: $type:ty = $column:literal $kind:ident $($bit:literal)?,)*
        }
    )*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $Row {
            $($(#[$what])* pub $field: $type,)*
        }

        impl ImportedRow for $Row {
            const TABLE: &'static str = $table;
            const BLOCKS: &'static str = $blocks;
            const LAST_ROW: &'static str = $last;
            const COLUMNS: &'static [Column] =
                &[$(Column { name: $column, kind: CellKind::$kind, bit: 0 $(+ $bit)? },)*];

            fn cells(&self) -> impl Iterator<Item = Cell> {
                [$(self.$field.to_cell(),)*].into_iter()
            }

            fn from_cells(mut next: impl FnMut(&'static Column) -> Option<Cell>) -> Option<Self> {
                let mut columns = Self::COLUMNS.iter();
                Some(Self { $($field: CellValue::of(next(columns.next()?)?)?,)* })
            }
        }
    )*};
}

imported_rows! {
    /// One row of gpu_sample, without its time and run.
    GpuRow in "gpu_sample", "old_card_block", "last_card_row" {
        gpu: TextId = "gpu_uuid" Text,
        util_pct: i64 = "util_pct" Number,
        usage_state: Option<TextId> = "usage_state" Text 1,
        gpu_index: Option<i64> = "gpu_index" Number 2,
        memory_used_mb: Option<i64> = "memory_used_mb" Number 4,
        temperature_c: Option<i64> = "temperature_c" Number 8,
        power_w: Option<i64> = "power_w" Number 16,
    }

    /// One row of proc_sample, without its time and run.
    ProcessRow in "proc_sample", "old_process_block", "last_process_row" {
        gpu: TextId = "gpu_uuid" Text,
        pid: i64 = "pid" Number,
        mem_used_mb: Option<i64> = "mem_used_mb" Number 1,
        gpu_index: Option<i64> = "gpu_index" Number 8,
        loginuid_user: Option<TextId> = "loginuid_user" Text 2,
        owner_user: Option<TextId> = "owner_user" Text 4,
        process_name: Option<TextId> = "process_name" Text 16,
        /// `None` for compute processes: files from before 1.4 contain no others and lack this column, and later releases
        /// fill it accordingly when they migrate such a file. Both forms are the same row.
        process_type: Option<TextId> = "process_type" Text 32,
    }
}

/// Number of rows of a table; for each column of numbers, the number of non-null cells and their sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    pub rows: u64,
    pub sums: Vec<(u64, i128)>,
}

impl Tally {
    /// The tally of no rows.
    pub fn none<R: ImportedRow>() -> Self {
        Self {
            rows: 0,
            sums: summed::<R>().map(|_| (0, 0)).collect(),
        }
    }

    pub fn add<R: ImportedRow>(&mut self, row: &R) {
        self.rows += 1;
        let cells = R::COLUMNS.iter().zip(row.cells());
        let numbers = cells.filter(|(column, _)| column.kind == CellKind::Number);
        for (sum, (_, cell)) in self.sums.iter_mut().zip(numbers) {
            if let Cell::Number(number) = cell {
                sum.0 += 1;
                sum.1 += i128::from(number);
            }
        }
    }

    /// The tally of the rows of both.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        self.rows += other.rows;
        for (sum, other) in self.sums.iter_mut().zip(&other.sums) {
            *sum = (sum.0 + other.0, sum.1 + other.1);
        }
        self
    }
}

/// Columns that a tally sums.
pub fn summed<R: ImportedRow>() -> impl Iterator<Item = &'static Column> {
    let columns = R::COLUMNS.iter();
    columns.filter(|column| column.kind == CellKind::Number)
}
