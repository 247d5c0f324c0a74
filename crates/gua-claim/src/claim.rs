//! A claim (GPUs leased to a process until a deadline), its file format, and the rule that decides when it ends.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use gua_model::id::BadName;
use gua_model::{BootId, GpuUuid, Pid, ProcessKey, StartTicks, Uid};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ask::{MAX_GPUS, MAX_LEASE};
use crate::facts::{Kernel, Life, Observed, PidNamespace, Session, is_elsewhere};
use crate::user_dir::random_word;

pub(crate) const CLAIM: &str = "claim-";
const VERSION: u32 = 1;
/// Maximum age of a sample. A process that was stopped for longer must take a new one.
pub(crate) const MAX_SAMPLE_AGE: Duration = Duration::from_mins(1);

/// Identifier of a claim, for `release`: eight hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimId(String);

impl ClaimId {
    pub(crate) fn fresh() -> Self {
        Self(random_word())
    }

    pub(crate) fn file(&self) -> String {
        format!("{CLAIM}{}", self.0)
    }
}

impl FromStr for ClaimId {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 8 && text.bytes().all(digit) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadName)
        }
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// GPUs leased to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub id: ClaimId,
    /// Owner of the file, according to the kernel.
    pub owner: Uid,
    pub gpus: Vec<GpuUuid>,
    /// The claim ends with this process, unless a process that it started uses the GPU by then.
    pub for_process: ProcessKey,
    /// PID namespace of the pid.
    pub namespace: Option<PidNamespace>,
    /// Session of the process: it identifies descendants whose parents have ended.
    pub session: Option<Session>,
    /// For display; the wall clock may have been set since.
    pub made: Timestamp,
    /// Time since boot, in the boot of the process.
    pub deadline: Duration,
}

/// A claim that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveClaim {
    pub claim: Claim,
    /// GPUs that are still claimed: after the end of the lease only those in use.
    pub gpus: Vec<LeasedGpu>,
    /// Remaining time of the lease; zero if only use keeps the claim alive.
    pub left: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedGpu {
    pub gpu: GpuUuid,
    pub by: ClaimedBy,
}

impl LiveClaim {
    /// Whether the claim is on this GPU.
    pub fn holds(&self, gpu: &GpuUuid) -> bool {
        self.gpus.iter().any(|leased| leased.gpu == *gpu)
    }
}

/// Why a GPU is still claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimedBy {
    /// Only the lease.
    Lease,
    /// The claim's process, or one that it started, uses the GPU.
    Use,
    /// The lease is over, and the processes on the GPU could not be read.
    Doubt,
}

/// State of a claim at the time of a sample.
#[derive(Debug)]
pub(crate) enum Judged {
    Live(LiveClaim),
    Ended(Ended),
    /// The lease is longer than any that is granted: the file was written by hand.
    TooLong,
}

/// Certainty, after one sample, that a claim has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// At the time of the sample, it was past its deadline or from an earlier boot.
    Certain,
    /// Its process has ended. This was checked after the sample, so a process may have started on the GPU in between.
    WithItsProcess,
}

impl Claim {
    /// Decides whether the claim has ended. A lease ends with its boot, its process or its deadline. After that, GPUs
    /// stay claimed while the process, or one that it started, uses them. A process in another PID namespace cannot be
    /// checked, so its claim ends at the deadline.
    pub(crate) fn judge(self, observed: &Observed, kernel: &dyn Kernel) -> Judged {
        if self.for_process.boot != observed.at.boot {
            return Judged::Ended(Ended::Certain);
        }
        let is_elsewhere = is_elsewhere(self.namespace, kernel);
        let has_ended = !is_elsewhere && kernel.standing(&self.for_process) == Life::Ended;
        let before_deadline = self.deadline.saturating_sub(observed.at.since_boot);
        if before_deadline > MAX_LEASE + MAX_SAMPLE_AGE {
            return Judged::TooLong;
        }
        let left = match has_ended {
            true => Duration::ZERO,
            false => before_deadline,
        };
        let by = |gpu: &GpuUuid| match !is_elsewhere && self.is_on(gpu, observed, kernel) {
            true => Some(ClaimedBy::Use),
            false if !left.is_zero() => Some(ClaimedBy::Lease),
            false if !is_elsewhere && observed.unread.contains(gpu) => Some(ClaimedBy::Doubt),
            false => None,
        };
        let leased = |gpu: &GpuUuid| {
            let gpu = gpu.clone();
            by(&gpu).map(|by| LeasedGpu { gpu, by })
        };
        let gpus: Vec<_> = self.gpus.iter().filter_map(leased).collect();
        if gpus.is_empty() {
            return Judged::Ended(match before_deadline.is_zero() {
                true => Ended::Certain,
                false => Ended::WithItsProcess,
            });
        }
        Judged::Live(LiveClaim {
            claim: self,
            gpus,
            left,
        })
    }

    /// Whether a process of the claim uses this GPU. Only processes of the claim's own user count, so naming another
    /// user's process or session (or PID 1, from which all descend) gains nothing.
    fn is_on(&self, gpu: &GpuUuid, observed: &Observed, kernel: &dyn Kernel) -> bool {
        observed.on_gpus.iter().any(|on| {
            on.gpu == *gpu
                && (self.owner == Uid::ROOT || on.user == Some(self.owner))
                && self.started(&on.process, kernel)
        })
    }

    /// Whether a process is the claim's, or was started by it. Descent is lost when a parent ends, as that of
    /// `nohup train &` with its shell; the session stays.
    fn started(&self, process: &ProcessKey, kernel: &dyn Kernel) -> bool {
        *process == self.for_process
            || kernel.descends(process, &self.for_process)
            || (self.session.is_some() && kernel.session(process) == self.session)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let written = WrittenClaim {
            version: VERSION,
            gpus: self.gpus.clone(),
            for_process: WrittenProcess::new(self.for_process, self.namespace),
            session: self.session.map(|session| session.0),
            made: self.made,
            deadline_us: micros(self.deadline),
        };
        serde_json::to_vec(&written).expect("plain fields always fit JSON")
    }

    /// Parses a claim; `None` if the name or the bytes are not a claim. A newer version counts if it has the fields
    /// that we know: an ignored claim would let a GPU be given twice.
    pub(crate) fn from_bytes(owner: Uid, name: &str, bytes: &[u8]) -> Option<Self> {
        let id = name.strip_prefix(CLAIM)?.parse().ok()?;
        let written: WrittenClaim = serde_json::from_slice(bytes).ok()?;
        if written.gpus.len() > MAX_GPUS {
            return None;
        }
        Some(Self {
            id,
            owner,
            gpus: written.gpus,
            for_process: written.for_process.key()?,
            namespace: written.for_process.namespace(),
            session: written.session.map(Session),
            made: written.made,
            deadline: Duration::from_micros(written.deadline_us),
        })
    }
}

#[derive(Serialize, Deserialize)]
struct WrittenClaim {
    version: u32,
    #[serde(rename = "cards")]
    gpus: Vec<GpuUuid>,
    for_process: WrittenProcess,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<u32>,
    made: Timestamp,
    deadline_us: u64,
}

/// A process in JSON. The boot id is text, because JSON has no 128-bit numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WrittenProcess {
    boot: String,
    pid: u32,
    start: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid_namespace: Option<u64>,
}

impl WrittenProcess {
    pub(crate) fn new(process: ProcessKey, namespace: Option<PidNamespace>) -> Self {
        Self {
            boot: process.boot.to_string(),
            pid: process.pid.0,
            start: process.start.0,
            pid_namespace: namespace.map(|namespace| namespace.0),
        }
    }

    pub(crate) fn namespace(&self) -> Option<PidNamespace> {
        self.pid_namespace.map(PidNamespace)
    }

    pub(crate) fn key(&self) -> Option<ProcessKey> {
        Some(ProcessKey {
            boot: self.boot.parse::<BootId>().ok()?,
            pid: Pid(self.pid),
            start: StartTicks(self.start),
        })
    }
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
