//! What goes wrong in a background daemon right now, in a small file beside its pid file, for `gua status`. It is written
//! when trouble begins, changes or ends, never at a tick.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use gua_collector::OpenOutage;
use jiff::Timestamp;

/// The file has this size from the beginning, so that a full disk has room for what is said about it.
const BYTES: usize = 512;

/// The file of a running daemon; it goes with it.
#[derive(Debug)]
pub(super) struct OutageFile {
    file: File,
    path: PathBuf,
}

impl OutageFile {
    pub(super) fn make(pid_file: &Path) -> std::io::Result<Self> {
        let path = beside(pid_file);
        let made = Self {
            file: File::create(&path)?,
            path,
        };
        made.write("")?;
        Ok(made)
    }

    /// A disk that does not take it is no reason to stop; the log says the same.
    pub(super) fn tell(&self, trouble: Option<&OpenOutage>) {
        let _ = self.write(&trouble.map_or_else(String::new, described));
    }

    fn write(&self, text: &str) -> std::io::Result<()> {
        let mut bytes: Vec<u8> = text.bytes().take(BYTES - 1).collect();
        bytes.resize(BYTES - 1, b' ');
        bytes.push(b'\n');
        self.file.write_all_at(&bytes, 0)
    }
}

impl Drop for OutageFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn described(trouble: &OpenOutage) -> String {
    let pid = std::process::id();
    let line = format!(
        "{pid} {} {} {}",
        trouble.from, trouble.reason, trouble.detail
    );
    line.replace('\n', " ")
}

/// Since when the daemon with this pid is in trouble, and in which.
pub(super) fn read(pid_file: &Path, pid: u32) -> Option<(Timestamp, String)> {
    let text = std::fs::read(beside(pid_file)).ok()?;
    let text = String::from_utf8_lossy(&text);
    let mut words = text.trim_end().splitn(4, ' ');
    if words.next()?.parse() != Ok(pid) {
        return None;
    }
    let from = words.next()?.parse().ok()?;
    let reason = words.next()?;
    Some((
        from,
        format!("{reason}: {}", words.next().unwrap_or_default()),
    ))
}

fn beside(pid_file: &Path) -> PathBuf {
    let mut name = OsString::from(pid_file);
    name.push("-trouble");
    name.into()
}

#[cfg(test)]
mod tests {
    use gua_model::GapReason;

    use super::*;

    #[test]
    fn trouble_is_told_of_one_daemon_until_it_is_over() {
        let directory = tempfile::tempdir().unwrap();
        let pid_file = directory.path().join("gua.pid");
        let own = std::process::id();
        assert_eq!(read(&pid_file, own), None, "no file");
        let file = OutageFile::make(&pid_file).unwrap();
        assert_eq!(read(&pid_file, own), None, "no trouble");
        let from = Timestamp::from_second(1_800_000_000).unwrap();
        let trouble = OpenOutage {
            ticks_lost: 1,
            from,
            reason: GapReason::DiskFull,
            detail: "no room\nat all ".to_owned() + &"x".repeat(1000),
        };
        file.tell(Some(&trouble));
        let (since, what) = read(&pid_file, own).unwrap();
        assert_eq!(since, from);
        assert!(what.starts_with("disk-full: no room at all xxx"), "{what}");
        assert_eq!(read(&pid_file, own + 1), None, "of another");
        file.tell(None);
        assert_eq!(read(&pid_file, own), None, "over");
        assert_eq!(std::fs::metadata(beside(&pid_file)).unwrap().len(), 512);
        drop(file);
        assert!(!beside(&pid_file).exists());
    }
}
