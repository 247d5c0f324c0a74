//! Findings: conditions of alerts that hold at a moment, with their evidence.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::When;
use crate::classify::holders;
use crate::health::{Fault, faults};
use crate::id::{GpuUuid, Uid};
use crate::idle::{Idle, IdleGpu};
use crate::period::Period;
use crate::quota::{Standing, Who};
use crate::reading::Reading;
use crate::readings::Gpu;
use crate::sample::{Place, Sample};
use crate::state::Thresholds;
use crate::text::{counted, gigabytes, sanitize, short_age};
use crate::unit::Bytes;

/// A condition that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub when: When,
    /// Host of a board on which it was found; `None` for the host of the daemon.
    pub host: Option<BoardHost>,
    /// Person, GPU or limit that the finding is about; the cool-down is kept for each.
    pub subject: String,
    pub person: Option<String>,
    /// One line without the name of the host.
    pub summary: String,
    /// The evidence, one line each.
    pub details: Vec<String>,
    /// Instruction for the reader: how to answer.
    pub answer: Option<String>,
}

/// A host as its board knows it, or several hosts of one workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardHost {
    /// `None` for several hosts.
    pub id: Option<String>,
    /// Id of its workspace, whose admins see the messages about it.
    pub workspace: String,
    /// Display name, which is not unique.
    pub name: String,
}

impl Finding {
    /// Returns the finding as one on a host of a board.
    #[must_use]
    pub fn on(self, host: BoardHost) -> Self {
        Self {
            host: Some(host),
            ..self
        }
    }

    /// Returns the name of its host, safe to display.
    pub fn host_name(&self, this_host: &str) -> String {
        let host = self.host.as_ref();
        host.map_or_else(|| this_host.to_owned(), |host| sanitize(&host.name))
    }
}

/// A person's hold on a GPU that is idle now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleHold {
    pub person: String,
    /// `None` for a container, a pod or the owner of a rule.
    pub uid: Option<Uid>,
    pub gpu: GpuUuid,
    pub gpu_index: u32,
    /// Memory of all processes of the person; missing if that of one of them is.
    pub memory: Reading<Bytes>,
    /// Idle time of the holder that has been idle longest.
    pub idle: Idle,
}

impl IdleHold {
    /// `GPU 3: 40.1 GB held, idle for 3h12m`, or `GPU 3: memory unknown, idle for 3h12m`.
    pub fn evidence(&self, now: Timestamp) -> String {
        let memory = match self.memory {
            Ok(bytes) => format!("{} GB held", gigabytes(bytes)),
            Err(_) => "memory unknown".to_owned(),
        };
        let idle = self.idle.shown(now);
        format!("GPU {}: {memory}, idle for {idle}", self.gpu_index)
    }

    /// Whether it has been idle for at least this time.
    pub fn is_long(&self, longer_than: Duration, now: Timestamp) -> bool {
        self.idle.length(now).unsigned_abs() >= longer_than
    }
}

/// Returns the holds on GPUs that are idle in a sample, by person and GPU. `idle` has the GPUs that are idle in it.
pub fn idle_holds(
    sample: &Sample,
    idle: &BTreeMap<GpuUuid, IdleGpu>,
    thresholds: &Thresholds,
) -> Vec<IdleHold> {
    let mut found: BTreeMap<(String, u32, GpuUuid), IdleHold> = BTreeMap::new();
    for gpu in &sample.gpus {
        let Some(times) = idle.get(&gpu.uuid) else {
            continue;
        };
        for process in holders(gpu, thresholds) {
            let Ok(identity) = &process.identity else {
                continue;
            };
            let Some(owner) = identity.owner() else {
                continue;
            };
            let person = owner.who.shown().into_owned();
            let idle = times.of(Some(identity.key));
            let key = (person.clone(), gpu.index, gpu.uuid.clone());
            let hold = found.entry(key).or_insert_with(|| IdleHold {
                person,
                uid: owner.who.uid(),
                gpu: gpu.uuid.clone(),
                gpu_index: gpu.index,
                memory: Ok(Bytes(0)),
                idle,
            });
            hold.memory = hold.memory.and_then(|sum| Ok(sum + process.memory?));
            if idle.since.at < hold.idle.since.at {
                hold.idle = idle;
            }
        }
    }
    found.into_values().collect()
}

/// Returns one finding for each person who has held GPUs for at least this time without using them.
pub fn idle_held(holds: &[IdleHold], longer_than: Duration, now: Timestamp) -> Vec<Finding> {
    let mut people: BTreeMap<&str, Vec<&IdleHold>> = BTreeMap::new();
    for hold in holds.iter().filter(|hold| hold.is_long(longer_than, now)) {
        people.entry(&hold.person).or_default().push(hold);
    }
    let finding = |(person, holds): (&str, Vec<&IdleHold>)| {
        let shown = sanitize(person);
        let gpus = counted(holds.len() as u64, "GPU");
        let them = if holds.len() == 1 { "it" } else { "them" };
        Finding {
            when: When::IdleHeld,
            host: None,
            subject: person.to_owned(),
            person: Some(person.to_owned()),
            summary: format!("{shown} holds {gpus} without using {them}"),
            details: holds.iter().map(|hold| hold.evidence(now)).collect(),
            answer: Some(ANSWER.to_owned()),
        }
    };
    people.into_iter().map(finding).collect()
}

/// Request to the holder, with the command that answers it.
const ANSWER: &str = "Please release what you do not need, or answer with: gua keep 2h --why TEXT";

/// Returns the finding about a person who was asked whether they still need their idle GPUs. A question to a person without a
/// GPU that has been idle for this time counts for nothing.
pub fn nudged(
    holds: &[IdleHold],
    to: Uid,
    requester: &str,
    longer_than: Duration,
    now: Timestamp,
) -> Option<Finding> {
    let holds = holds.iter().filter(|hold| hold.uid == Some(to));
    let holds: Vec<&IdleHold> = holds
        .filter(|hold| hold.is_long(longer_than, now))
        .collect();
    let person = &holds.first()?.person;
    let gpus = counted(holds.len() as u64, "GPU");
    let (shown, requester) = (sanitize(person), sanitize(requester));
    Some(Finding {
        when: When::Nudge,
        host: None,
        subject: person.clone(),
        person: Some(person.clone()),
        summary: format!("{requester} asks {shown}: do you still need {gpus}?"),
        details: holds.iter().map(|hold| hold.evidence(now)).collect(),
        answer: Some(ANSWER.to_owned()),
    })
}

/// A GPU of an earlier sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownGpu {
    pub uuid: GpuUuid,
    pub index: u32,
    pub name: Option<String>,
}

impl KnownGpu {
    fn of(gpu: &Gpu) -> Self {
        Self {
            uuid: gpu.uuid.clone(),
            index: gpu.index,
            name: gpu.name.clone().ok(),
        }
    }

    fn shown(&self) -> String {
        let name = self.name.as_deref().map_or_else(String::new, sanitize);
        let (index, uuid) = (self.index, &self.uuid);
        format!("GPU {index} ({name}, {uuid})").replace("(, ", "(")
    }
}

/// Returns the physical GPUs of a sample. A MIG instance that disappears was removed and is not lost.
pub fn known_gpus(sample: &Sample) -> Vec<KnownGpu> {
    let gpus = sample.gpus.iter();
    let physical = gpus.filter(|gpu| !matches!(gpu.place, Place::Instance { .. }));
    physical.map(KnownGpu::of).collect()
}

/// Returns the GPUs with faults, and those that an earlier sample had and this one does not.
pub fn unhealthy(sample: &Sample, earlier: &[KnownGpu]) -> Vec<Finding> {
    let mut found = Vec::new();
    for gpu in &sample.gpus {
        let (lost, other): (Vec<Fault>, Vec<Fault>) = faults(gpu)
            .into_iter()
            .partition(|fault| *fault == Fault::Lost);
        let known = KnownGpu::of(gpu);
        if !lost.is_empty() {
            found.push(lost_gpu(&known, Loss::Reported));
        }
        let other = other.iter();
        let other: Vec<(&str, String)> = other
            .map(|fault| (fault.as_str(), fault.to_string()))
            .collect();
        found.extend(faulty_gpu(&known, &other));
    }
    let is_there = |known: &&KnownGpu| sample.gpus.iter().any(|gpu| gpu.uuid == known.uuid);
    let gone = earlier.iter().filter(|known| !is_there(known));
    found.extend(gone.map(|known| lost_gpu(known, Loss::NotListed)));
    found
}

/// Returns the finding about the faults of a GPU, each with its name and its description; `None` if there are none.
pub fn faulty_gpu(gpu: &KnownGpu, faults: &[(&str, String)]) -> Option<Finding> {
    let names: Vec<&str> = faults.iter().map(|(name, _)| *name).collect();
    (!faults.is_empty()).then(|| Finding {
        when: When::Unhealthy,
        host: None,
        subject: format!("{} {}", gpu.uuid, names.join(",")),
        person: None,
        summary: format!("{} has a fault", gpu.shown()),
        details: faults.iter().map(|(_, text)| text.clone()).collect(),
        answer: None,
    })
}

/// Way in which a GPU was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The driver lists it and cannot reach it.
    Reported,
    /// It was there before and is not listed.
    NotListed,
}

/// Returns the finding about a lost GPU.
pub fn lost_gpu(gpu: &KnownGpu, loss: Loss) -> Finding {
    let why = match loss {
        Loss::Reported => "the driver reports it as lost",
        Loss::NotListed => "the driver no longer lists it",
    };
    Finding {
        when: When::Lost,
        host: None,
        subject: gpu.uuid.to_string(),
        person: None,
        summary: format!("{} is lost", gpu.shown()),
        details: vec![why.to_owned()],
        answer: None,
    }
}

/// Returns whether a limit is exceeded, or at least this share of it is used. An unmeasured part counts as unused.
pub fn quota_condition(standing: &Standing, percent: u32) -> Option<When> {
    let used = u128::from(standing.at_least) * 100;
    let near = u128::from(standing.limit.most) * u128::from(percent);
    match standing.is_over() {
        true => Some(When::QuotaOver),
        false if standing.limit.most > 0 && used >= near => Some(When::QuotaNear),
        false => None,
    }
}

/// Returns the finding about a limit; `use_of` describes its use, such as `charged 80.0 of 100.0 h per month`.
pub fn quota(standing: &Standing, when: When, use_of: String) -> Finding {
    let (who, person) = match &standing.who {
        Who::Person(name) => (sanitize(name), Some(name.clone())),
        Who::Group(name) => (format!("the group {}", sanitize(name)), None),
        Who::Everyone => ("everyone together".to_owned(), None),
    };
    let word = match when {
        When::QuotaOver => "over",
        _ => "near",
    };
    let (limit, from) = (&standing.limit, standing.period.from());
    Finding {
        when,
        host: None,
        // In the next period, the same limit is another subject. A rolling window has no next period.
        subject: match limit.per {
            crate::quota::Term::Rolling(_) => format!("{who} {}", use_key(standing)),
            _ => format!("{who} {} {from}", use_key(standing)),
        },
        person,
        summary: format!("{who}: {word} a limit on GPU use"),
        details: vec![use_of],
        answer: Some("`gua quota show` shows what is left.".to_owned()),
    }
}

fn use_key(standing: &Standing) -> String {
    let limit = &standing.limit;
    format!("{} {:?}", limit.measure.as_str(), limit.per)
}

/// A time in which the GPUs were not observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnobservedTime {
    pub period: Period,
    /// Whether it has ended.
    pub has_ended: bool,
}

/// Returns the finding about a gap of at least this length.
pub fn gap(time: &UnobservedTime, longer_than: Duration) -> Option<Finding> {
    let length = Duration::from_micros(time.period.micros().0);
    if length < longer_than {
        return None;
    }
    let (from, to) = (time.period.from(), time.period.to());
    let (shown, tense) = match time.has_ended {
        true => (format!("from {from:.0} to {to:.0}"), "were"),
        false => (format!("since {from:.0}"), "are"),
    };
    let length = short_age(length);
    Some(Finding {
        when: When::Gap,
        host: None,
        subject: from.to_string(),
        person: None,
        summary: format!("the GPUs {tense} not observed for {length}"),
        details: vec![shown],
        answer: Some("`gua status` and the log of the daemon show why.".to_owned()),
    })
}

/// Last time at which an agent sent something to its board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastContact {
    Report(Timestamp),
    /// It has not reported since it was enrolled.
    Enrolment(Timestamp),
    /// It has not reported since its token became valid: an admin approved the host, or replaced it by another machine.
    Token(Timestamp),
}

/// Returns the finding about an agent that has sent nothing since then. The caller decides whether that is too long ago.
pub fn silent(last: LastContact, now: Timestamp) -> Finding {
    let (at, shown) = match last {
        LastContact::Report(at) => (at, format!("last report at {at:.0}")),
        LastContact::Enrolment(at) => (at, format!("no report since it was enrolled at {at:.0}")),
        LastContact::Token(at) => (
            at,
            format!("no report since its token became valid at {at:.0}"),
        ),
    };
    let length = now.duration_since(at).unsigned_abs();
    Finding {
        when: When::Silent,
        host: None,
        // A later silence is another subject. Stored times are less precise, so a restart changes the fraction.
        subject: at.as_second().to_string(),
        person: None,
        summary: format!("the agent has sent nothing for {}", short_age(length)),
        details: vec![shown],
        answer: Some(
            "`gua status` on the host shows whether its daemon runs and what it sends.".to_owned(),
        ),
    }
}

/// Maximum number of hosts in the title of a message about several hosts.
const MAX_NAMED: usize = 3;
/// Maximum number of hosts in the details of such a message.
const MAX_LISTED: usize = 20;

/// Returns one finding about the silent agents of several hosts, in this order, so that a network outage does not send one
/// message for each host. All are of one workspace. Its size does not depend on the number of hosts.
pub fn all_silent(found: &[Finding]) -> Option<Finding> {
    let first = found.first()?;
    if found.len() == 1 {
        return Some(first.clone());
    }
    let name = |one: &Finding| {
        one.host
            .as_ref()
            .map_or_else(String::new, |on| on.name.clone())
    };
    let more = |listed: usize| match found.len().saturating_sub(listed) {
        0 => None,
        rest => Some(format!("and {rest} more")),
    };
    let names: Vec<String> = found.iter().take(MAX_NAMED).map(name).collect();
    let names = [names.join(", ")].into_iter().chain(more(MAX_NAMED));
    let names = names.collect::<Vec<_>>().join(" ");
    let details = found.iter().take(MAX_LISTED);
    let details = details.map(|one| format!("{}: {}", name(one), one.details.join(", ")));
    Some(Finding {
        host: first.host.clone().map(|host| BoardHost {
            id: None,
            name: names,
            ..host
        }),
        summary: format!("{} agents are silent", found.len()),
        details: details.chain(more(MAX_LISTED)).collect(),
        ..first.clone()
    })
}
