//! The history file of one host: one writer, any number of readers, and the only SQL outside of the board.
//!
//! [`Store`] writes ticks, [`History`] reads them, [`what_is_this`] looks before either. The file is SQLite with a
//! journal; a tick is one row (see `codec`), names are interned, closed quarter hours are kept as totals. Nothing here
//! asks the time or reads the environment.

mod backup;
mod card_ticks;
mod check;
mod codec;
mod error;
mod floors;
mod fold;
mod forget;
mod history;
pub mod imported;
mod intact;
mod kind;
mod lock;
mod look_back;
mod lookup;
mod maintain;
mod names;
mod quiet;
mod records;
mod refusal;
mod rule;
pub mod schema;
mod sessions;
mod set_aside;
mod sights;
mod stats;
mod store;
mod tick_days;
mod ticks;
mod totals;
mod turn;
mod watched;
mod window;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use backup::BackupError;
pub use check::CheckReport;
pub use codec::{Damage, decode_anything};
pub use error::{OpenError, ReadError, WriteError, tells_of_damage};
pub use forget::Forgotten;
pub use history::{History, Info, RunInfo};
pub use kind::{FileKind, what_is_this};
pub use lock::WriterLock;
pub use maintain::Upkeep;
pub use refusal::{Kept, NewRefusal};
pub use set_aside::set_aside;
pub use sights::{Ends, Sight};
pub use stats::{OldRows, Stats, TableSize};
pub use store::{NewRun, OpenMode, RunId, Store, WriterOptions};
pub use tick_days::TickDays;
pub use ticks::StoredTick;
pub use totals::{DayTaken, decode_any_totals};
pub use window::{Folded, WindowTotals};

/// The version of the SQLite that is built in.
#[must_use]
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}

/// The name of a file beside the history, which SQLite's own companions follow too.
#[must_use]
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// The directory that a path lies in.
#[must_use]
pub fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// An address under which SQLite reads a file as one that nobody changes: without locks and without a journal.
pub(crate) fn immutable_uri(path: &Path) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt as _;

    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push((*byte).into());
            }
            other => write!(uri, "%{other:02X}").expect("a string takes every text"),
        }
    }
    uri + "?immutable=1"
}
