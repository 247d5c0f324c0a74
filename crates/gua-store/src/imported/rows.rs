//! Rows of the two large tables of gpu-usage-audit. Columns missing in a release are `None`.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::block;

/// Id of a text that occurs repeatedly (a GPU, a user, a name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TextId(pub u32);

/// Every text seen so far, without duplicates.
#[derive(Debug, Default)]
pub struct Texts {
    ids: HashMap<Box<str>, TextId, Quick>,
    all: Vec<Box<str>>,
}

/// Fast hasher. Texts are looked up millions of times, in the user's own files, so speed matters more than resistance
/// to hash flooding.
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
    /// Multiplies by an odd constant and folds the well-mixed upper half into the lower one.
    fn mix(&mut self, word: u64) {
        let product = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
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

/// One row of gpu_sample, without its time and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardRow {
    pub gpu: TextId,
    pub util_pct: i64,
    pub usage_state: Option<TextId>,
    pub gpu_index: Option<i64>,
    pub memory_used_mb: Option<i64>,
    pub temperature_c: Option<i64>,
    pub power_w: Option<i64>,
}

/// One row of proc_sample, without its time and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessRow {
    pub gpu: TextId,
    pub pid: i64,
    pub mem_used_mb: Option<i64>,
    pub loginuid_user: Option<TextId>,
    pub owner_user: Option<TextId>,
    pub gpu_index: Option<i64>,
    pub process_name: Option<TextId>,
    /// `None` for compute processes: files from before 1.4 contain no others and lack this column, and later releases
    /// fill it accordingly when they migrate such a file. Both forms are the same row.
    pub process_type: Option<TextId>,
}

/// A row of one of the two large tables, as stored in a block.
pub trait ImportedRow: Copy + PartialEq + std::fmt::Debug + Sized {
    /// Table name in the replaced tool.
    const TABLE: &'static str;
    /// Table of blocks in the history.
    const BLOCKS: &'static str;

    fn encode(&self, out: &mut Vec<u8>);
    fn decode(bytes: &mut &[u8]) -> Option<Self>;
    /// Returns whether every text id of the row is known.
    fn knows(&self, texts: &Texts) -> bool;
    /// Values whose sums are compared after an import, in the order of `SUMS`.
    fn sums(&self) -> [Option<i64>; SUMMED];
    /// Columns that are summed.
    const SUMS: [&'static str; SUMMED];
}

/// Number of columns of each table that are summed for comparison.
pub const SUMMED: usize = 3;

/// Process type of a row without one.
pub const COMPUTE: &str = "compute";

impl ImportedRow for CardRow {
    const TABLE: &'static str = "gpu_sample";
    const BLOCKS: &'static str = "old_card_block";
    const SUMS: [&'static str; SUMMED] = ["util_pct", "memory_used_mb", "power_w"];

    fn encode(&self, out: &mut Vec<u8>) {
        block::encode_card(self, out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        block::decode_card(bytes)
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

impl ImportedRow for ProcessRow {
    const TABLE: &'static str = "proc_sample";
    const BLOCKS: &'static str = "old_process_block";
    const SUMS: [&'static str; SUMMED] = ["pid", "mem_used_mb", "gpu_index"];

    fn encode(&self, out: &mut Vec<u8>) {
        block::encode_process(self, out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        block::decode_process(bytes)
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
