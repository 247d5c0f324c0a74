//! A directory for temporary files that is removed with everything in it.

use std::io;
use std::path::Path;

use tempfile::TempDir;

use crate::signals;

/// A directory that only its user can open. It is removed on drop, and when a signal ends the program after
/// [`crate::remove_parts_on_signals`].
#[derive(Debug)]
pub struct TemporaryDirectory(TempDir);

impl TemporaryDirectory {
    /// Creates a directory whose name begins with `prefix`.
    pub fn create(parent: &Path, prefix: &str) -> io::Result<Self> {
        // tempfile creates it with mode 0700.
        let directory = tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?;
        signals::add_part(directory.path());
        Ok(Self(directory))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}
