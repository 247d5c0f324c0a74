//! A process with all its descendants: who belongs to it, and the resources that all of them have used.
//!
//! Membership follows parents. A process whose parent has ended is given to another; if that is the keeper (the child
//! subreaper, prctl(2) under `PR_SET_CHILD_SUBREAPER`), it is still recognised. A process that was once a member stays
//! one until it ends. Of other processes only the pids are remembered.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::time::Duration;

use gua_model::id::{Pid, StartTicks};
use gua_model::reading::{Missing, Reading};
use gua_model::unit::Bytes;

use super::ProcRoot;
use super::parse::{self, Stat};
use crate::host::time::of_ticks;

/// Number of reads after which other processes are checked again: their pids may have been reused.
const RECHECK: u32 = 60;

/// A process and its descendants.
#[derive(Debug)]
pub struct Family {
    root: ProcRoot,
    keeper: Pid,
    members: BTreeMap<Pid, Member>,
    /// Children of the keeper that are not members.
    excluded: BTreeSet<Pid>,
    strangers: HashSet<Pid>,
    scans: u32,
    /// Resources of members that the keeper has reaped.
    reaped: Spent,
    most: Spent,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    start: StartTicks,
    spent: Spent,
}

/// Resources that only grow.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    ticks: u64,
    read: u64,
    written: u64,
}

/// Resources of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyUse {
    /// Number of processes that have not ended.
    pub processes: u32,
    pub threads: u64,
    /// CPU time so far.
    pub processor: Duration,
    /// Resident memory. Shared memory counts for each process.
    pub resident: Bytes,
    /// Bytes read from and written to storage so far; `Denied` if no member may be read.
    pub storage: Reading<Storage>,
    /// Processes that were given to the keeper and have ended, for the keeper to reap.
    pub ended: Vec<Pid>,
}

/// Bytes to and from storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    pub read: Bytes,
    pub written: Bytes,
}

impl Family {
    /// Creates the family of `top`, a child of `keeper`.
    pub fn new(root: ProcRoot, top: Pid, keeper: Pid) -> Self {
        let mut family = Self {
            root,
            keeper,
            members: BTreeMap::new(),
            excluded: BTreeSet::new(),
            strangers: HashSet::new(),
            scans: 0,
            reaped: Spent::default(),
            most: Spent::default(),
        };
        if let Ok((_, seen)) = family.root.stat(top) {
            family.join(top, &seen);
        }
        family
    }

    /// Excludes a child of the keeper.
    pub fn exclude(&mut self, pid: Pid) {
        self.excluded.insert(pid);
    }

    /// Reports whether the process was a member at the last read.
    pub fn has(&self, pid: Pid) -> bool {
        self.members.contains_key(&pid)
    }

    /// Finds new members and reads the resources of all.
    pub fn measure(&mut self) -> FamilyUse {
        self.find_new();
        self.measure_known()
    }

    /// Reads the resources of the known members only. It does not scan the host's other processes, which is expensive
    /// where there are many.
    pub fn measure_known(&mut self) -> FamilyUse {
        let mut found = FamilyUse {
            processes: 0,
            threads: 0,
            processor: Duration::ZERO,
            resident: Bytes(0),
            storage: Err(Missing::Denied),
            ended: Vec::new(),
        };
        let (mut sum, mut has_storage) = (self.reaped, false);
        self.members.retain(|pid, member| {
            let seen = self.root.stat(*pid).ok();
            let seen = seen.filter(|(_, seen)| seen.start == member.start.0);
            let Some((_, seen)) = seen else {
                return false;
            };
            let io = self.root.read(*pid, "io").ok();
            let storage = io.and_then(|text| parse::storage(&text));
            has_storage |= storage.is_some();
            let (read, written) = storage.unwrap_or_default();
            let now = Spent {
                ticks: seen.ticks,
                read,
                written,
            };
            member.spent = member.spent.with(now, u64::max);
            sum = sum.with(member.spent, u64::saturating_add);
            if !seen.has_ended() {
                found.processes += 1;
                found.threads = found.threads.saturating_add(seen.threads);
                found.resident += seen.resident();
            } else if seen.parent == self.keeper.0 {
                found.ended.push(*pid);
            }
            true
        });
        // The kernel drops the resources of a child whose parent ignores its end.
        self.most = self.most.with(sum, u64::max);
        found.processor = of_ticks(self.most.ticks);
        if has_storage || self.most.read > 0 || self.most.written > 0 {
            found.storage = Ok(Storage {
                read: Bytes(self.most.read),
                written: Bytes(self.most.written),
            });
        }
        found
    }

    /// Keeps the resources of a member that the keeper has reaped.
    pub fn reap(&mut self, pid: Pid) {
        if let Some(member) = self.members.remove(&pid) {
            self.reaped = self.reaped.with(member.spent, u64::saturating_add);
        }
    }

    fn find_new(&mut self) {
        self.scans = self.scans.wrapping_add(1);
        let Ok(entries) = fs::read_dir(&self.root.0) else {
            return;
        };
        let pid = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok().map(Pid);
        let present: HashSet<Pid> = entries.flatten().filter_map(pid).collect();
        if self.scans.is_multiple_of(RECHECK) {
            self.strangers.clear();
        } else {
            self.strangers.retain(|pid| present.contains(pid));
        }
        self.excluded.retain(|pid| present.contains(pid));
        let mut new: HashMap<Pid, Stat> = HashMap::new();
        for pid in present {
            let is_known = self.members.contains_key(&pid)
                || self.strangers.contains(&pid)
                || self.excluded.contains(&pid);
            if !is_known && let Ok((_, seen)) = self.root.stat(pid) {
                new.insert(pid, seen);
            }
        }
        // Parents can come after their children.
        loop {
            let is_ours = |_: &Pid, seen: &mut Stat| {
                let parent = Pid(seen.parent);
                let member = self.members.get(&parent);
                member.is_some_and(|member| member.start.0 <= seen.start) || parent == self.keeper
            };
            let ours: Vec<(Pid, Stat)> = new.extract_if(is_ours).collect();
            if ours.is_empty() {
                break;
            }
            for (pid, seen) in ours {
                self.join(pid, &seen);
            }
        }
        self.strangers.extend(new.into_keys());
    }

    fn join(&mut self, pid: Pid, seen: &Stat) {
        let member = Member {
            start: StartTicks(seen.start),
            spent: Spent::default(),
        };
        self.members.insert(pid, member);
    }
}

impl Spent {
    fn with(self, other: Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            ticks: combine(self.ticks, other.ticks),
            read: combine(self.read, other.read),
            written: combine(self.written, other.written),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the files of some processes: pid, state, parent, start, ticks, pages.
    struct Processes(tempfile::TempDir);

    impl Processes {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn set(&self, pid: u32, state: char, parent: u32, start: u64, ticks: u64) {
            let place = self.0.path().join(pid.to_string());
            fs::create_dir_all(&place).unwrap();
            let line = format!(
                "{pid} (a) b) {state} {parent} 0 0 0 0 0 0 0 0 0 {ticks} 1 0 0 20 0 1 0 {start} 0 10 0\n"
            );
            fs::write(place.join("stat"), line).unwrap();
            let io = format!("rchar: 9\nread_bytes: {ticks}\nwrite_bytes: 7\n");
            fs::write(place.join("io"), io).unwrap();
        }

        fn end(&self, pid: u32) {
            fs::remove_dir_all(self.0.path().join(pid.to_string())).unwrap();
        }

        fn family(&self, top: u32, keeper: u32) -> Family {
            Family::new(ProcRoot(self.0.path().to_owned()), Pid(top), Pid(keeper))
        }
    }

    fn members(family: &Family) -> Vec<u32> {
        family.members.keys().map(|pid| pid.0).collect()
    }

    #[test]
    fn children_orphans_and_their_children_belong_to_it_and_strangers_do_not() {
        let host = Processes::new();
        host.set(50, 'S', 1, 10, 0);
        host.set(100, 'S', 50, 100, 10);
        host.set(60, 'S', 50, 100, 0);
        host.set(70, 'S', 1, 5, 0);
        let mut family = host.family(100, 50);
        family.exclude(Pid(60));
        // The grandchild has the lower pid: pids have wrapped around.
        host.set(90, 'S', 101, 130, 1);
        host.set(101, 'S', 100, 120, 1);
        host.set(71, 'S', 70, 120, 1);
        let found = family.measure();
        assert_eq!(members(&family), [90, 100, 101]);
        assert_eq!((found.processes, found.threads), (3, 3));
        // The parent ends, and its child goes to the keeper or to init.
        host.end(101);
        host.set(90, 'S', 1, 130, 1);
        host.set(110, 'S', 50, 140, 1);
        family.measure();
        assert_eq!(members(&family), [90, 100, 110]);
        // Another process has its pid now.
        host.set(90, 'S', 1, 150, 1);
        family.measure();
        assert_eq!(members(&family), [100, 110]);
    }

    #[test]
    fn what_was_used_never_shrinks_though_processes_end() {
        let host = Processes::new();
        host.set(100, 'S', 50, 100, 199);
        host.set(101, 'Z', 50, 100, 299);
        let mut family = host.family(100, 50);
        let found = family.measure();
        assert_eq!(found.processor, Duration::from_secs(5));
        assert_eq!(found.ended, [Pid(101)]);
        assert_eq!(found.processes, 1);
        let storage = Storage {
            read: Bytes(498),
            written: Bytes(14),
        };
        assert_eq!(found.storage, Ok(storage));
        family.reap(Pid(101));
        host.end(101);
        let found = family.measure();
        assert_eq!(found.processor, Duration::from_secs(5));
        assert_eq!(found.storage, Ok(storage));
        host.end(100);
        let found = family.measure();
        assert_eq!(found.processor, Duration::from_secs(5));
        assert_eq!((found.processes, found.resident), (0, Bytes(0)));
    }

    #[test]
    fn this_process_is_a_family() {
        let top = Pid(std::process::id());
        let mut family = Family::new(
            ProcRoot::default(),
            top,
            Pid(std::os::unix::process::parent_id()),
        );
        let found = family.measure();
        assert!(family.has(top));
        assert!(found.resident > Bytes(0) && found.threads > 0, "{found:?}");
        assert!(found.storage.is_ok(), "{found:?}");
    }
}
