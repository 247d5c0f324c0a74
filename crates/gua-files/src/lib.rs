//! Files in directories that other users may be able to write.
//!
//! [`NewFile`] replaces a file atomically: a reader sees either the old file or the complete new one. [`open_own`] opens a
//! file in place. Neither follows a link that another user has made, and neither writes to another user's file.
//!
//! Replacing keeps the kind of file: a symbolic link stays a link, a file keeps its mode, and pipes and devices are written
//! to directly.

mod error;
mod own;
mod signals;
mod temporary;
mod trust;

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use tempfile::TempPath;

pub use error::FileError;
pub use own::{open_of, open_own, open_regular, read_regular};
pub use signals::{fail_writes_over_the_limit, remove_parts_on_signals};
pub use temporary::TemporaryDirectory;
pub use trust::{Untrusted, safe_for_root, safe_for_service, safe_for_this_user};

/// Whether an existing file may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Refuse,
    Write,
}

impl Over {
    /// Converts the flag `--overwrite`.
    pub fn of(overwrite: bool) -> Self {
        if overwrite { Over::Write } else { Over::Refuse }
    }

    /// Whether a path may be written, to be asked before the work is done.
    pub fn allows(self, path: &Path) -> bool {
        self == Over::Write || path.symlink_metadata().is_err()
    }
}

/// Writes a file in one call, and syncs it to disk.
pub fn write(path: &Path, bytes: &[u8], over: Over) -> io::Result<()> {
    let new = NewFile::begin(path, over)?;
    (&new.file).write_all(bytes)?;
    new.finish()
}

/// Replaces a file in one call, without syncing it: for state that can be lost with the host. The new file has this mode, as
/// far as the umask permits.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let new = NewFile::begin_as(path, Over::Write, Some(mode))?;
    (&new.file).write_all(bytes)?;
    new.place()
}

/// A file that is being written. It is removed unless it is finished.
#[derive(Debug)]
pub struct NewFile {
    pub file: File,
    path: PathBuf,
    over: Over,
    /// Name until the file is complete; `None` for a pipe or a device, which cannot be replaced.
    part: Option<TempPath>,
}

impl NewFile {
    /// Starts a file that everyone may read, as far as the umask permits. A file that is replaced keeps its mode and owner.
    pub fn begin(path: &Path, over: Over) -> io::Result<Self> {
        Self::begin_as(path, over, None)
    }

    /// Starts a file that only its owner may read, from its first byte on.
    pub fn begin_private(path: &Path, over: Over) -> io::Result<Self> {
        Self::begin_as(path, over, Some(0o600))
    }

    fn begin_as(path: &Path, over: Over, mode: Option<u32>) -> io::Result<Self> {
        let path = match over {
            Over::Refuse => path.to_owned(),
            Over::Write => own::follow_own_links(path)?,
        };
        let old = path.metadata().ok().filter(|_| over == Over::Write);
        if old.as_ref().is_some_and(|old| !old.is_file()) {
            let file = open_own(&path, OpenOptions::new().write(true))?;
            let part = None;
            return Ok(Self {
                file,
                path,
                over,
                part,
            });
        }
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let (file, part) = tempfile::Builder::new()
            .prefix(&format!(".{}.", name.to_string_lossy()))
            .suffix(".part")
            .permissions(Permissions::from_mode(mode.unwrap_or(0o666)))
            .tempfile_in(directory(&path))
            .map_err(without_path)?
            .into_parts();
        signals::add_part(&part);
        // Only root can change the owner. The mode of another user's file may have been planted.
        let keeps = |old: &Metadata| geteuid().is_root() || old.uid() == geteuid().as_raw();
        if let (Some(old), None) = (old.filter(keeps), mode) {
            let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
            file.set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
        }
        let part = Some(part);
        Ok(Self {
            file,
            path,
            over,
            part,
        })
    }

    /// Name until the file is complete, for libraries that open files themselves.
    pub fn part(&self) -> &Path {
        self.part.as_deref().unwrap_or(&self.path)
    }

    /// Syncs the file to disk and gives it its name.
    pub fn finish(self) -> io::Result<()> {
        if self.part.is_some() {
            self.file.sync_all()?;
        }
        let directory = directory(&self.path).to_owned();
        self.place()?;
        // Sync the directory entry too. File systems that cannot sync a directory do this themselves.
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
        Ok(())
    }

    fn place(mut self) -> io::Result<()> {
        let placed = match (self.part.take(), self.over) {
            (None, _) => Ok(()),
            (Some(part), Over::Write) => part.persist(&self.path),
            (Some(part), Over::Refuse) => part.persist_noclobber(&self.path),
        };
        placed.map_err(|error| error.error)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            companions(part).for_each(|path| _ = std::fs::remove_file(path));
        }
    }
}

/// Files that SQLite creates beside a database.
fn companions(database: &Path) -> impl Iterator<Item = PathBuf> {
    ["-wal", "-shm", "-journal"]
        .into_iter()
        .map(|suffix| beside(database, suffix))
}

/// Path with a suffix appended to the file name.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns the error of the system without the path of the temporary file, which means nothing to the caller.
fn without_path(error: io::Error) -> io::Error {
    match error.to_string().rsplit_once(" at path \"") {
        Some((reason, _)) => io::Error::new(error.kind(), reason),
        None => error,
    }
}

/// Whether a path still names an open file.
pub fn is_at(file: &File, path: &Path) -> bool {
    let identity = |facts: Metadata| (facts.dev(), facts.ino());
    let opened = file.metadata().map(identity);
    opened.is_ok_and(|opened| path.metadata().is_ok_and(|facts| identity(facts) == opened))
}

/// Directory that contains a path; `.` for a bare file name.
pub fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Creates a directory with its parents, each with mode 0700 whatever the umask. Existing directories stay as they are.
pub fn make_private_directory(path: &Path) -> io::Result<()> {
    make_directory(path, 0o700)
}

/// Creates a directory with its parents, each with this mode whatever the umask. Existing directories stay as they are.
pub fn make_directory(path: &Path, mode: u32) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    make_directory(directory(path), mode)?;
    match DirBuilder::new().mode(mode).create(path) {
        // The umask may have removed permissions.
        Ok(()) => std::fs::set_permissions(path, Permissions::from_mode(mode)),
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether the file system of a path has no room for another small file.
pub fn is_full(path: &Path) -> bool {
    const MIN_BYTES: u64 = 64 << 10;
    free_bytes(path).is_some_and(|free| free < MIN_BYTES)
        || rustix::fs::statvfs(directory(path))
            .is_ok_and(|facts| facts.f_files > 0 && facts.f_favail == 0)
}

/// Free space on the file system of a path; `None` if it is unknown.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let facts = rustix::fs::statvfs(directory(path)).ok()?;
    Some(facts.f_bavail.saturating_mul(facts.f_frsize))
}

#[cfg(test)]
mod tests;
