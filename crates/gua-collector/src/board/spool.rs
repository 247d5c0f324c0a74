//! What could not be sent, on disk, for boards that take late observations: one file for each push, the oldest goes when
//! there is no room. Off unless somebody asks for it.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

/// Pushes that wait, in the order of their time.
#[derive(Debug)]
pub(super) struct Spool {
    directory: PathBuf,
    most_bytes: u64,
    bytes: u64,
    waiting: VecDeque<Waiting>,
    /// Told apart within a microsecond.
    number: u32,
    /// How many went because there was no room.
    pub(super) dropped: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    name: String,
    bytes: u64,
}

const ENDING: &str = ".json";

impl Spool {
    /// Opens the directory, with what an earlier process has left in it.
    pub(super) fn open(directory: &Path, most_bytes: u64) -> io::Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
        let mut waiting = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // Half of a file that a process left when it died.
            if name.ends_with(".tmp") {
                let _ = fs::remove_file(entry.path());
            } else if name.ends_with(ENDING) {
                let bytes = entry.metadata()?.len();
                waiting.push(Waiting { name, bytes });
            }
        }
        waiting.sort();
        let mut spool = Self {
            directory: directory.to_owned(),
            most_bytes,
            bytes: waiting.iter().map(|one| one.bytes).sum(),
            waiting: waiting.into(),
            number: 0,
            dropped: 0,
        };
        spool.make_room(0);
        Ok(spool)
    }

    pub(super) fn depth(&self) -> usize {
        self.waiting.len()
    }

    /// Keeps a push. One that is larger than the whole room is dropped itself.
    pub(super) fn keep(&mut self, at: Timestamp, body: &str) -> io::Result<()> {
        let bytes = body.len() as u64;
        if bytes > self.most_bytes {
            self.dropped += 1;
            return Ok(());
        }
        self.make_room(bytes);
        self.number = self.number.wrapping_add(1);
        // Twenty digits sort as numbers do; times before 1970 do not occur.
        let micros = u64::try_from(at.as_microsecond()).unwrap_or_default();
        let name = format!("{micros:020}-{:010}{ENDING}", self.number);
        let half = self.directory.join(format!("{name}.tmp"));
        let written = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&half)
            .and_then(|mut file| io::Write::write_all(&mut file, body.as_bytes()))
            .and_then(|()| fs::rename(&half, self.directory.join(&name)));
        if let Err(error) = written {
            let _ = fs::remove_file(&half);
            return Err(error);
        }
        self.bytes += bytes;
        self.waiting.push_back(Waiting { name, bytes });
        Ok(())
    }

    /// The oldest push that waits. One that cannot be read any more is passed over.
    pub(super) fn oldest(&mut self) -> Option<String> {
        while let Some(first) = self.waiting.front() {
            if let Ok(body) = fs::read_to_string(self.directory.join(&first.name)) {
                return Some(body);
            }
            self.forget_oldest();
        }
        None
    }

    pub(super) fn forget_oldest(&mut self) {
        if let Some(first) = self.waiting.pop_front() {
            self.bytes = self.bytes.saturating_sub(first.bytes);
            let _ = fs::remove_file(self.directory.join(first.name));
        }
    }

    /// Forgets all that waits.
    pub(super) fn clear(&mut self) {
        while !self.waiting.is_empty() {
            self.forget_oldest();
        }
    }

    fn make_room(&mut self, bytes: u64) {
        while self.bytes + bytes > self.most_bytes && !self.waiting.is_empty() {
            self.forget_oldest();
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn pushes_wait_in_order_within_their_room_and_outlive_the_process() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("spool");
        let mut spool = Spool::open(&place, 10).unwrap();
        for second in 1..=4 {
            spool.keep(at(second), &format!("{second}234")).unwrap();
        }
        assert_eq!((spool.depth(), spool.dropped), (2, 2));
        spool.keep(at(5), "a body that is too long").unwrap();
        assert_eq!((spool.depth(), spool.dropped), (2, 3));
        fs::write(place.join("00-half.json.tmp"), "x").unwrap();
        drop(spool);

        let mut spool = Spool::open(&place, 10).unwrap();
        assert_eq!(spool.oldest().as_deref(), Some("3234"));
        assert_eq!(
            spool.oldest().as_deref(),
            Some("3234"),
            "until it is forgotten"
        );
        spool.forget_oldest();
        assert_eq!(spool.oldest().as_deref(), Some("4234"));
        assert_eq!(fs::read_dir(&place).unwrap().count(), 1);
        // Somebody has cleaned up.
        fs::remove_dir_all(&place).unwrap();
        assert_eq!(spool.oldest(), None);
        assert_eq!(spool.depth(), 0);
        assert!(spool.keep(at(6), "x").is_err());
    }

    #[test]
    fn a_smaller_room_is_made_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(directory.path(), 100).unwrap();
        (1..=9).for_each(|second| spool.keep(at(second), "0123456789").unwrap());
        let mut spool = Spool::open(directory.path(), 25).unwrap();
        assert_eq!((spool.depth(), spool.bytes), (2, 20));
        spool.clear();
        assert_eq!((spool.depth(), spool.bytes), (0, 0));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
