//! What the caller has seen: the cards at a look, and what the kernel says now. Claims are judged by these alone.

use std::time::Duration;

use gua_model::{BootId, GpuUuid, ProcessKey, Uid};
use jiff::Timestamp;

/// One moment on both clocks. Deadlines and order are kept on the one that never jumps; the wall clock is for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub boot: BootId,
    /// Time since boot, suspend included.
    pub since_boot: Duration,
    pub wall: Timestamp,
}

/// One look at the cards. It is taken without the lock, so that a slow driver keeps nobody else waiting; what has changed
/// between a look and the lock is found by a second look ([`crate::Offer::confirm`]).
///
/// Deadlines are judged at the moment of the look and not later. So a claim whose process came onto its card after the
/// look is not taken for ended: at that moment its deadline had not passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    pub at: Moment,
    /// The cards that the asker would take if there were no claims, best first.
    pub free: Vec<GpuUuid>,
    /// Every card that the asker would take once it is free, best first; those of `free` are among them.
    pub acceptable: Vec<GpuUuid>,
    /// The cards on which nobody is, whatever the asker wants.
    pub vacant: Vec<GpuUuid>,
    /// How many cards the host has, so that nobody is kept waiting by one who wants more.
    pub cards: usize,
    /// The processes that compute on the cards.
    pub on_cards: Vec<OnCard>,
    /// The cards whose processes could not be read. Nothing is said to have left them.
    pub unread: Vec<GpuUuid>,
}

/// A process that is on a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnCard {
    pub gpu: GpuUuid,
    pub process: ProcessKey,
    /// The user that it runs as, where that can be seen.
    pub user: Option<Uid>,
}

/// How a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Running,
    /// Stopped by a signal, as by Ctrl-Z.
    Stopped,
    /// Gone, a zombie, or its pid belongs to a later process.
    Ended,
    /// It cannot be seen from here (another pid namespace, `hidepid`). Counts as running until a deadline says otherwise.
    Unknown,
}

/// A pid namespace, by the inode of `/proc/self/ns/pid`. The same pid is another process in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PidNamespace(pub u64);

/// A session (`setsid(2)`), by its number. A process keeps it when its parent ends, and the kernel gives the number to no
/// other process while somebody is in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session(pub u32);

/// What the kernel says at the moment of asking.
pub trait Kernel {
    /// Asked anew after each wait for the lock.
    fn now(&self) -> Moment;

    /// The namespace whose pids these are; `None` where the kernel does not tell.
    fn namespace(&self) -> Option<PidNamespace>;

    fn standing(&self, process: &ProcessKey) -> Standing;

    /// Whether `process` was started, directly or through others that still live, by `ancestor`.
    fn descends(&self, process: &ProcessKey, ancestor: &ProcessKey) -> bool;

    /// The session of a process; `None` where it has ended, cannot be seen, or the session is another namespace's.
    fn session(&self, process: &ProcessKey) -> Option<Session>;
}

/// Whether a process was written down in another pid namespace than ours: then nothing here can be asked about it, and a
/// process of the same pid is not it. What names no namespace is taken for one of ours.
pub(crate) fn is_elsewhere(written: Option<PidNamespace>, kernel: &dyn Kernel) -> bool {
    written.is_some() && written != kernel.namespace()
}
