//! Notes of users about held GPUs: a *keep* says that a person still needs idle GPUs, and a *nudge* asks a person whether they
//! do. Notes are files in user directories like claims, so that the owner of the file is the author. They give no right to a
//! GPU.
//!
//! The age of a note is that of its file, which only the kernel sets. A person cannot be nudged more often by a note that
//! claims to be older, and a keep cannot be longer than [`LONGEST_LEASE`].

use std::ops::ControlFlow;
use std::time::Duration;

use gua_model::{GpuUuid, Uid};
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ask::{LONGEST_LEASE, MAX_GPUS};
use crate::directory::ClaimDir;
use crate::error::ClaimError;
use crate::user_dir::{Allowance, Entry, UserDir, random_word};

const KEEP: &str = "keep-";
/// A user has one keep.
const OWN_KEEP: &str = "keep-own";
const NUDGE: &str = "nudge-";
const VERSION: u32 = 1;
/// Maximum number of nudges of a user.
const MOST_NUDGES: usize = 64;
/// Maximum length of the reason of a keep, in characters.
pub const LONGEST_REASON: usize = 200;
/// Minimum time between two nudges of a person, and how long a nudge is shown.
pub const NUDGE_AGE: Duration = Duration::from_secs(24 * 3600);
/// Maximum difference between the clock of a writer and the time of its file.
const SLACK: SignedDuration = SignedDuration::from_mins(1);

/// A person's statement that they still need GPUs that they do not use at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Owner of the file, according to the kernel.
    pub owner: Uid,
    pub gpus: Vec<GpuUuid>,
    pub made: Timestamp,
    pub until: Timestamp,
    /// As written by the person: not safe to display.
    pub why: String,
}

/// A person's question to another one, whether they still need GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nudge {
    /// Owner of the file, according to the kernel.
    pub owner: Uid,
    pub to: Uid,
    pub gpus: Vec<GpuUuid>,
    pub made: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct WrittenKeep {
    version: u32,
    gpus: Vec<GpuUuid>,
    until: Timestamp,
    why: String,
}

#[derive(Serialize, Deserialize)]
struct WrittenNudge {
    version: u32,
    to: u32,
    gpus: Vec<GpuUuid>,
}

impl Keep {
    /// Whether a person keeps a GPU.
    #[must_use]
    pub fn covers(&self, owner: Option<Uid>, gpu: &GpuUuid) -> bool {
        Some(self.owner) == owner && self.gpus.contains(gpu)
    }

    fn from_entry(entry: &Entry, now: Timestamp) -> Option<Self> {
        let written: WrittenKeep = parsed(entry)?;
        let longest = SignedDuration::try_from(LONGEST_LEASE).ok()? + SLACK;
        let is_live = written.until > now
            && written.until.duration_since(entry.changed) <= longest
            && written.gpus.len() <= MAX_GPUS;
        is_live.then(|| Self {
            owner: entry.owner,
            gpus: written.gpus,
            made: entry.changed,
            until: written.until,
            why: written.why.chars().take(LONGEST_REASON).collect(),
        })
    }
}

impl Nudge {
    fn from_entry(entry: &Entry, now: Timestamp) -> Option<Self> {
        let written: WrittenNudge = parsed(entry)?;
        let age = now.duration_since(entry.changed);
        let is_recent = age >= -SLACK && age.unsigned_abs() < NUDGE_AGE;
        (is_recent && written.gpus.len() <= MAX_GPUS).then_some(Self {
            owner: entry.owner,
            to: Uid(written.to),
            gpus: written.gpus,
            made: entry.changed,
        })
    }
}

fn parsed<T: DeserializeOwned>(entry: &Entry) -> Option<T> {
    serde_json::from_slice(&entry.bytes).ok()
}

impl ClaimDir {
    /// Returns the keeps that have not ended.
    pub fn keeps(&self, now: Timestamp) -> Result<Vec<Keep>, ClaimError> {
        let mut keeps = self.notes(KEEP, |entry| Keep::from_entry(entry, now))?;
        keeps.sort_by_key(|keep| (keep.owner, keep.until));
        Ok(keeps)
    }

    /// Returns the nudges of the last day, the latest first.
    pub fn nudges(&self, now: Timestamp) -> Result<Vec<Nudge>, ClaimError> {
        let mut nudges = self.notes(NUDGE, |entry| Nudge::from_entry(entry, now))?;
        // Nobody can take the turn of others by nudging themselves.
        nudges.retain(|nudge| nudge.owner != nudge.to);
        nudges.sort_by_key(|nudge| std::cmp::Reverse((nudge.made, nudge.owner)));
        Ok(nudges)
    }

    /// Records that the caller keeps GPUs, in place of an earlier keep.
    pub fn keep(&self, gpus: &[GpuUuid], until: Timestamp, why: &str) -> Result<(), ClaimError> {
        let written = WrittenKeep {
            version: VERSION,
            gpus: gpus.to_vec(),
            until,
            why: why.chars().take(LONGEST_REASON).collect(),
        };
        self.write_note(OWN_KEEP, &written)
    }

    /// Ends the keep of the caller. Returns whether there was one.
    pub fn unkeep(&self) -> Result<bool, ClaimError> {
        let Some(user_dir) = self.existing_user_dir()? else {
            return Ok(false);
        };
        match user_dir.remove(OWN_KEEP) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(source) => Err(self.cannot_write(source)),
        }
    }

    /// Records that the caller nudges a person.
    pub fn nudge(&self, to: Uid, gpus: &[GpuUuid]) -> Result<(), ClaimError> {
        let written = WrittenNudge {
            version: VERSION,
            to: to.0,
            gpus: gpus.to_vec(),
        };
        self.write_note(&format!("{NUDGE}{}", random_word()), &written)
    }

    /// Writes a note, and removes the caller's oldest nudges. Needs the lock only to create a user directory.
    fn write_note(&self, name: &str, note: &impl Serialize) -> Result<(), ClaimError> {
        let bytes = serde_json::to_vec(note).expect("plain fields always fit JSON");
        let user_dir = match self.existing_user_dir()? {
            Some(user_dir) => user_dir,
            None => self.own_user_dir(&self.lock()?)?,
        };
        let fail = |source| self.cannot_write(source);
        let mut old = entries(&user_dir, NUDGE, &mut Allowance::default()).map_err(fail)?;
        old.sort_by_key(|entry| std::cmp::Reverse(entry.changed));
        for entry in old.iter().skip(MOST_NUDGES - 1) {
            let _ = user_dir.remove(&entry.name);
        }
        user_dir.write(name, &bytes).map_err(fail)
    }

    /// Reads the notes of a kind of all users. Files that are no notes are ignored.
    fn notes<T>(
        &self,
        prefix: &str,
        read: impl Fn(&Entry) -> Option<T>,
    ) -> Result<Vec<T>, ClaimError> {
        let mut found = Vec::new();
        let mut allowance = Allowance::default();
        self.visit_user_dirs(None, &mut Vec::new(), |user_dir, _| {
            let entries = entries(&user_dir, prefix, &mut allowance)
                .map_err(|source| self.cannot_read(source))?;
            found.extend(entries.iter().filter_map(&read));
            Ok(ControlFlow::<()>::Continue(()))
        })?;
        Ok(found)
    }
}

fn entries(
    user_dir: &UserDir,
    prefix: &str,
    allowance: &mut Allowance,
) -> Result<Vec<Entry>, rustix::io::Errno> {
    let mut found = Vec::new();
    let mut problems = Vec::new();
    for name in user_dir.names(prefix, allowance, &mut problems)? {
        if let Some(Ok(entry)) = user_dir.read(&name)?
            && allowance.read(user_dir.person, &entry, &mut problems)
        {
            found.push(entry);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn uuid(name: &str) -> GpuUuid {
        name.parse().unwrap()
    }

    /// The time of a file that is written now, without the fraction that a file's time does not have here.
    fn now(folder: &Path) -> Timestamp {
        let file = folder.join("now");
        fs::write(&file, "").unwrap();
        let facts = fs::metadata(&file).unwrap();
        Timestamp::from_second(std::os::unix::fs::MetadataExt::ctime(&facts)).unwrap()
    }

    fn hours(hours: i64) -> SignedDuration {
        SignedDuration::from_hours(hours)
    }

    #[test]
    fn a_keep_covers_its_gpus_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let dir = ClaimDir::open(folder.path()).unwrap();
        let now = now(folder.path());
        let [a, b] = [uuid("GPU-a"), uuid("GPU-b")];
        assert_eq!(dir.keeps(now).unwrap(), []);
        dir.keep(&[a.clone(), b.clone()], now + hours(2), "evaluation")
            .unwrap();
        let keeps = dir.keeps(now).unwrap();
        assert_eq!(keeps.len(), 1);
        assert_eq!(keeps[0].until, now + hours(2));
        assert_eq!(keeps[0].why, "evaluation");
        assert!(keeps[0].covers(Some(dir.me()), &a));
        assert!(!keeps[0].covers(Some(Uid(dir.me().0 + 1)), &a));
        assert!(!keeps[0].covers(None, &a));
        assert_eq!(dir.keeps(now + hours(2)).unwrap(), []);
        // A new keep replaces the earlier one.
        dir.keep(std::slice::from_ref(&a), now + hours(5), "more")
            .unwrap();
        let keeps = dir.keeps(now).unwrap();
        assert_eq!(keeps.len(), 1);
        assert_eq!(keeps[0].until, now + hours(5));
        assert!(!keeps[0].covers(Some(dir.me()), &b));
        assert!(dir.unkeep().unwrap());
        assert!(!dir.unkeep().unwrap());
        assert_eq!(dir.keeps(now).unwrap(), []);
    }

    #[test]
    fn a_forged_keep_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let dir = ClaimDir::open(folder.path()).unwrap();
        let now = now(folder.path());
        dir.keep(&[uuid("GPU-a")], now + hours(24 * 8), "long")
            .unwrap();
        assert_eq!(dir.keeps(now).unwrap(), [], "longer than allowed");
        let user_dir = dir.existing_user_dir().unwrap().unwrap();
        user_dir.write("keep-1", b"no note").unwrap();
        user_dir.write("nudge-1", b"{}").unwrap();
        assert_eq!(dir.keeps(now).unwrap(), []);
        assert_eq!(dir.nudges(now).unwrap(), []);
        let why = "x".repeat(1000);
        dir.keep(&[uuid("GPU-a")], now + hours(1), &why).unwrap();
        assert_eq!(dir.keeps(now).unwrap()[0].why.len(), LONGEST_REASON);
    }

    #[test]
    fn a_nudge_is_of_the_last_day_and_not_of_oneself() {
        let folder = tempfile::tempdir().unwrap();
        let dir = ClaimDir::open(folder.path()).unwrap();
        let now = now(folder.path());
        dir.nudge(dir.me(), &[uuid("GPU-a")]).unwrap();
        assert_eq!(dir.nudges(now).unwrap(), []);
        let other = Uid(dir.me().0 + 1);
        dir.nudge(other, &[uuid("GPU-a")]).unwrap();
        let nudges = dir.nudges(now).unwrap();
        assert_eq!(
            (nudges.len(), nudges[0].to, nudges[0].owner),
            (1, other, dir.me())
        );
        assert_eq!(dir.nudges(now + hours(25)).unwrap(), []);
    }

    #[test]
    fn a_user_has_a_limited_number_of_nudges() {
        let folder = tempfile::tempdir().unwrap();
        let dir = ClaimDir::open(folder.path()).unwrap();
        for number in 0..100 {
            dir.nudge(Uid(70_000 + number), &[]).unwrap();
        }
        let nudges = dir.nudges(now(folder.path())).unwrap();
        assert_eq!(nudges.len(), MOST_NUDGES);
    }
}
