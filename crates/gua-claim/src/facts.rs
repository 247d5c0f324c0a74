//! What the caller has seen: the time, who is on which card, and how a process stands. Claims are judged by these alone.

use std::time::Duration;

use gua_model::{BootId, GpuUuid, ProcessKey, Uid};
use jiff::Timestamp;

/// One moment on both clocks. Deadlines are kept on the one that never jumps; the wall clock is for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub boot: BootId,
    /// Time since boot, suspend included.
    pub since_boot: Duration,
    pub wall: Timestamp,
}

/// One look at the host, taken before the lock so that a slow driver keeps nobody else waiting.
///
/// Deadlines are judged at the moment of the look and not later. So a claim whose process came onto its card after the
/// look is not taken for ended: at that moment its deadline had not passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    pub at: Moment,
    /// The cards that the asker would take if there were no claims, best first.
    pub free: Vec<GpuUuid>,
    /// How many cards the host has, so that nobody is kept waiting by one who wants more.
    pub cards: usize,
    /// The processes on the cards.
    pub on_cards: Vec<OnCard>,
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

/// The host's processes.
pub trait Processes {
    /// The namespace whose pids these are; `None` where the kernel does not tell.
    fn namespace(&self) -> Option<PidNamespace>;

    fn standing(&self, process: &ProcessKey) -> Standing;

    /// Whether `process` was started, directly or through others that still live, by `ancestor`.
    fn descends(&self, process: &ProcessKey, ancestor: &ProcessKey) -> bool;
}

/// Whether a process was written down in another pid namespace than ours: then nothing here can be asked about it, and a
/// process of the same pid is not it. What names no namespace is taken for one of ours.
pub(crate) fn is_elsewhere(written: Option<PidNamespace>, processes: &dyn Processes) -> bool {
    written.is_some() && written != processes.namespace()
}
