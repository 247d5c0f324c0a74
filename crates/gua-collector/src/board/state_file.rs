//! Files that are replaced atomically, among them small JSON state files beside another file. Nothing but status displays
//! depends on those.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::NamedTempFile;

use super::link_state::Peer;

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

/// Writes a state file that everyone may read, as far as the umask permits.
pub(super) fn write<T: Serialize>(path: &Path, state: &T) -> io::Result<()> {
    let text = serde_json::to_string(state).expect("strings and numbers can be serialized");
    replace(path, 0o666, (text + "\n").as_bytes())
}

/// Writes the first of two state files, or the second if that is not possible.
pub(super) fn write_one<T: Serialize>([first, second]: &[PathBuf; 2], state: &T) -> io::Result<()> {
    write(first, state).or_else(|_| write(second, state))
}

/// Removes two state files, the second only if it belongs to `peer`: the file beside a history may be that of another
/// enrolment.
pub(super) fn remove<T: DeserializeOwned>(
    [own, of_history]: &[PathBuf; 2],
    peer: Option<&Peer>,
    peer_of: impl Fn(T) -> Peer,
) {
    let _ = std::fs::remove_file(own);
    if peer.is_some() && read(of_history).map(peer_of).as_ref() == peer {
        let _ = std::fs::remove_file(of_history);
    }
}

/// Replaces the file atomically, also if two processes write it at the same time.
pub(super) fn replace(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = prepare(path, mode)?;
    temporary.write_all(bytes)?;
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Creates a temporary file that can take the place of another. It is removed if it does not.
pub(super) fn prepare(path: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    tempfile::Builder::new()
        .prefix(".gua-")
        .suffix(".tmp")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(directory)
}
