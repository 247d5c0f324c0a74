//! Rows imported from the files of replaced tools: their tables in the history, and the code that writes and reads
//! them.
//!
//! `gua-compat` reads and writes the foreign files. This module owns the stored form: blocks of packed rows ([`Block`],
//! [`GpuRow`], [`ProcessRow`]), the small tables beside them, and the record of the source file of each row.
//! [`Importer`] is the only writer; [`History::imported_moments`](crate::History::imported_moments) and
//! [`History::imported_blocks`](crate::History::imported_blocks) read the rows. The accounting of these rows is in
//! `gua-model`.

mod block;
mod check;
mod covered;
mod error;
mod facts;
mod importer;
mod moments;
mod rows;
mod small;
mod sources;
mod stamp;
mod stored;
mod totals;

pub use block::{Block, decode_any_block};
pub(crate) use check::check;
pub use error::LegacyError;
pub use facts::{read_gpus, read_host, read_interval};
pub use importer::{Imported, Importer, NewSource, OnProgress, Progress};
pub use moments::{Intervals, Merged, OF_GPU_STATS, merge};
pub use rows::{
    COMPUTE, Cell, CellKind, Column, GpuRow, ImportedRow, ProcessRow, Tally, TextId, Texts, summed,
};
pub use small::{SmallRow, SmallTable};
pub use sources::{KnownImport, OLD_TABLES, OldSource};
pub(crate) use sources::{drop_old_tables, forget, source_ids};
pub use stamp::{Stamp, old_text};
pub use stored::{Blocks, Order};
pub(crate) use totals::{have_earlier_form, rebuild};
