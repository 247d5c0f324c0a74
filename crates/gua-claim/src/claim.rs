//! A claim: cards leased to a process until a deadline, how it is written down, and the rule by which it lives.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use gua_model::id::BadName;
use gua_model::{BootId, GpuUuid, Pid, ProcessKey, StartTicks, Uid};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ask::LONGEST_LEASE;
use crate::drawer::random_word;
use crate::facts::{Look, PidNamespace, Processes, Standing, is_elsewhere};

pub(crate) const CLAIM: &str = "claim-";
const VERSION: u32 = 1;
/// A look can be a little older than what was written since.
pub(crate) const LOOK_AGE: Duration = Duration::from_mins(1);

/// What a claim is called, for `release`: eight hexadecimal digits.
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

/// Cards leased to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub id: ClaimId,
    /// Whose it is, by the kernel's word.
    pub owner: Uid,
    pub cards: Vec<GpuUuid>,
    /// The claim ends with this process.
    pub holder: ProcessKey,
    /// Where the holder has this pid.
    pub namespace: Option<PidNamespace>,
    /// For display; the wall clock may have been set since.
    pub made: Timestamp,
    /// On the clock that never jumps, of the holder's boot.
    pub deadline: Duration,
}

/// A claim that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveClaim {
    pub claim: Claim,
    /// The cards that it still holds: after the deadline only those that are in use.
    pub cards: Vec<HeldCard>,
    /// What is left until the deadline; zero when it lives by use alone.
    pub left: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldCard {
    pub gpu: GpuUuid,
    pub hold: Hold,
}

/// What keeps a card claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nothing but the lease, so far.
    Leased,
    /// The holder, or a descendant of it, is on the card.
    InUse,
}

/// How a claim stands at a look.
#[derive(Debug)]
pub(crate) enum Judged {
    Live(LiveClaim),
    Ended,
    /// Nobody is given so long a lease; it was written by hand.
    TooLong,
}

impl Claim {
    /// The one rule: a claim ends with its boot, its holder or its deadline; past the deadline it keeps the cards on
    /// which the holder's processes are, as long as they are. A holder of another pid namespace cannot be asked after, so
    /// its claim ends at the deadline.
    pub(crate) fn judge(self, look: &Look, processes: &dyn Processes) -> Judged {
        let now = look.at.since_boot;
        let is_elsewhere = is_elsewhere(self.namespace, processes);
        let has_ended = || processes.standing(&self.holder) == Standing::Ended;
        if self.holder.boot != look.at.boot || (!is_elsewhere && has_ended()) {
            return Judged::Ended;
        }
        let left = self.deadline.saturating_sub(now);
        if left > LONGEST_LEASE + LOOK_AGE {
            return Judged::TooLong;
        }
        let held = |gpu: &GpuUuid| match !is_elsewhere && self.is_on(gpu, look, processes) {
            true => Some(Hold::InUse),
            false if !left.is_zero() => Some(Hold::Leased),
            false => None,
        };
        let cards: Vec<_> = self
            .cards
            .iter()
            .filter_map(|gpu| {
                held(gpu).map(|hold| HeldCard {
                    gpu: gpu.clone(),
                    hold,
                })
            })
            .collect();
        if cards.is_empty() {
            return Judged::Ended;
        }
        Judged::Live(LiveClaim {
            claim: self,
            cards,
            left,
        })
    }

    /// Only a process of the claim's own user counts, so naming a process of somebody else as the holder (or the first
    /// process of the host, from which all descend) gains nothing.
    fn is_on(&self, gpu: &GpuUuid, look: &Look, processes: &dyn Processes) -> bool {
        look.on_cards.iter().any(|on| {
            on.gpu == *gpu
                && (self.owner == Uid::ROOT || on.user == Some(self.owner))
                && (on.process == self.holder || processes.descends(&on.process, &self.holder))
        })
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let written = WrittenClaim {
            version: VERSION,
            cards: self.cards.clone(),
            holder: WrittenProcess::new(self.holder, self.namespace),
            made: self.made,
            deadline_us: micros(self.deadline),
        };
        serde_json::to_vec(&written).expect("plain fields always fit JSON")
    }

    /// `None` where the name or the bytes are no claim. A newer version counts if it still has what we know: a claim that
    /// is ignored is a card given twice.
    pub(crate) fn from_bytes(owner: Uid, name: &str, bytes: &[u8]) -> Option<Self> {
        let id = name.strip_prefix(CLAIM)?.parse().ok()?;
        let written: WrittenClaim = serde_json::from_slice(bytes).ok()?;
        Some(Self {
            id,
            owner,
            cards: written.cards,
            holder: written.holder.key()?,
            namespace: written.holder.namespace(),
            made: written.made,
            deadline: Duration::from_micros(written.deadline_us),
        })
    }
}

#[derive(Serialize, Deserialize)]
struct WrittenClaim {
    version: u32,
    cards: Vec<GpuUuid>,
    holder: WrittenProcess,
    made: Timestamp,
    deadline_us: u64,
}

/// A process as JSON has it: the boot as the kernel writes it, since JSON has no numbers of 128 bits.
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
