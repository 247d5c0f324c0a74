//! Histories of gpu-usage-audit 1.0.2 to 1.8.0: read as they are, imported, exported, adopted. They are never modified.
//!
//! How an old row counts is decided in `gua-model`; here it is only read and kept.

mod adopt;
mod block;
mod check;
mod covered;
mod cursor;
mod error;
mod export;
mod facts;
mod fold;
mod gpu_stats;
mod import;
mod keep;
mod known;
mod old_form;
mod open;
mod rows;
mod scan;
mod stamp;
mod verify;

pub use adopt::{Adopted, OldCollector, adopt};
pub(crate) use check::check;
pub use error::LegacyError;
pub use export::{Exported, unfinished_export};
pub use facts::{OldFacts, OldHost, OldModel};
pub use gpu_stats::{Again, StatsDay, StatsImported, StatsInterval, StatsRow};
pub use import::{Imported, OnProgress, Progress};
pub use keep::OldSource;
pub(crate) use keep::forget;
pub use known::OldCard;
pub use old_form::{Days, EachRow, OldCell, OldForm, OldTables};
pub use open::OldFile;
pub use stamp::old_text;
