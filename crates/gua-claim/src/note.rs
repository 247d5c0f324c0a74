//! Notes of users about held GPUs: a *keep* says that a person still needs idle GPUs, and a *nudge* asks a person whether they
//! do. Notes are files in user directories like claims, so that the owner of the file is the author. They give no right to a
//! GPU.
//!
//! Every user can write any file to their directory, so the rules are applied where notes are read. The age of a note is that of its
//! file, which only the kernel sets. A keep cannot be longer than [`MAX_LEASE`], and each user has one: files with
//! other names than the one that this module writes are ignored. A person has at most one nudge a day.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use gua_model::claim::MAX_REASON_LENGTH;
use gua_model::{GpuUuid, Uid};
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ask::{MAX_GPUS, MAX_LEASE};
use crate::directory::ClaimDir;
use crate::error::ClaimError;
use crate::user_dir::{Allowance, Entry, random_word};

/// Name of the keep of a user.
const KEEP: &str = "keep-own";
const NUDGE: &str = "nudge-";
const VERSION: u32 = 1;
/// Maximum number of nudges of a user.
const MAX_NUDGES: usize = 64;
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
    pub fn covers(&self, owner: Option<Uid>, gpu: &GpuUuid) -> bool {
        Some(self.owner) == owner && self.gpus.contains(gpu)
    }

    fn from_entry(entry: &Entry, now: Timestamp) -> Option<Self> {
        let written: WrittenKeep = parsed(entry)?;
        if entry.name != KEEP || written.version != VERSION {
            return None;
        }
        let longest = SignedDuration::try_from(MAX_LEASE).ok()? + SLACK;
        let is_live = written.until > now
            && written.until.duration_since(entry.changed) <= longest
            && written.gpus.len() <= MAX_GPUS;
        is_live.then(|| Self {
            owner: entry.owner,
            gpus: written.gpus,
            made: entry.changed,
            until: written.until,
            why: written.why.chars().take(MAX_REASON_LENGTH).collect(),
        })
    }
}

impl Nudge {
    fn from_entry(entry: &Entry) -> Option<Self> {
        let written: WrittenNudge = parsed(entry)?;
        let is_valid = written.version == VERSION && written.gpus.len() <= MAX_GPUS;
        is_valid.then_some(Self {
            owner: entry.owner,
            to: Uid(written.to),
            gpus: written.gpus,
            made: entry.changed,
        })
    }

    /// Whether it was made in the last day.
    fn is_recent(&self, now: Timestamp) -> bool {
        let age = now.duration_since(self.made);
        age >= -SLACK && age.unsigned_abs() < NUDGE_AGE
    }
}

fn parsed<T: DeserializeOwned>(entry: &Entry) -> Option<T> {
    serde_json::from_slice(&entry.bytes).ok()
}

impl ClaimDir {
    /// Returns the keeps that have not ended.
    pub fn keeps(&self, now: Timestamp) -> Result<Vec<Keep>, ClaimError> {
        let mut keeps = self.notes(KEEP, |entry| Keep::from_entry(entry, now))?;
        // A user can have made several directories. The latest keep counts.
        keeps.sort_by_key(|keep| (keep.owner, Reverse(keep.made)));
        keeps.dedup_by_key(|keep| keep.owner);
        Ok(keeps)
    }

    /// Returns the nudges of the last day, the latest first. A nudge less than a day after another one of the same person does not
    /// count.
    pub fn nudges(&self, now: Timestamp) -> Result<Vec<Nudge>, ClaimError> {
        let mut nudges = self.notes(NUDGE, Nudge::from_entry)?;
        // Nobody can take the turn of others by nudging themselves, also not from a container.
        nudges.retain(|nudge| self.person(nudge.owner) != self.person(nudge.to));
        nudges.retain(|nudge| nudge.made <= now.saturating_add(SLACK).unwrap_or(now));
        nudges.sort_by_key(|nudge| (nudge.made, nudge.owner));
        let mut last: BTreeMap<Uid, Timestamp> = BTreeMap::new();
        nudges.retain(|nudge| {
            let person = self.person(nudge.to);
            let earlier = last.get(&person);
            let counts = earlier.is_none_or(|earlier| {
                nudge.made.duration_since(*earlier).unsigned_abs() >= NUDGE_AGE
            });
            if counts {
                last.insert(person, nudge.made);
            }
            counts
        });
        nudges.retain(|nudge| nudge.is_recent(now));
        nudges.reverse();
        Ok(nudges)
    }

    /// Records that the caller keeps GPUs, in place of an earlier keep.
    pub fn keep(&self, gpus: &[GpuUuid], until: Timestamp, why: &str) -> Result<(), ClaimError> {
        let written = WrittenKeep {
            version: VERSION,
            gpus: gpus.to_vec(),
            until,
            why: why.chars().take(MAX_REASON_LENGTH).collect(),
        };
        self.write_note(KEEP, &written)
    }

    /// Ends the keep of the caller. Returns whether there was one.
    pub fn unkeep(&self) -> Result<bool, ClaimError> {
        let Some(user_dir) = self.existing_user_dir()? else {
            return Ok(false);
        };
        match user_dir.remove(KEEP) {
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

    /// Writes a note, and removes the caller's oldest nudges.
    fn write_note(&self, name: &str, note: &impl Serialize) -> Result<(), ClaimError> {
        let bytes = serde_json::to_vec(note).expect("plain fields always fit JSON");
        let user_dir = self.user_dir_to_write()?;
        let fail = |source| self.cannot_write(source);
        let old = user_dir.entries(NUDGE, &mut Allowance::default());
        let mut old = old.map_err(fail)?;
        old.sort_by_key(|entry| Reverse(entry.changed));
        for entry in old.iter().skip(MAX_NUDGES - 1) {
            let _ = user_dir.remove(&entry.name);
        }
        user_dir.write(name, &bytes).map_err(fail)
    }

    /// Reads the notes of a kind of all users. Files that are no notes are ignored.
    fn notes<T>(
        &self,
        prefix: &'static str,
        read: impl Fn(&Entry) -> Option<T>,
    ) -> Result<Vec<T>, ClaimError> {
        let mut found = Vec::new();
        let mut allowance = Allowance::default();
        for user_dir in self.user_dirs(None, &mut Vec::new())? {
            let entries = user_dir?.entries(prefix, &mut allowance);
            let entries = entries.map_err(|source| self.cannot_read(source))?;
            found.extend(entries.iter().filter_map(&read));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use gua_model::subuid::SubUids;

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
        user_dir.write("keep-own", b"no note").unwrap();
        user_dir.write("nudge-1", b"{}").unwrap();
        assert_eq!(dir.keeps(now).unwrap(), []);
        let until = now + hours(1);
        let keep = |version: u32| {
            let why = "eval";
            format!(r#"{{"version":{version},"gpus":["GPU-a"],"until":"{until}","why":"{why}"}}"#)
        };
        // Names that the program does not write, and another version.
        for name in ["keep-1", "keep-own2"] {
            user_dir.write(name, keep(1).as_bytes()).unwrap();
        }
        user_dir.write("keep-own", keep(2).as_bytes()).unwrap();
        let nudge = br#"{"version":2,"to":70000,"gpus":[]}"#;
        user_dir.write("nudge-2", nudge).unwrap();
        assert_eq!(dir.keeps(now).unwrap(), []);
        assert_eq!(dir.nudges(now).unwrap(), []);
        let why = "x".repeat(1000);
        dir.keep(&[uuid("GPU-a")], now + hours(1), &why).unwrap();
        assert_eq!(dir.keeps(now).unwrap()[0].why.len(), MAX_REASON_LENGTH);
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
    fn a_second_directory_of_a_user_gives_no_second_keep() {
        let folder = tempfile::tempdir().unwrap();
        let dir = ClaimDir::open(folder.path()).unwrap();
        let now = now(folder.path());
        dir.keep(&[uuid("GPU-a")], now + hours(1), "first").unwrap();
        let own = dir.existing_user_dir().unwrap().unwrap().name;
        let second = folder.path().join("gua-claims-second");
        fs::create_dir(&second).unwrap();
        fs::copy(
            folder.path().join(own).join("keep-own"),
            second.join("keep-own"),
        )
        .unwrap();
        assert_eq!(dir.keeps(now).unwrap().len(), 1);
    }

    #[test]
    fn a_person_has_one_nudge_a_day_also_through_containers() {
        let folder = tempfile::tempdir().unwrap();
        let dir = ClaimDir::open(folder.path()).unwrap();
        let (now, me) = (now(folder.path()), dir.me().0);
        let ranges = format!("{me}:500000:10\n70000:600000:10\n");
        let dir = dir.with_subuids(SubUids::parse(&ranges, |_| None));
        dir.nudge(Uid(500_001), &[]).unwrap();
        assert_eq!(dir.nudges(now).unwrap(), [], "of oneself in a container");
        for to in [70_000, 70_000, 600_003, 80_000] {
            dir.nudge(Uid(to), &[]).unwrap();
        }
        let people = || {
            let nudges = dir.nudges(now).unwrap().into_iter();
            let mut people: Vec<u32> = nudges.map(|nudge| dir.person(nudge.to).0).collect();
            people.sort_unstable();
            people
        };
        assert_eq!(people(), [70_000, 80_000]);
    }

    #[test]
    fn a_user_has_a_limited_number_of_nudges() {
        let folder = tempfile::tempdir().unwrap();
        let dir = ClaimDir::open(folder.path()).unwrap();
        for number in 0..100 {
            dir.nudge(Uid(70_000 + number), &[]).unwrap();
        }
        let nudges = dir.nudges(now(folder.path())).unwrap();
        assert_eq!(nudges.len(), MAX_NUDGES);
    }
}
