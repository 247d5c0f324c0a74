//! Small JSON state files beside another file, replaced atomically. Nothing but status displays depends on them.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Path with a suffix appended to the file name.
pub(super) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(suffix);
    name.into()
}

/// Reads a state file; `None` if it is missing or invalid.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = std::fs::read(path).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Replaces the file atomically, also if two processes write it at the same time.
pub(super) fn write<T: Serialize>(path: &Path, state: &T) -> io::Result<()> {
    let text = serde_json::to_string(state).expect("strings and numbers can be serialized");
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut temporary = tempfile::Builder::new()
        .prefix(".gua-")
        .suffix(".tmp")
        // Restricted by the umask.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)?;
    temporary.write_all((text + "\n").as_bytes())?;
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(())
}
