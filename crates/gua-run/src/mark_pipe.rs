//! The pipe on which a job sends marks to the `gua run` that watches it.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The writing end of the pipe.
#[derive(Debug)]
pub struct MarkPipe(File);

impl MarkPipe {
    /// Opens the pipe by its path, which contains the PID of the reader; if that is not accessible, by the inherited
    /// descriptor. The arguments are the values of [`PIPE_VARIABLE`] and [`DESCRIPTOR_VARIABLE`].
    ///
    /// [`PIPE_VARIABLE`]: crate::PIPE_VARIABLE
    /// [`DESCRIPTOR_VARIABLE`]: crate::DESCRIPTOR_VARIABLE
    pub fn open(path: Option<&OsStr>, descriptor: Option<&OsStr>) -> Option<Self> {
        let number = descriptor.and_then(|number| number.to_str()?.parse::<u32>().ok());
        let inherited = number.map(|number| PathBuf::from(format!("/proc/self/fd/{number}")));
        let paths = [path.map(PathBuf::from), inherited];
        paths
            .into_iter()
            .flatten()
            .find_map(|path| open(&path))
            .map(Self)
    }

    /// Writes one line. Writes of at most PIPE_BUF bytes are atomic (pipe(7)), so it is written completely or not at all.
    pub fn send(&mut self, line: &str) -> io::Result<()> {
        self.0.write_all(line.as_bytes())
    }
}

/// Opens the path only if it is a pipe: the descriptor may have been reused for another file.
fn open(path: &Path) -> Option<File> {
    let is_pipe = path.metadata().ok()?.file_type().is_fifo();
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    opened.ok().filter(|_| is_pipe)
}
