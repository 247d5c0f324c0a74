//! Small facts as JSON beside the history, written as a whole. Nobody depends on them but people who look.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The file with this ending beside a history.
pub(super) fn beside(history: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(history);
    name.push(ending);
    name.into()
}

/// What was last written; `None` where nothing was, or nothing that can be read.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = std::fs::read(path).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Replaces the file.
pub(super) fn write<T: Serialize>(path: &Path, state: &T) -> io::Result<()> {
    let half = beside(path, ".tmp");
    let text = serde_json::to_string(state).expect("texts and numbers are always JSON");
    std::fs::write(&half, text + "\n")?;
    std::fs::rename(&half, path)
}
