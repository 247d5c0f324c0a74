//! Checks whether a history can be written at a path, without writing: what exists there, and how much space is free.
//!
//! A network file system whose server is down may block forever, so callers set a time limit.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use gua_model::Bytes;
use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};

/// State of a path and its file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    pub entry: Entry,
    pub parent: Parent,
    /// Free space on the file system of the nearest existing directory; `None` if it could not be read.
    pub room: Option<Room>,
}

/// Entry that a path refers to. Links are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    Absent,
    File {
        size: Bytes,
    },
    /// A directory, a device, or a dangling link.
    NoFile,
    /// Unknown; the text says why.
    Unreadable(String),
}

/// Directory that a path is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    Missing,
    ReadOnly,
    Writable,
}

/// Free space of a file system for an unprivileged user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Directory that was checked.
    pub directory: PathBuf,
    pub free: Bytes,
    pub total: Bytes,
    /// Free inodes; `None` on file systems that do not count them.
    pub free_inodes: Option<u64>,
    pub directory_access: Parent,
    pub is_read_only: bool,
}

/// Inspects a path. Nothing is created, opened or changed.
pub fn spot(path: &Path) -> Spot {
    let parent = parent_of(path);
    Spot {
        entry: entry(path),
        parent: access_of(parent),
        room: room(parent),
    }
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

fn entry(path: &Path) -> Entry {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Entry::File {
            size: Bytes(metadata.len()),
        },
        Ok(_) => Entry::NoFile,
        Err(error) => match error.kind() {
            // A dangling link is there.
            ErrorKind::NotFound | ErrorKind::NotADirectory => path
                .symlink_metadata()
                .map_or(Entry::Absent, |_| Entry::NoFile),
            _ => Entry::Unreadable(error.to_string()),
        },
    }
}

fn access_of(directory: &Path) -> Parent {
    if !directory.is_dir() {
        Parent::Missing
    } else if access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok() {
        Parent::Writable
    } else {
        Parent::ReadOnly
    }
}

fn room(directory: &Path) -> Option<Room> {
    let directory = directory.ancestors().find(|above| above.is_dir())?;
    let numbers = statvfs(directory).ok()?;
    let bytes = |blocks: u64| Bytes(blocks.saturating_mul(numbers.f_frsize));
    Some(Room {
        directory: directory.to_owned(),
        free: bytes(numbers.f_bavail),
        total: bytes(numbers.f_blocks),
        free_inodes: (numbers.f_files > 0).then_some(numbers.f_favail),
        directory_access: access_of(directory),
        is_read_only: numbers.f_flag.contains(StatVfsMountFlags::RDONLY),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_file_or_absent_or_neither() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("file"), "abc").unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
        let check = |name: &str, entry, parent| {
            let found = spot(&at(name));
            assert_eq!((found.entry, found.parent), (entry, parent), "{name}");
        };
        check("file", Entry::File { size: Bytes(3) }, Parent::Writable);
        check("absent", Entry::Absent, Parent::Writable);
        check("directory", Entry::NoFile, Parent::Writable);
        check("dangling", Entry::NoFile, Parent::Writable);
        check("no/such/place", Entry::Absent, Parent::Missing);
        check("file/below", Entry::Absent, Parent::Missing);
    }

    #[test]
    fn room_is_asked_of_the_nearest_directory_that_exists() {
        let directory = tempfile::tempdir().unwrap();
        let room = spot(&directory.path().join("a/b/c.db")).room.unwrap();
        assert_eq!(room.directory, directory.path());
        assert!(room.total >= room.free && room.total > Bytes(0));
    }

    #[test]
    fn a_bare_name_is_in_the_current_directory() {
        assert_eq!(parent_of(Path::new("gua.db")), Path::new("."));
        assert_eq!(parent_of(Path::new("/")), Path::new("/"));
    }
}
