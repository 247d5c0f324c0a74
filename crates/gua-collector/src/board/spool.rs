//! What could not be sent, on disk, for boards that take late observations: one file for each push, the oldest goes when
//! there is no room. It belongs to one board, to this host's name there, and to what is told of users; what was kept for
//! another is never sent. Off unless somebody asks for it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use gua_wire::CloudConfig;
use gua_wire::users::UserPolicy;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::link_state::Peer;
use super::state_file;

/// For whom pushes were written, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recipient {
    peer: Peer,
    /// How much of users' names is in them.
    users: String,
}

impl Recipient {
    pub(super) fn new(config: &CloudConfig, users: &UserPolicy) -> Self {
        Self {
            peer: Peer::of(config),
            users: match users {
                UserPolicy::Plain => "plain".to_owned(),
                UserPolicy::Omit => "omit".to_owned(),
                // Of another salt, a board would take one person for two.
                UserPolicy::Hash(_) => format!("hash {}", users.told("").unwrap_or_default()),
            },
        }
    }
}

/// Pushes that wait, in the order of their time.
#[derive(Debug)]
pub(super) struct Spool {
    directory: PathBuf,
    /// Two processes would send each other's pushes twice.
    lock: File,
    most_bytes: u64,
    bytes: u64,
    /// By name, with their size.
    waiting: BTreeMap<String, u64>,
    addressee: Option<Recipient>,
    /// FailureLog apart within a microsecond.
    number: u32,
    dropped: u64,
}

/// Why what is missed cannot wait.
#[derive(Debug, thiserror::Error)]
#[error("nothing can be kept in `{}`", directory.display())]
pub(super) struct SpoolError {
    directory: PathBuf,
    source: io::Error,
}

const ENDING: &str = ".json";
const RECIPIENT: &str = "addressee";

impl Spool {
    /// Opens the first of the directories in which something may be written, with what an earlier process has left in it.
    pub(super) fn open(places: &[PathBuf; 2], most_bytes: u64) -> Result<Self, SpoolError> {
        let open = |directory: &PathBuf| {
            let opened = hold(directory).and_then(|lock| Self::read(directory, lock, most_bytes));
            opened.map_err(|source| SpoolError {
                directory: directory.clone(),
                source,
            })
        };
        let [first, second] = places;
        match open(first) {
            Err(error) if error.is_forbidden() => open(second),
            opened => opened,
        }
    }

    fn read(directory: &Path, lock: File, most_bytes: u64) -> io::Result<Self> {
        let mut waiting = BTreeMap::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // Half of a file that a process left when it died.
            if name.ends_with(".tmp") {
                let _ = fs::remove_file(entry.path());
            } else if is_push(&name) {
                waiting.insert(name, entry.metadata()?.len());
            }
        }
        let mut spool = Self {
            directory: directory.to_owned(),
            lock,
            most_bytes,
            bytes: waiting.values().sum(),
            waiting,
            addressee: state_file::read(&directory.join(RECIPIENT)),
            number: 0,
            dropped: 0,
        };
        spool.make_room(0);
        Ok(spool)
    }

    /// From now on pushes are kept for this one. Those that wait for another are dropped; says how many that were.
    pub(super) fn address(&mut self, to: &Recipient) -> io::Result<usize> {
        if self.addressee.as_ref() == Some(to) {
            return Ok(0);
        }
        let dropped = self.clear();
        self.addressee = None;
        self.write_addressee(to).or_else(|error| {
            self.hold_again(error)?;
            self.write_addressee(to)
        })?;
        self.addressee = Some(to.clone());
        Ok(dropped)
    }

    fn write_addressee(&self, to: &Recipient) -> io::Result<()> {
        state_file::write(&self.directory.join(RECIPIENT), to)
    }

    /// After somebody has cleaned up, and the enrolment came back. What else went wrong stays wrong.
    fn hold_again(&mut self, error: io::Error) -> io::Result<()> {
        if error.kind() != io::ErrorKind::NotFound {
            return Err(error);
        }
        self.lock = hold(&self.directory)?;
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many went because there was no room, since this was last asked.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Keeps a push for the one who is addressed. One that is larger than the whole room is dropped itself.
    pub(super) fn keep(&mut self, at: Timestamp, body: &str) -> io::Result<()> {
        let Some(to) = self.addressee.clone() else {
            return Err(io::Error::other("it is not noted for whom"));
        };
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
        self.write(&name, body).or_else(|error| {
            self.hold_again(error)?;
            self.write_addressee(&to)?;
            self.write(&name, body)
        })?;
        self.bytes += bytes;
        self.waiting.insert(name, bytes);
        Ok(())
    }

    fn write(&self, name: &str, body: &str) -> io::Result<()> {
        let half = self.directory.join(format!("{name}.tmp"));
        let written = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&half)
            .and_then(|mut file| file.write_all(body.as_bytes()))
            .and_then(|()| fs::rename(&half, self.directory.join(name)));
        if written.is_err() {
            let _ = fs::remove_file(&half);
        }
        written
    }

    /// The oldest push that waits, by its name. One that cannot be read any more is passed over.
    pub(super) fn oldest(&mut self) -> Option<(String, String)> {
        while let Some(name) = self.waiting.keys().next().cloned() {
            if let Ok(body) = fs::read_to_string(self.directory.join(&name)) {
                return Some((name, body));
            }
            self.forget(&name);
        }
        None
    }

    pub(super) fn forget(&mut self, name: &str) {
        if let Some(bytes) = self.waiting.remove(name) {
            self.bytes = self.bytes.saturating_sub(bytes);
            let _ = fs::remove_file(self.directory.join(name));
        }
    }

    /// Forgets all that waits; says how many that were.
    pub(super) fn clear(&mut self) -> usize {
        let names: Vec<String> = self.waiting.keys().cloned().collect();
        names.iter().for_each(|name| self.forget(name));
        names.len()
    }

    fn make_room(&mut self, bytes: u64) {
        while self.bytes + bytes > self.most_bytes
            && let Some(name) = self.waiting.keys().next().cloned()
        {
            self.forget(&name);
            self.dropped += 1;
        }
    }
}

impl SpoolError {
    fn is_forbidden(&self) -> bool {
        matches!(
            self.source.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
        )
    }
}

/// Makes the directory, and holds it against other processes.
fn hold(directory: &Path) -> io::Result<File> {
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory);
    made?;
    // One that was made before may be read-only for us, which its lock does not tell.
    tempfile::tempfile_in(directory)?;
    let lock = File::open(directory)?;
    lock.try_lock().map_err(|error| match error {
        fs::TryLockError::Error(error) => error,
        fs::TryLockError::WouldBlock => io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another daemon of this enrolment keeps its missed pushes there",
        ),
    })?;
    Ok(lock)
}

fn is_push(name: &str) -> bool {
    name.ends_with(ENDING) && name.starts_with(|letter: char| letter.is_ascii_digit())
}

fn pushes(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let pushes = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_push));
    pushes.map(|entry| entry.path()).collect()
}

fn is_for(directory: &Path, peer: &Peer) -> bool {
    let addressee: Option<Recipient> = state_file::read(&directory.join(RECIPIENT));
    addressee.is_some_and(|addressee| addressee.peer == *peer)
}

/// How many pushes to a peer lie in a directory; `None` where that may not be seen.
pub(super) fn waiting(directory: &Path, peer: &Peer) -> Option<usize> {
    match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(0),
        Err(_) => None,
        Ok(_) if is_for(directory, peer) => Some(pushes(directory).len()),
        Ok(_) => Some(0),
    }
}

/// Removes a directory with what waits in it: whatever it is, or for one peer. Says how many pushes that were.
pub(super) fn forget(directory: &Path, peer: Option<&Peer>) -> usize {
    if peer.is_some_and(|peer| !is_for(directory, peer)) {
        return 0;
    }
    let pushes = pushes(directory);
    for path in &pushes {
        let _ = fs::remove_file(path);
    }
    let _ = fs::remove_file(directory.join(RECIPIENT));
    // Something that is not ours keeps it there.
    let _ = fs::remove_dir(directory);
    pushes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gua_wire::users::Salt;
    use gua_wire::{ClaimAnswer, ServerUrl};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn addressee(board: &str, host: &str, users: &UserPolicy) -> Recipient {
        let answer = format!(
            r#"{{"hostId":"{host}","displayName":"lab","agentToken":"gua_agent_secret","tokenPrefix":"gua"}}"#
        );
        let answer = ClaimAnswer::read(answer.as_bytes()).unwrap();
        let config = CloudConfig::enrolled(ServerUrl::parse(board).unwrap(), answer);
        Recipient::new(&config, users)
    }

    fn usual() -> Recipient {
        addressee("https://a.example.com", "h1", &UserPolicy::Plain)
    }

    fn open(place: &Path, most_bytes: u64) -> Spool {
        let places = [place.to_owned(), "/sys/gua-spool".into()];
        Spool::open(&places, most_bytes).unwrap()
    }

    fn files(place: &Path) -> usize {
        pushes(place).len()
    }

    #[test]
    fn pushes_wait_in_order_within_their_room_and_outlive_the_process() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("spool");
        let mut spool = open(&place, 10);
        assert_eq!(spool.address(&usual()).unwrap(), 0);
        for second in [1, 2, 4, 3] {
            spool.keep(at(second), &format!("{second}234")).unwrap();
        }
        assert_eq!((spool.waiting.len(), spool.take_dropped()), (2, 2));
        spool.keep(at(5), "a body that is too long").unwrap();
        assert_eq!((spool.waiting.len(), spool.take_dropped()), (2, 1));
        assert_eq!(spool.take_dropped(), 0);
        fs::write(place.join("00-half.json.tmp"), "x").unwrap();
        drop(spool);

        let mut spool = open(&place, 10);
        assert_eq!(spool.address(&usual()).unwrap(), 0);
        assert_eq!(waiting(&place, &usual().peer), Some(2));
        let (name, body) = spool.oldest().unwrap();
        assert_eq!(body, "3234", "by their time, not by when they were kept");
        assert_eq!(spool.oldest().unwrap().0, name, "until it is forgotten");
        spool.forget(&name);
        spool.forget(&name);
        assert_eq!(spool.oldest().unwrap().1, "4234");
        assert_eq!(files(&place), 1);
        // Somebody has cleaned up.
        assert_eq!(forget(&place, None), 1);
        assert!(!place.exists());
        assert_eq!(spool.oldest(), None);
        assert!(spool.is_empty());
        assert_eq!(waiting(&place, &usual().peer), Some(0));
        spool.keep(at(6), "x").unwrap();
        assert_eq!(waiting(&place, &usual().peer), Some(1));
    }

    #[test]
    fn a_smaller_room_is_made_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut spool = open(directory.path(), 100);
        spool.address(&usual()).unwrap();
        (1..=9).for_each(|second| spool.keep(at(second), "0123456789").unwrap());
        drop(spool);
        let mut spool = open(directory.path(), 25);
        assert_eq!((spool.waiting.len(), spool.bytes), (2, 20));
        assert_eq!(spool.clear(), 2);
        assert_eq!((spool.waiting.len(), spool.bytes), (0, 0));
        assert_eq!(files(directory.path()), 0);
    }

    #[test]
    fn what_waits_for_another_board_host_or_policy_is_dropped_and_never_sent() {
        let check = |then: &Recipient, dropped: usize| {
            let directory = tempfile::tempdir().unwrap();
            let mut spool = open(directory.path(), 100);
            spool.address(&usual()).unwrap();
            spool.keep(at(1), "x").unwrap();
            spool.keep(at(2), "x").unwrap();
            drop(spool);
            let mut spool = open(directory.path(), 100);
            assert_eq!(spool.address(then).unwrap(), dropped, "{then:?}");
            assert_eq!(spool.oldest().is_some(), dropped == 0);
            assert_eq!(files(directory.path()), 2 - dropped);
        };
        let board = "https://a.example.com";
        let hash = |salt: &[u8]| UserPolicy::Hash(Salt::new(salt).unwrap());
        check(&usual(), 0);
        let other = addressee("https://b.example.com", "h1", &UserPolicy::Plain);
        check(&other, 2);
        check(&addressee(board, "h2", &UserPolicy::Plain), 2);
        check(&addressee(board, "h1", &UserPolicy::Omit), 2);
        check(&addressee(board, "h1", &hash(b"0123456789abcdef")), 2);
        assert_ne!(
            addressee(board, "h1", &hash(b"0123456789abcdef")),
            addressee(board, "h1", &hash(b"another 89abcdef"))
        );
    }

    #[test]
    fn a_spool_that_belongs_to_nobody_known_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let push = directory
            .path()
            .join("00000000000001000000-0000000001.json");
        fs::write(push, "x").unwrap();
        let mut spool = open(directory.path(), 100);
        spool.keep(at(2), "x").unwrap_err();
        assert_eq!(waiting(directory.path(), &usual().peer), Some(0));
        assert_eq!(spool.address(&usual()).unwrap(), 1);
        let stranger = Peer::default();
        spool.keep(at(1), "x").unwrap();
        assert_eq!(forget(directory.path(), Some(&stranger)), 0);
        assert_eq!(forget(directory.path(), Some(&usual().peer)), 1);
        // What cannot be looked into is not empty.
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(waiting(file.path(), &usual().peer), None);
    }

    #[test]
    fn one_process_has_it_at_a_time_and_it_stands_where_something_may_be_written() {
        let directory = tempfile::tempdir().unwrap();
        // Nobody makes a directory in the one, nor a file in the other.
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
    fn nothing_is_kept_for_one_who_could_not_be_noted() {
        let directory = tempfile::tempdir().unwrap();
        let mut spool = open(directory.path(), 100);
        spool.address(&usual()).unwrap();
        spool.keep(at(1), "x").unwrap();
        // A directory in its place: nothing can be written over it.
        let noted = directory.path().join(RECIPIENT);
        fs::remove_file(&noted).unwrap();
        fs::create_dir(&noted).unwrap();
        let other = addressee("https://b.example.com", "h1", &UserPolicy::Plain);
        spool.address(&other).unwrap_err();
        assert!(spool.is_empty());
        spool.address(&other).unwrap_err();
        spool.keep(at(2), "x").unwrap_err();
        fs::remove_dir(&noted).unwrap();
        assert_eq!(spool.address(&other).unwrap(), 0);
        spool.keep(at(3), "x").unwrap();
        assert_eq!(waiting(directory.path(), &other.peer), Some(1));
    }

    #[test]
    fn a_spool_that_was_removed_takes_another_addressee() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("spool");
        let mut spool = open(&place, 100);
        spool.address(&usual()).unwrap();
        forget(&place, None);
        let other = addressee("https://b.example.com", "h1", &UserPolicy::Plain);
        spool.address(&other).unwrap();
        spool.keep(at(1), "x").unwrap();
        assert_eq!(waiting(&place, &other.peer), Some(1));
    }
}
