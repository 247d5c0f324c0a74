//! Storage of the history of one host. A history has one writer and any number of readers. All SQL on it
//! is in this crate.
//!
//! [`Store`] writes ticks, [`History`] reads them, and [`what_is_this`] detects the kind of a file before it is opened.
//! The file is an SQLite database with a write-ahead log. Each tick is one row (see `codec`), names are interned, and
//! closed quarter hours are stored as totals. This crate never reads the clock or the environment.

mod backup;
mod check;
mod codec;
mod error;
mod files;
mod first_sight;
mod floors;
mod fold;
mod forget;
pub mod guard;
mod history;
pub mod imported;
mod intact;
mod intake;
mod kind;
mod lock;
mod lookup;
mod maintain;
mod month;
mod names;
mod open_file;
mod quiet;
mod records;
mod refusal;
mod rule;
pub mod schema;
mod sessions;
mod sights;
mod sql;
mod stats;
mod store;
mod tick_days;
mod ticks;
mod totals;
mod watched;
mod window;
mod work;

use std::path::Path;

use gua_model::text::percent_encode;

pub use backup::{BackupError, write_backup};
pub use check::CheckReport;
pub use codec::{Damage, decode_anything};
pub use error::{OpenError, ReadError, WriteError, is_damage};
pub use files::{FilePrint, remove, set_aside};
pub use first_sight::LateSight;
pub use forget::Forgotten;
pub use gua_files::{beside, directory};
pub use history::{Facts, History, Info, RunInfo};
pub use kind::{FileKind, what_is_this};
pub use lock::WriterLock;
pub use maintain::Upkeep;
pub use open_file::FileChange;
pub use refusal::{Kept, NewRefusal};
pub use stats::{OldRows, Stats, TableSize};
pub use store::{NewRun, OpenMode, RunId, Store, WriterOptions};
pub use tick_days::{TickDays, start_of_day};
pub use ticks::StoredTick;
pub use totals::decode_any_totals;
pub use work::Work;

/// URI that opens a file with options of SQLite, such as `immutable=1`: then it takes no locks and reads no journal.
pub fn file_uri(path: &Path, options: &str) -> String {
    use std::os::unix::ffi::OsStrExt as _;

    let names = path.as_os_str().as_bytes().split(|byte| *byte == b'/');
    let names: Vec<String> = names.map(percent_encode).collect();
    format!("file:{}?{options}", names.join("/"))
}
