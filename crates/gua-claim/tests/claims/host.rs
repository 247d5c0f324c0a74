//! A fake host for the tests: a shared directory, a clock that the test sets, and scripted processes.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use gua_claim::{
    Answer, Claim, ClaimDir, Kernel, Life, Moment, Observed, Offer, OnGpu, PidNamespace, Request,
    Session, Short,
};
use gua_model::{BootId, GpuUuid, Pid, ProcessKey, StartTicks, Uid};
use jiff::Timestamp;

pub(crate) const BOOT: BootId = BootId(0x8b1f_e9c8);

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs `work` as another user, whose access file modes restrict, unlike root's. Requires root.
pub(crate) fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|threads| {
        let other = threads.spawn(|| {
            let uid = rustix::process::Uid::from_raw(uid);
            // Changes this thread only.
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

/// A process whose start time equals its pid, so that a reused pid can be detected.
pub(crate) fn process(pid: u32) -> ProcessKey {
    ProcessKey {
        boot: BOOT,
        pid: Pid(pid),
        start: StartTicks(u64::from(pid)),
    }
}

pub(crate) struct FakeHost {
    folder: tempfile::TempDir,
    pub(crate) dir: ClaimDir,
    pub(crate) observed: Observed,
    pub(crate) kernel: FakeKernel,
}

pub(crate) struct FakeKernel {
    pub(crate) now: Moment,
    pub(crate) ended: HashSet<u32>,
    pub(crate) stopped: HashSet<u32>,
    /// Pids whose process cannot be seen.
    pub(crate) hidden: HashSet<u32>,
    /// Users of processes; the others belong to `me`.
    pub(crate) users: HashMap<u32, Uid>,
    pub(crate) me: Uid,
    /// Pids whose process has another start time than [`process`] gives.
    pub(crate) reused: HashMap<u32, u64>,
    /// Pairs of child and ancestor.
    pub(crate) descends: HashSet<(u32, u32)>,
    pub(crate) namespace: Option<PidNamespace>,
    pub(crate) sessions: HashMap<u32, Session>,
}

impl Kernel for FakeKernel {
    fn now(&self) -> Moment {
        self.now
    }

    fn session(&self, process: &ProcessKey) -> Option<Session> {
        self.sessions.get(&process.pid.0).copied()
    }

    fn namespace(&self) -> Option<PidNamespace> {
        self.namespace
    }

    fn standing(&self, process: &ProcessKey) -> Life {
        let pid = process.pid.0;
        if self.ended.contains(&pid)
            || self
                .reused
                .get(&pid)
                .is_some_and(|start| *start != process.start.0)
        {
            Life::Ended
        } else if self.hidden.contains(&pid) {
            Life::Unknown
        } else if self.stopped.contains(&pid) {
            Life::Stopped
        } else {
            Life::Running
        }
    }

    fn user(&self, process: &ProcessKey) -> Option<Uid> {
        let pid = process.pid.0;
        let is_seen = !self.hidden.contains(&pid);
        is_seen.then(|| self.users.get(&pid).copied().unwrap_or(self.me))
    }

    fn descends(&self, process: &ProcessKey, ancestor: &ProcessKey) -> bool {
        self.descends.contains(&(process.pid.0, ancestor.pid.0))
    }
}

impl FakeHost {
    pub(crate) fn with_gpus(count: usize) -> Self {
        let folder = shared_folder();
        let dir = ClaimDir::open(folder.path()).unwrap();
        let now = Moment {
            boot: BOOT,
            since_boot: Duration::from_hours(1),
            wall: real_wall(),
        };
        let observed = Observed {
            at: now,
            free: gpus(0..count),
            acceptable: gpus(0..count),
            vacant: gpus(0..count),
            gpus: count,
            on_gpus: Vec::new(),
            unread: Vec::new(),
        };
        let kernel = FakeKernel {
            now,
            ended: HashSet::new(),
            stopped: HashSet::new(),
            hidden: HashSet::new(),
            users: HashMap::new(),
            me: dir.me(),
            reused: HashMap::new(),
            descends: HashSet::new(),
            namespace: None,
            sessions: HashMap::new(),
        };
        Self {
            folder,
            dir,
            observed,
            kernel,
        }
    }

    /// From now on, observations show these GPUs vacant; those that the request selects are free for it.
    pub(crate) fn shows_vacant(&mut self, numbers: impl IntoIterator<Item = usize>) {
        self.observed.vacant = gpus(numbers);
        let observed = &mut self.observed;
        observed.free = observed.acceptable.clone();
        observed.free.retain(|gpu| observed.vacant.contains(gpu));
    }

    /// From now on, requests select only these GPUs.
    pub(crate) fn asks_for(&mut self, numbers: impl IntoIterator<Item = usize>) {
        self.observed.acceptable = gpus(numbers);
        let vacant = self.observed.vacant.clone();
        self.observed.free = self.observed.acceptable.clone();
        self.observed.free.retain(|gpu| vacant.contains(gpu));
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// The only user directory.
    pub(crate) fn user_dir(&self) -> PathBuf {
        let mut entries = std::fs::read_dir(self.folder.path()).unwrap();
        entries.next().unwrap().unwrap().path()
    }

    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.user_dir()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn later(&mut self, time: Duration) {
        self.kernel.now.since_boot += time;
        self.kernel.now.wall += time;
        self.observed.at = self.kernel.now;
    }

    pub(crate) fn comes_onto(&mut self, number: usize, pid: u32, user: Uid) {
        self.observed.on_gpus.push(OnGpu {
            gpu: gpu(number),
            process: process(pid),
            user: Some(user),
        });
    }

    pub(crate) fn take(&self, pid: u32, count: usize) -> Answer {
        let request = request(pid, count);
        self.dir
            .take(&request, &self.observed, &self.kernel)
            .unwrap()
    }

    /// Confirms an offer with the current observation and hands the claim over.
    pub(crate) fn finish(&self, offer: Offer) -> Claim {
        let grant = offer.confirm(&self.dir, &self.observed, &self.kernel);
        let grant = grant.expect("the GPUs are still free");
        grant.hand_over(&self.dir, &self.kernel).unwrap()
    }

    pub(crate) fn granted(&self, pid: u32, count: usize) -> Claim {
        match self.take(pid, count) {
            Answer::Offered(offer) => self.finish(offer),
            other => panic!("refused: {other:?}"),
        }
    }

    pub(crate) fn refused(&self, pid: u32, count: usize) -> Short {
        match self.take(pid, count) {
            Answer::Short(short) => short,
            other => panic!("not refused: {other:?}"),
        }
    }

    /// GPUs that are claimed now, in order.
    pub(crate) fn claimed(&self) -> Vec<GpuUuid> {
        let survey = self.dir.survey(&self.observed, &self.kernel).unwrap();
        let mut claimed: Vec<_> = survey.claimed().into_iter().collect();
        claimed.sort();
        claimed
    }
}

/// A request for ten minutes.
pub(crate) fn request(pid: u32, count: usize) -> Request {
    Request {
        at_least: count,
        at_most: count,
        lease: Duration::from_mins(10),
        for_process: process(pid),
        requester: process(pid),
    }
}

/// A directory with the modes of `/run/lock` if the tests run as root; otherwise a private one.
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
