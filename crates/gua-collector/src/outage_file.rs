//! The current outage of a background daemon, in a small file beside its PID file, for `gua status`. It is written when an
//! outage starts, changes or ends, not at every tick.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::open_outage::OpenOutage;

/// Size of the file. It is allocated at the start, so that a full disk can be recorded.
const BYTES: usize = 512;

/// The file of a running daemon. Dropping it removes the file.
#[derive(Debug)]
pub struct OutageFile {
    file: File,
    path: PathBuf,
}

impl OutageFile {
    pub fn create(pid_file: &Path) -> std::io::Result<Self> {
        let path = beside(pid_file);
        let created = Self {
            file: gua_files::open_own(&path, OpenOptions::new().write(true))?,
            path,
        };
        created.write("")?;
        Ok(created)
    }

    /// Records the current outage. A write error is ignored: the log has the same.
    pub fn set(&self, outage: Option<&OpenOutage>) {
        let _ = self.write(&outage.map_or_else(String::new, encode));
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

fn encode(outage: &OpenOutage) -> String {
    let pid = std::process::id();
    let (from, reason, detail) = (outage.from, outage.reason, &outage.detail);
    format!("{pid} {from} {reason} {detail}").replace('\n', " ")
}

/// Maximum size of the file.
const MAX_BYTES: u64 = 64 << 10;

/// Reads the start and the reason of the current outage of the daemon with this PID.
pub fn read(pid_file: &Path, pid: u32) -> Option<(Timestamp, String)> {
    let text = gua_files::read_regular(&beside(pid_file), MAX_BYTES).ok()?;
    let text = String::from_utf8_lossy(&text);
    let mut words = text.trim_end().splitn(4, ' ');
    if words.next()?.parse() != Ok(pid) {
        return None;
    }
    let from = words.next()?.parse().ok()?;
    let reason = words.next()?;
    let detail = words.next().unwrap_or_default();
    Some((from, format!("{reason}: {detail}")))
}

fn beside(pid_file: &Path) -> PathBuf {
    gua_files::beside(pid_file, "-outage")
}

#[cfg(test)]
mod tests {
    use gua_model::GapReason;

    use super::*;

    #[test]
    fn an_outage_of_one_daemon_is_recorded_until_it_ends() {
        let directory = tempfile::tempdir().unwrap();
        let pid_file = directory.path().join("gua.pid");
        let own = std::process::id();
        assert_eq!(read(&pid_file, own), None, "no file");
        let file = OutageFile::create(&pid_file).unwrap();
        assert_eq!(read(&pid_file, own), None, "no outage");
        let from = Timestamp::from_second(1_800_000_000).unwrap();
        let detail = "no room\nat all ".to_owned() + &"x".repeat(1000);
        file.set(Some(&OpenOutage::new(from, GapReason::DiskFull, detail)));
        let (since, what) = read(&pid_file, own).unwrap();
        assert_eq!(since, from);
        assert!(what.starts_with("disk-full: no room at all xxx"), "{what}");
        assert_eq!(read(&pid_file, own + 1), None, "another daemon");
        file.set(None);
        assert_eq!(read(&pid_file, own), None, "ended");
        assert_eq!(std::fs::metadata(beside(&pid_file)).unwrap().len(), 512);
        drop(file);
        assert!(!beside(&pid_file).exists());
    }
}
