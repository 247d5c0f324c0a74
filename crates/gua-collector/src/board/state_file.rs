//! Small facts as JSON beside another file, written as a whole. Nobody depends on them but people who look.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The file with this ending beside another.
pub(super) fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(ending);
    name.into()
}

/// What was last written; `None` where nothing was, or nothing that can be read.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = std::fs::read(path).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Replaces the file. Two who do so at once leave the whole of one of them.
pub(super) fn write<T: Serialize>(path: &Path, state: &T) -> io::Result<()> {
    let text = serde_json::to_string(state).expect("texts and numbers are always JSON");
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut half = tempfile::Builder::new()
        .prefix(".gua-")
        .suffix(".tmp")
        // As far as the umask lets others read.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)?;
    half.write_all((text + "\n").as_bytes())?;
    half.persist(path).map_err(|error| error.error)?;
    Ok(())
}
