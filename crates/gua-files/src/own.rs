//! Files that are opened in place: logs, locks, PID files and metric files. Another user who can write in the directory may
//! have planted something under the name, so what is opened must belong to this process. Files that are read whole must be
//! regular files of limited length: a pipe can block forever, and a device can have no end.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::directory;

/// Maximum number of links that are followed, as in the kernel (path_resolution(7)).
pub(crate) const MAX_LINKS: usize = 40;
/// Write permission of the group and of everyone.
pub(crate) const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Opens a file of this user, or creates it; it is never truncated. Refused are links and files that belong to other users,
/// pipes and sockets of others, which could block, and hard links to this user's files that others may have made. Devices are
/// accepted: only root can create them.
pub fn open_own(path: &Path, options: &OpenOptions) -> io::Result<File> {
    open_of(path, options, geteuid().as_raw())
}

/// Opens a file as [`open_own`] does, which must belong to `owner`. For root, who works on the files of a service.
pub fn open_of(path: &Path, options: &OpenOptions, owner: u32) -> io::Result<File> {
    let path = follow_own_links(path)?;
    let mut options = options.clone();
    options.truncate(false);
    let known = match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        facts => Some(facts?),
    };
    let Some(known) = known else {
        // A file that this call creates is ours, whatever owner a network file system shows.
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        return match options.create_new(true).custom_flags(flags).open(&path) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                open_of(&path, options.create_new(false), owner)
            }
            created => created,
        };
    };
    check_owner(&known, owner)?;
    let mut flags = OFlags::NOCTTY;
    // A link that remains here is one of the kernel's, such as /proc/self/fd/1 for a pipe.
    flags.set(OFlags::NOFOLLOW, !path.is_symlink());
    // The user's own pipe waits for its reader. Anything else must not block, if it was replaced by a pipe just now.
    flags.set(OFlags::NONBLOCK, !known.file_type().is_fifo());
    let flags = flags.bits().cast_signed();
    let file = options.custom_flags(flags).open(&path)?;
    let facts = file.metadata()?;
    check_owner(&facts, owner)?;
    check_names(&facts, &path, owner)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Opens a regular file for reading. A pipe, which could block, a device and a directory are errors.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = flags.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() {
        let (error, kind) = match (kind.is_dir(), kind.is_fifo()) {
            (true, _) => (io::ErrorKind::IsADirectory, "a directory"),
            (_, true) => (io::ErrorKind::Other, "a pipe"),
            _ => (io::ErrorKind::Other, "a device"),
        };
        return Err(io::Error::new(error, format!("it is {kind}, not a file")));
    }
    Ok(file)
}

/// Reads a regular file of at most `most` bytes. A pipe, which could block, and a longer file are errors.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let message = format!("it is longer than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Follows links at the end of a path. A link of another user is an error, because it may have been planted.
pub(crate) fn follow_own_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match path.symlink_metadata() {
            Ok(facts) if facts.is_symlink() && facts.uid() == 0 => {}
            Ok(facts) if facts.is_symlink() => check(facts.uid(), geteuid().as_raw())?,
            _ => return Ok(path),
        }
        let target = directory(&path).join(path.read_link()?);
        if target.symlink_metadata().is_err() && path.exists() {
            return Ok(path);
        }
        path = target;
    }
    Err(Errno::LOOP.into())
}

fn check_owner(facts: &Metadata, expected: u32) -> io::Result<()> {
    match facts.file_type().is_char_device() {
        true => Ok(()),
        false => check(facts.uid(), expected),
    }
}

fn check(owner: u32, expected: u32) -> io::Result<()> {
    if owner == expected {
        return Ok(());
    }
    let message = format!("it belongs to another user (uid {owner})");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

/// Rejects a file with a second name in a directory that others can write: they can link to any file there, unless the
/// kernel prevents it (`fs.protected_hardlinks`, proc(5)).
fn check_names(facts: &Metadata, path: &Path, owner: u32) -> io::Result<()> {
    if !facts.is_file() || facts.nlink() < 2 {
        return Ok(());
    }
    let place = directory(path).metadata()?;
    if place.uid() == owner && place.mode() & WRITABLE_BY_OTHERS == 0 {
        return Ok(());
    }
    let message = "it is a hard link in a directory that other users can write";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}
