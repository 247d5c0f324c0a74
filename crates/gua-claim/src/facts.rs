//! Facts that the caller provides: the GPUs in a sample, and the kernel's answers. Claims are judged by these alone.

use std::time::Duration;

pub use gua_model::id::Life;
use gua_model::pick::is_vacant;
use gua_model::{
    BootId, CountGraphics, Gpu, GpuUuid, Process, ProcessKey, Sample, Thresholds, Uid,
};
use jiff::Timestamp;

/// One moment on both clocks. Deadlines and order use the time since boot; the wall clock is for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub boot: BootId,
    /// Time since boot, suspend included.
    pub since_boot: Duration,
    pub wall: Timestamp,
}

/// State of the GPUs in one sample. It is taken without the lock, so that a slow driver delays no other process; a second
/// sample finds changes between the first one and the lock ([`crate::Offer::confirm`]).
///
/// Deadlines are compared with the time of the sample and not with a later one. A claim whose process started to use its
/// GPU after the sample does not count as ended, because its deadline had not passed at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    pub at: Moment,
    /// GPUs that the requester would take if there were no claims, best first.
    pub free: Vec<GpuUuid>,
    /// All GPUs that the requester would take once they are free, best first; includes those of `free`.
    pub acceptable: Vec<GpuUuid>,
    /// GPUs without processes, whether or not they match the request.
    pub vacant: Vec<GpuUuid>,
    /// Number of GPUs of the host: a waiter that wants more does not block others.
    pub gpus: usize,
    /// Processes that compute on the GPUs.
    pub on_gpus: Vec<OnGpu>,
    /// GPUs whose processes could not be read: no process is known to have left them.
    pub unread: Vec<GpuUuid>,
}

impl Observed {
    /// Returns the facts of a sample. The caller adds the GPUs that its request matches.
    pub fn new(sample: &Sample, boot: BootId, thresholds: &Thresholds) -> Self {
        // A desktop that draws on a GPU neither holds it nor keeps a claim on it.
        let draws_count = thresholds.count_graphics == CountGraphics::Yes;
        let counts = move |process: &&Process| draws_count || process.kind.computes();
        let on_gpus = sample.gpus.iter().flat_map(|gpu| {
            gpu.processes.iter().filter(counts).filter_map(|process| {
                let identity = process.identity.as_ref().ok()?;
                Some(OnGpu {
                    gpu: gpu.uuid.clone(),
                    process: identity.key,
                    user: identity.own.as_ref().ok().map(|user| user.uid),
                })
            })
        });
        let of = |which: &dyn Fn(&Gpu) -> bool| {
            let gpus = sample.gpus.iter().filter(|gpu| which(gpu));
            gpus.map(|gpu| gpu.uuid.clone()).collect()
        };
        let at = Moment {
            boot,
            since_boot: sample.since_boot,
            wall: sample.at,
        };
        Self {
            vacant: of(&|gpu| is_vacant(gpu, thresholds)),
            gpus: sample.gpus.iter().filter(|gpu| gpu.place.counts()).count(),
            on_gpus: on_gpus.collect(),
            unread: of(&|gpu| gpu.compute_list.is_err()),
            ..Self::blind(at)
        }
    }

    /// Returns the facts for a driver that did not answer: no process is seen on any GPU.
    pub fn blind(at: Moment) -> Self {
        Self {
            at,
            free: Vec::new(),
            acceptable: Vec::new(),
            vacant: Vec::new(),
            gpus: 0,
            on_gpus: Vec::new(),
            unread: Vec::new(),
        }
    }
}

/// A process on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnGpu {
    pub gpu: GpuUuid,
    pub process: ProcessKey,
    /// User that it runs as, if visible.
    pub user: Option<Uid>,
}

/// A pid namespace, by the inode of `/proc/self/ns/pid`. The same pid is another process in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PidNamespace(pub u64);

/// A session (`setsid(2)`), by its number. A process keeps it when its parent ends, and the kernel does not reuse the
/// number while the session has a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session(pub u32);

/// The kernel's answers at the moment of the call.
pub trait Kernel {
    /// Read again after each wait for the lock.
    fn now(&self) -> Moment;

    /// PID namespace of this process; `None` if unknown.
    fn namespace(&self) -> Option<PidNamespace>;

    fn standing(&self, process: &ProcessKey) -> Life;

    /// Effective user of a process; `None` if it has ended or is not visible.
    fn user(&self, process: &ProcessKey) -> Option<Uid>;

    /// Whether `process` was started, directly or through others that still live, by `ancestor`.
    fn descends(&self, process: &ProcessKey, ancestor: &ProcessKey) -> bool;

    /// Session of a process; `None` if it has ended, is not visible, or the session belongs to another namespace.
    fn session(&self, process: &ProcessKey) -> Option<Session>;
}

/// Whether a process was recorded in another pid namespace than ours: then it cannot be checked here, and a process with the
/// same pid is another one. A missing namespace counts as ours.
pub(crate) fn is_elsewhere(written: Option<PidNamespace>, kernel: &dyn Kernel) -> bool {
    written.is_some() && written != kernel.namespace()
}
