//! A made-up host for the tests: a shared directory, a clock that is set, processes that are as told.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use gua_claim::{
    Answer, Claim, ClaimDir, Look, Moment, OnCard, PidNamespace, Processes, Request, Short,
    Standing,
};
use gua_model::{BootId, GpuUuid, Pid, ProcessKey, StartTicks, Uid};
use jiff::Timestamp;

pub(crate) const BOOT: BootId = BootId(0x8b1f_e9c8);

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// For what only root can set up.
pub(crate) fn skipped_without_root(what: &str) -> bool {
    if !is_root() {
        eprintln!("SKIPPED, because the tests do not run as root: {what}");
    }
    !is_root()
}

/// Does something as another user, who is not above modes as root is. Only for root.
pub(crate) fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|threads| {
        let other = threads.spawn(|| {
            let uid = rustix::process::Uid::from_raw(uid);
            // Of this thread alone.
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            work()
        });
        other.join().unwrap()
    })
}

pub(crate) fn gpu(number: usize) -> GpuUuid {
    format!("GPU-{number}").parse().unwrap()
}

pub(crate) fn gpus(numbers: impl IntoIterator<Item = usize>) -> Vec<GpuUuid> {
    numbers.into_iter().map(gpu).collect()
}

/// A process that has its own pid as its start, so a reused pid can be told.
pub(crate) fn process(pid: u32) -> ProcessKey {
    ProcessKey {
        boot: BOOT,
        pid: Pid(pid),
        start: StartTicks(u64::from(pid)),
    }
}

pub(crate) struct Host {
    folder: tempfile::TempDir,
    pub(crate) dir: ClaimDir,
    pub(crate) look: Look,
    pub(crate) processes: FakeProcesses,
}

#[derive(Default)]
pub(crate) struct FakeProcesses {
    pub(crate) ended: HashSet<u32>,
    pub(crate) stopped: HashSet<u32>,
    /// Pids whose process started at another time than [`process`] says.
    pub(crate) reused: HashMap<u32, u64>,
    /// Child and ancestor.
    pub(crate) descends: HashSet<(u32, u32)>,
    pub(crate) namespace: Option<PidNamespace>,
}

impl Processes for FakeProcesses {
    fn namespace(&self) -> Option<PidNamespace> {
        self.namespace
    }

    fn standing(&self, process: &ProcessKey) -> Standing {
        let pid = process.pid.0;
        if self.ended.contains(&pid)
            || self
                .reused
                .get(&pid)
                .is_some_and(|start| *start != process.start.0)
        {
            Standing::Ended
        } else if self.stopped.contains(&pid) {
            Standing::Stopped
        } else {
            Standing::Running
        }
    }

    fn descends(&self, process: &ProcessKey, ancestor: &ProcessKey) -> bool {
        self.descends.contains(&(process.pid.0, ancestor.pid.0))
    }
}

impl Host {
    pub(crate) fn with_cards(cards: usize) -> Self {
        let folder = shared_folder();
        let dir = ClaimDir::open(folder.path()).unwrap();
        let look = Look {
            at: Moment {
                boot: BOOT,
                since_boot: Duration::from_hours(1),
                wall: real_wall(),
            },
            free: gpus(0..cards),
            cards,
            on_cards: Vec::new(),
        };
        Self {
            folder,
            dir,
            look,
            processes: FakeProcesses::default(),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// The one drawer that is there.
    pub(crate) fn drawer(&self) -> PathBuf {
        let mut entries = std::fs::read_dir(self.folder.path()).unwrap();
        entries.next().unwrap().unwrap().path()
    }

    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.drawer()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn later(&mut self, time: Duration) {
        self.look.at.since_boot += time;
        self.look.at.wall += time;
    }

    pub(crate) fn comes_onto(&mut self, card: usize, pid: u32, user: Uid) {
        self.look.on_cards.push(OnCard {
            gpu: gpu(card),
            process: process(pid),
            user: Some(user),
        });
    }

    pub(crate) fn take(&self, pid: u32, cards: usize) -> Answer {
        let request = request(pid, cards);
        self.dir
            .take(&request, &self.look, &self.processes)
            .unwrap()
    }

    pub(crate) fn granted(&self, pid: u32, cards: usize) -> Claim {
        match self.take(pid, cards) {
            Answer::Granted(claim) => claim,
            Answer::Short(short) => panic!("refused: {short:?}"),
        }
    }

    pub(crate) fn refused(&self, pid: u32, cards: usize) -> Short {
        match self.take(pid, cards) {
            Answer::Granted(claim) => panic!("granted: {claim:?}"),
            Answer::Short(short) => short,
        }
    }

    /// The cards that are claimed now, in order.
    pub(crate) fn claimed(&self) -> Vec<GpuUuid> {
        let survey = self.dir.survey(&self.look, &self.processes).unwrap();
        let mut cards: Vec<_> = survey.claimed().into_iter().collect();
        cards.sort();
        cards
    }
}

/// A lease of ten minutes.
pub(crate) fn request(pid: u32, cards: usize) -> Request {
    Request {
        at_least: cards,
        at_most: cards,
        lease: Duration::from_mins(10),
        holder: process(pid),
    }
}

/// As `/run/lock` is, where the tests are root; else a folder of one's own.
pub(crate) fn shared_folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new()
        .prefix("gua-claim-test-")
        .tempdir()
        .unwrap();
    if is_root() {
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o1777)).unwrap();
    }
    folder
}

pub(crate) fn real_wall() -> Timestamp {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    Timestamp::from_second(time.tv_sec).unwrap()
}
