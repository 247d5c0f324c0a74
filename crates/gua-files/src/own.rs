//! Files that are opened in place: logs, locks, PID files and metric files. Another user who can write in the directory may
//! have planted something under the name, so what is opened must belong to this process.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::directory;

/// Maximum number of links that are followed, as in the kernel (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Opens a file of this user, or creates it; it is never truncated. Refused are links and files that belong to other users,
/// and pipes and sockets of others, which could block. Devices are accepted: only root can create them.
pub fn open_own(path: &Path, options: &OpenOptions) -> io::Result<File> {
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
                open_own(&path, options.create_new(false))
            }
            created => created,
        };
    };
    check_owner(&known)?;
    let mut flags = OFlags::NOCTTY;
    // What is left of a link here is one of the kernel's, such as /proc/self/fd/1 for a pipe.
    flags.set(OFlags::NOFOLLOW, !path.is_symlink());
    // The user's own pipe waits for its reader. Anything else must not block, if it was replaced by a pipe just now.
    flags.set(OFlags::NONBLOCK, !known.file_type().is_fifo());
    let flags = flags.bits().cast_signed();
    let file = options.custom_flags(flags).open(&path)?;
    check_owner(&file.metadata()?)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Reads a regular file of at most `most` bytes. A pipe, which could block, and a longer file are errors.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = flags.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() {
        let kind = match (kind.is_dir(), kind.is_fifo()) {
            (true, _) => "a directory",
            (_, true) => "a pipe",
            _ => "a device",
        };
        return Err(io::Error::other(format!("it is {kind}, not a file")));
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let message = format!("it is longer than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Follows links at the end of a path. A link of another user is an error, because it may have been planted.
pub(crate) fn follow_own_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match path.symlink_metadata() {
            Ok(facts) if facts.is_symlink() => check_link_owner(&facts)?,
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

fn check_link_owner(facts: &Metadata) -> io::Result<()> {
    match facts.uid() {
        0 => Ok(()),
        owner => check(owner),
    }
}

fn check_owner(facts: &Metadata) -> io::Result<()> {
    match facts.file_type().is_char_device() {
        true => Ok(()),
        false => check(facts.uid()),
    }
}

fn check(owner: u32) -> io::Result<()> {
    if owner == geteuid().as_raw() {
        return Ok(());
    }
    let message = format!("it belongs to another user (uid {owner})");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}
