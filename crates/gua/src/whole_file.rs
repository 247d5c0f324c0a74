//! Files that are there as a whole or not at all: a reader sees the old one or the new one.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Writes a file, over what was there.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let attempt = || -> std::io::Result<()> {
        let next = beside(path);
        let written = File::create(&next).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        let placed = written.and_then(|()| fs::rename(&next, path));
        if placed.is_err() {
            // Why it could not be written is worth more than why the rest is still there.
            let _ = fs::remove_file(&next);
        }
        placed
    };
    attempt().with_context(|| format!("cannot write `{}`", path.display()))
}

/// Where a file is made before it gets its name: hidden, in the same directory, and no one else's.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.part", std::process::id()))
}
