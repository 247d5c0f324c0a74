//! The spool: missed pushes on disk, for boards that accept late observations. One file per push; when the spool is full,
//! the oldest is dropped. A spool belongs to one board, one host id and one policy for user names; pushes for another
//! recipient are never sent. It is off by default.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use gua_files::FileError;
use gua_wire::CloudConfig;
use gua_wire::users::UserPolicy;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::link_state::{Peer, read_json, write_json};

/// The board and host of spooled pushes, and the policy for user names in them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recipient {
    peer: Peer,
    /// Policy for user names.
    users: String,
}

impl Recipient {
    pub(super) fn new(config: &CloudConfig, users: &UserPolicy) -> Self {
        Self {
            peer: Peer::of(config),
            users: match users {
                UserPolicy::Plain => "plain".to_owned(),
                UserPolicy::Omit => "omit".to_owned(),
                // With another salt, a board would count one person as two.
                UserPolicy::Hash(_) => format!("hash {}", users.apply("").unwrap_or_default()),
            },
        }
    }
}

/// Spooled pushes in chronological order.
#[derive(Debug)]
pub(super) struct Spool {
    directory: PathBuf,
    /// Held while open: two processes would send the same pushes twice.
    lock: File,
    max_bytes: u64,
    bytes: u64,
    /// File names with their sizes.
    pushes: BTreeMap<String, u64>,
    recipient: Option<Recipient>,
    /// Distinguishes pushes of the same microsecond.
    number: u32,
    dropped: u64,
}

const EXTENSION: &str = ".json";
const RECIPIENT: &str = "recipient";

impl Spool {
    /// Opens the first writable directory, with the pushes of earlier processes.
    pub(super) fn open(directories: &[PathBuf; 2], max_bytes: u64) -> Result<Self, FileError> {
        let open = |directory: &PathBuf| {
            let opened = lock(directory).and_then(|lock| Self::read(directory, lock, max_bytes));
            opened.map_err(FileError::cannot("use spool", directory))
        };
        let [first, second] = directories;
        match open(first) {
            Err(error) if NOT_WRITABLE.contains(&error.source.kind()) => open(second),
            opened => opened,
        }
    }

    fn read(directory: &Path, lock: File, max_bytes: u64) -> io::Result<Self> {
        let mut pushes = BTreeMap::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // An incomplete file of a process that died.
            if name.ends_with(".part") {
                let _ = fs::remove_file(entry.path());
            } else if is_push(&name) {
                pushes.insert(name, entry.metadata()?.len());
            }
        }
        let mut spool = Self {
            directory: directory.to_owned(),
            lock,
            max_bytes,
            bytes: pushes.values().sum(),
            pushes,
            recipient: read_json(&directory.join(RECIPIENT)),
            number: 0,
            dropped: 0,
        };
        spool.make_room(0);
        Ok(spool)
    }

    /// Sets the recipient of all pushes. Pushes for another recipient are dropped; returns their number.
    pub(super) fn set_recipient(&mut self, to: &Recipient) -> io::Result<usize> {
        if self.recipient.as_ref() == Some(to) {
            return Ok(0);
        }
        let dropped = self.clear();
        self.recipient = None;
        self.write(|directory| write_recipient(directory, to))?;
        self.recipient = Some(to.clone());
        Ok(dropped)
    }

    /// Writes to the directory. If it was removed, it is created and locked again first.
    fn write(&mut self, write: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        match write(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            written => return written,
        }
        self.lock = lock(&self.directory)?;
        if let Some(recipient) = &self.recipient {
            write_recipient(&self.directory, recipient)?;
        }
        write(&self.directory)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pushes.is_empty()
    }

    /// Returns and resets the number of pushes dropped for lack of space.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Adds a push. One that is larger than the whole spool is dropped.
    pub(super) fn add(&mut self, at: Timestamp, body: &str) -> io::Result<()> {
        if self.recipient.is_none() {
            return Err(io::Error::other("the recipient could not be stored"));
        }
        let bytes = body.len() as u64;
        if bytes > self.max_bytes {
            self.dropped += 1;
            return Ok(());
        }
        self.make_room(bytes);
        self.number = self.number.wrapping_add(1);
        // Twenty digits sort like numbers; times before 1970 do not occur.
        let micros = u64::try_from(at.as_microsecond()).unwrap_or_default();
        let name = format!("{micros:020}-{:010}{EXTENSION}", self.number);
        self.write(|directory| gua_files::replace(&directory.join(&name), body.as_bytes(), 0o600))?;
        self.bytes += bytes;
        self.pushes.insert(name, bytes);
        Ok(())
    }

    /// Name and body of the oldest push. Unreadable ones are removed.
    pub(super) fn oldest(&mut self) -> Option<(String, String)> {
        while let Some(name) = self.pushes.keys().next().cloned() {
            let body = gua_files::read_regular(&self.directory.join(&name), self.max_bytes);
            if let Some(body) = body.ok().and_then(|body| String::from_utf8(body).ok()) {
                return Some((name, body));
            }
            self.remove(&name);
        }
        None
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(bytes) = self.pushes.remove(name) {
            self.bytes = self.bytes.saturating_sub(bytes);
            let _ = fs::remove_file(self.directory.join(name));
        }
    }

    /// Removes all pushes; returns their number.
    pub(super) fn clear(&mut self) -> usize {
        let names: Vec<String> = self.pushes.keys().cloned().collect();
        names.iter().for_each(|name| self.remove(name));
        names.len()
    }

    fn make_room(&mut self, bytes: u64) {
        while self.bytes + bytes > self.max_bytes
            && let Some(name) = self.pushes.keys().next().cloned()
        {
            self.remove(&name);
            self.dropped += 1;
        }
    }
}

/// Errors of a directory of another user, or on a read-only file system.
const NOT_WRITABLE: [io::ErrorKind; 2] = [
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::ReadOnlyFilesystem,
];

fn write_recipient(directory: &Path, to: &Recipient) -> io::Result<()> {
    write_json(&directory.join(RECIPIENT), to)
}

/// Creates the directory and locks it.
fn lock(directory: &Path) -> io::Result<File> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    // An existing directory may be read-only; locking alone would not detect that.
    tempfile::tempfile_in(directory)?;
    let lock = File::open(directory)?;
    lock.try_lock().map_err(|error| match error {
        fs::TryLockError::Error(error) => error,
        fs::TryLockError::WouldBlock => io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another daemon with this enrolment uses it",
        ),
    })?;
    Ok(lock)
}

fn is_push(name: &str) -> bool {
    name.ends_with(EXTENSION) && name.starts_with(|letter: char| letter.is_ascii_digit())
}

fn pushes(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let pushes = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_push));
    pushes.map(|entry| entry.path()).collect()
}

fn belongs_to(directory: &Path, peer: &Peer) -> bool {
    let recipient: Option<Recipient> = read_json(&directory.join(RECIPIENT));
    recipient.is_some_and(|recipient| recipient.peer == *peer)
}

/// Number of pushes for a peer in a spool; `None` if it is not readable.
pub(super) fn count(directory: &Path, peer: &Peer) -> Option<usize> {
    match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(0),
        Err(_) => None,
        Ok(_) if belongs_to(directory, peer) => Some(pushes(directory).len()),
        Ok(_) => Some(0),
    }
}

/// Removes a spool, or only if it belongs to `peer`; returns the number of pushes.
pub(super) fn remove(directory: &Path, peer: Option<&Peer>) -> usize {
    if peer.is_some_and(|peer| !belongs_to(directory, peer)) {
        return 0;
    }
    let pushes = pushes(directory);
    for path in &pushes {
        let _ = fs::remove_file(path);
    }
    let _ = fs::remove_file(directory.join(RECIPIENT));
    // Fails if the directory contains other files.
    let _ = fs::remove_dir(directory);
    pushes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gua_wire::ServerUrl;
    use gua_wire::users::Salt;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn recipient(board: &str, host: &str, users: &UserPolicy) -> Recipient {
        let answer = format!(
            r#"{{"hostId":"{host}","displayName":"lab","agentToken":"gua_agent_secret","tokenPrefix":"gua"}}"#
        );
        let board = ServerUrl::parse(board).unwrap();
        let config = CloudConfig::enrolled(board, answer.as_bytes(), None).unwrap();
        Recipient::new(&config, users)
    }

    fn usual() -> Recipient {
        recipient("https://a.example.com", "h1", &UserPolicy::Plain)
    }

    fn open(place: &Path, max_bytes: u64) -> Spool {
        let places = [place.to_owned(), "/sys/gua-spool".into()];
        Spool::open(&places, max_bytes).unwrap()
    }

    fn files(place: &Path) -> usize {
        pushes(place).len()
    }

    #[test]
    fn pushes_are_kept_in_order_within_the_size_limit_across_restarts() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("spool");
        let mut spool = open(&place, 10);
        assert_eq!(spool.set_recipient(&usual()).unwrap(), 0);
        for second in [1, 2, 4, 3] {
            spool.add(at(second), &format!("{second}234")).unwrap();
        }
        assert_eq!((spool.pushes.len(), spool.take_dropped()), (2, 2));
        spool.add(at(5), "a body that is too long").unwrap();
        assert_eq!((spool.pushes.len(), spool.take_dropped()), (2, 1));
        assert_eq!(spool.take_dropped(), 0);
        fs::write(place.join(".00-half.json.x.part"), "x").unwrap();
        drop(spool);

        let mut spool = open(&place, 10);
        assert_eq!(spool.set_recipient(&usual()).unwrap(), 0);
        assert_eq!(count(&place, &usual().peer), Some(2));
        let (name, body) = spool.oldest().unwrap();
        assert_eq!(body, "3234", "ordered by time, not by insertion");
        assert_eq!(spool.oldest().unwrap().0, name, "until it is removed");
        spool.remove(&name);
        spool.remove(&name);
        assert_eq!(spool.oldest().unwrap().1, "4234");
        assert_eq!(files(&place), 1);
        // The directory was removed by another process.
        assert_eq!(remove(&place, None), 1);
        assert!(!place.exists());
        assert_eq!(spool.oldest(), None);
        assert!(spool.is_empty());
        assert_eq!(count(&place, &usual().peer), Some(0));
        spool.add(at(6), "x").unwrap();
        assert_eq!(count(&place, &usual().peer), Some(1));
    }

    #[test]
    fn a_smaller_limit_applies_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut spool = open(directory.path(), 100);
        spool.set_recipient(&usual()).unwrap();
        (1..=9).for_each(|second| spool.add(at(second), "0123456789").unwrap());
        drop(spool);
        let mut spool = open(directory.path(), 25);
        assert_eq!((spool.pushes.len(), spool.bytes), (2, 20));
        assert_eq!(spool.clear(), 2);
        assert_eq!((spool.pushes.len(), spool.bytes), (0, 0));
        assert_eq!(files(directory.path()), 0);
    }

    #[test]
    fn pushes_for_another_board_host_or_policy_are_dropped() {
        let check = |then: &Recipient, dropped: usize| {
            let directory = tempfile::tempdir().unwrap();
            let mut spool = open(directory.path(), 100);
            spool.set_recipient(&usual()).unwrap();
            spool.add(at(1), "x").unwrap();
            spool.add(at(2), "x").unwrap();
            drop(spool);
            let mut spool = open(directory.path(), 100);
            assert_eq!(spool.set_recipient(then).unwrap(), dropped, "{then:?}");
            assert_eq!(spool.oldest().is_some(), dropped == 0);
            assert_eq!(files(directory.path()), 2 - dropped);
        };
        let board = "https://a.example.com";
        let hash = |salt: &[u8]| UserPolicy::Hash(Salt::new(salt).unwrap());
        check(&usual(), 0);
        let other = recipient("https://b.example.com", "h1", &UserPolicy::Plain);
        check(&other, 2);
        check(&recipient(board, "h2", &UserPolicy::Plain), 2);
        check(&recipient(board, "h1", &UserPolicy::Omit), 2);
        check(&recipient(board, "h1", &hash(b"0123456789abcdef")), 2);
        assert_ne!(
            recipient(board, "h1", &hash(b"0123456789abcdef")),
            recipient(board, "h1", &hash(b"another 89abcdef"))
        );
    }

    #[test]
    fn a_spool_without_a_recipient_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let push = directory
            .path()
            .join("00000000000001000000-0000000001.json");
        fs::write(push, "x").unwrap();
        let mut spool = open(directory.path(), 100);
        spool.add(at(2), "x").unwrap_err();
        assert_eq!(count(directory.path(), &usual().peer), Some(0));
        assert_eq!(spool.set_recipient(&usual()).unwrap(), 1);
        let other = Peer::default();
        spool.add(at(1), "x").unwrap();
        assert_eq!(remove(directory.path(), Some(&other)), 0);
        assert_eq!(remove(directory.path(), Some(&usual().peer)), 1);
        // An unreadable spool is not empty.
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(count(file.path(), &usual().peer), None);
    }

    #[test]
    fn one_process_locks_the_spool_in_the_first_writable_directory() {
        let directory = tempfile::tempdir().unwrap();
        // Even root can create neither a directory in the first nor a file in the second.
        let own = directory.path().join("spool");
        for forbidden in ["/sys/gua-spool", "/sys/kernel"] {
            let places = [forbidden.into(), own.clone()];
            let first = Spool::open(&places, 100).unwrap();
            assert_eq!(first.directory, own);
            let busy = Spool::open(&[own.clone(), "/sys".into()], 100).unwrap_err();
            assert_eq!(busy.source.kind(), io::ErrorKind::ResourceBusy);
        }
    }

    #[test]
    fn nothing_is_spooled_if_the_recipient_cannot_be_stored() {
        let directory = tempfile::tempdir().unwrap();
        let mut spool = open(directory.path(), 100);
        spool.set_recipient(&usual()).unwrap();
        spool.add(at(1), "x").unwrap();
        // A directory of this name prevents the write.
        let file = directory.path().join(RECIPIENT);
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        let other = recipient("https://b.example.com", "h1", &UserPolicy::Plain);
        spool.set_recipient(&other).unwrap_err();
        assert!(spool.is_empty());
        spool.set_recipient(&other).unwrap_err();
        spool.add(at(2), "x").unwrap_err();
        fs::remove_dir(&file).unwrap();
        assert_eq!(spool.set_recipient(&other).unwrap(), 0);
        spool.add(at(3), "x").unwrap();
        assert_eq!(count(directory.path(), &other.peer), Some(1));
    }

    #[test]
    fn a_removed_spool_accepts_another_recipient() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("spool");
        let mut spool = open(&place, 100);
        spool.set_recipient(&usual()).unwrap();
        remove(&place, None);
        let other = recipient("https://b.example.com", "h1", &UserPolicy::Plain);
        spool.set_recipient(&other).unwrap();
        spool.add(at(1), "x").unwrap();
        assert_eq!(count(&place, &other.peer), Some(1));
    }
}
