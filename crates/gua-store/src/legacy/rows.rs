//! The rows of the two large tables, the same in every release: columns that a file does not have are absent in them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::cursor::CountedCells;

/// A text that occurs over and over (a card, a user, a name), by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TextId(pub(crate) u32);

/// Every text seen so far, each once.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    ids: HashMap<Box<str>, TextId, Quick>,
    all: Vec<Box<str>>,
}

/// Names are looked up millions of times, in files of the user's own: quick hashing goes before hashing that withstands
/// an attacker.
type Quick = BuildHasherDefault<QuickHasher>;

#[derive(Debug, Default)]
struct QuickHasher(u64);

impl Hasher for QuickHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let word = word
                .first_chunk()
                .map_or(0, |word| u64::from_le_bytes(*word));
            self.mix(word);
        }
        let rest = words.remainder().iter();
        self.mix(rest.fold(0, |word, byte| word << 8 | u64::from(*byte)));
    }

    fn write_u8(&mut self, byte: u8) {
        self.mix(byte.into());
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl QuickHasher {
    /// Multiplies by an odd number without a pattern and brings the well mixed upper half down.
    fn mix(&mut self, word: u64) {
        let product = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

impl Texts {
    pub(crate) fn id(&mut self, text: &str) -> TextId {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = TextId(u32::try_from(self.all.len()).expect("four billion names fit no file"));
        self.ids.insert(text.into(), id);
        self.all.push(text.into());
        id
    }

    pub(crate) fn find(&self, text: &str) -> Option<TextId> {
        self.ids.get(text).copied()
    }

    pub(crate) fn get(&self, id: TextId) -> Option<&str> {
        self.all.get(id.0 as usize).map(Box::as_ref)
    }

    /// All texts in the order of their numbers.
    pub(crate) fn all(&self) -> &[Box<str>] {
        &self.all
    }
}

/// One row of gpu_sample, without its time and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CardRow {
    pub(crate) gpu: TextId,
    pub(crate) util_pct: i64,
    pub(crate) usage_state: Option<TextId>,
    pub(crate) gpu_index: Option<i64>,
    pub(crate) memory_used_mb: Option<i64>,
    pub(crate) temperature_c: Option<i64>,
    pub(crate) power_w: Option<i64>,
}

/// One row of proc_sample, without its time and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessRow {
    pub(crate) gpu: TextId,
    pub(crate) pid: i64,
    pub(crate) mem_used_mb: Option<i64>,
    pub(crate) loginuid_user: Option<TextId>,
    pub(crate) owner_user: Option<TextId>,
    pub(crate) gpu_index: Option<i64>,
    pub(crate) process_name: Option<TextId>,
    /// `None` for compute processes: files from before 1.4 know no others and have no such column, and a later release
    /// fills it so when it migrates them. The rows are the same.
    pub(crate) process_type: Option<TextId>,
}

/// What the two large tables have in common.
pub(crate) trait OldRow: Copy + PartialEq + std::fmt::Debug + Sized {
    /// The old table.
    const TABLE: &'static str;
    /// Our table of blocks.
    const BLOCKS: &'static str;
    /// The columns in the order in which `read` takes them, after rowid, ts and run_id; those a release may lack last.
    const COLUMNS: &'static [&'static str];
    /// Those of them that decide how a row counts, in the order in which `read_counted` takes them.
    const COUNTED: &'static [&'static str];
    /// The columns that every release has.
    const REQUIRED: &'static [&'static str];

    fn read(cells: &mut Cells<'_, '_>) -> Result<Self, BadCell>;
    fn read_counted(cells: &mut CountedCells<'_, '_>) -> Result<Self, BadCell>;
    fn encode(&self, out: &mut Vec<u8>);
    fn decode(bytes: &mut &[u8]) -> Option<Self>;
    /// Whether every text that the row names is there.
    fn knows(&self, texts: &Texts) -> bool;
    /// The numbers whose sums are compared after an import, in the order of `SUMS`.
    fn sums(&self) -> [Option<i64>; SUMMED];
    /// The columns that those sums are of.
    const SUMS: [&'static str; SUMMED];
}

/// How many columns of each table are summed for comparison.
pub(crate) const SUMMED: usize = 3;

/// A cell that holds what no release writes there.
#[derive(Debug)]
pub(crate) struct BadCell {
    pub(crate) column: &'static str,
    pub(crate) found: &'static str,
}

/// The cells of one row, taken one after the other.
pub(crate) struct Cells<'row, 'texts> {
    pub(crate) row: &'row Row<'row>,
    pub(crate) next: usize,
    pub(crate) texts: &'texts mut Texts,
    pub(crate) columns: &'static [&'static str],
}

/// The cells before those of `OldRow::COLUMNS`: rowid, ts, run_id.
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

/// The result of a `count(...)`.
pub(crate) fn counted(row: &Row<'_>, at: usize) -> Result<u64, rusqlite::Error> {
    row.get::<_, i64>(at).map(i64::unsigned_abs)
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
    const TABLE: &'static str = "gpu_sample";
    const BLOCKS: &'static str = "old_card_block";
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
    const SUMS: [&'static str; SUMMED] = ["util_pct", "memory_used_mb", "power_w"];

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

    fn encode(&self, out: &mut Vec<u8>) {
        super::block::encode_card(self, out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        super::block::decode_card(bytes)
    }

    fn knows(&self, texts: &Texts) -> bool {
        let named = [Some(self.gpu), self.usage_state];
        named
            .into_iter()
            .flatten()
            .all(|id| texts.get(id).is_some())
    }

    fn sums(&self) -> [Option<i64>; SUMMED] {
        [Some(self.util_pct), self.memory_used_mb, self.power_w]
    }
}

/// What a process is unless its row says otherwise.
pub(crate) const COMPUTE: &str = "compute";

impl OldRow for ProcessRow {
    const TABLE: &'static str = "proc_sample";
    const BLOCKS: &'static str = "old_process_block";
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
    const SUMS: [&'static str; SUMMED] = ["pid", "mem_used_mb", "gpu_index"];

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

    fn encode(&self, out: &mut Vec<u8>) {
        super::block::encode_process(self, out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        super::block::decode_process(bytes)
    }

    fn knows(&self, texts: &Texts) -> bool {
        let named = [
            Some(self.gpu),
            self.loginuid_user,
            self.owner_user,
            self.process_name,
            self.process_type,
        ];
        named
            .into_iter()
            .flatten()
            .all(|id| texts.get(id).is_some())
    }

    fn sums(&self) -> [Option<i64>; SUMMED] {
        [Some(self.pid), self.mem_used_mb, self.gpu_index]
    }
}
