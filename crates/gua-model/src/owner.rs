//! Owners of processes: who is responsible for a process, and the rule by which that owner was found.
//!
//! The facts come from the kernel and from state that only root can write; the decision is made here, once, in
//! [`Identity::owner`]. A uid inside a container is the choice of its image, so the container or pod itself is the owner
//! of its processes unless something better is known.

mod policy;

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{ContainerId, PodUid, ProcessKey, SlurmJob, Uid};
use crate::reading::Reading;
use crate::text::sanitize;

pub use self::policy::{OwnerPolicy, OwnerRule, is_match};

/// Name of an owner that is not known.
pub const UNKNOWN: &str = "unknown";

/// Facts about one live process from the kernel. They include no command line and no environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub key: ProcessKey,
    /// User of the login session that the process came from; `Ok(None)` if it has none that counts.
    pub login: Reading<Option<User>>,
    /// A login uid that is set and does not count: no state of root confirms it, or the process inherited it from the
    /// daemon that started it.
    pub claimed_login: Option<User>,
    /// The user that the process runs as.
    pub own: Reading<User>,
    pub workload: Workload,
    /// Short name; the kernel limits it to 15 characters.
    pub comm: Reading<String>,
}

/// A user of this host, with the name that it had at the time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct User {
    pub uid: Uid,
    pub name: Option<String>,
}

/// The job, pod and container of a process, found from its cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    pub container: Option<ContainerId>,
    /// Name of the container, where the files of its runtime can be read.
    pub container_name: Option<String>,
    pub pod: Option<PodUid>,
    /// `NAMESPACE/NAME` of the pod, where the files of its node can be read.
    pub pod_name: Option<String>,
    pub job: Option<SlurmJob>,
    /// User of that job, pod or container, by its cgroup path or by the daemon that runs the job.
    pub user: Option<User>,
    /// Person or group that the configuration names as the owner.
    pub assigned: Option<String>,
    pub containers: ContainerOwners,
}

crate::words! {
    /// The setting `owners.containers`: who owns the processes of a container.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum ContainerOwners {
        /// The container or the pod.
        #[default]
        Name = "name",
        /// The uid that the process runs as. It is also the rule of histories before schema 3.
        Uid = "uid",
    }
}

/// Owner of a process, and the rule by which it was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    pub who: OwnerKey,
    pub source: OwnerSource,
}

/// An owner. Hours belong to the name that a user had at the time, so a uid that is given to another user later is
/// another owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum OwnerKey {
    Unknown,
    User(User),
    /// A person or group that a rule of the configuration names, or a user of imported rows, which have no uid.
    Name(Box<str>),
    /// `container:NAME` or `pod:NAMESPACE/NAME`.
    Workload(Box<str>),
}

impl OwnerKey {
    /// Returns the owner with a name; `None` is the unknown owner.
    pub fn named(name: Option<&str>) -> Self {
        name.map_or(OwnerKey::Unknown, |name| OwnerKey::Name(name.into()))
    }

    /// Returns the name of an owner without a uid.
    pub fn name(&self) -> Option<&str> {
        match self {
            OwnerKey::Name(name) => Some(name),
            OwnerKey::Unknown | OwnerKey::User(_) | OwnerKey::Workload(_) => None,
        }
    }

    /// Returns the uid of a user of this host.
    pub fn uid(&self) -> Option<Uid> {
        match self {
            OwnerKey::User(user) => Some(user.uid),
            OwnerKey::Unknown | OwnerKey::Name(_) | OwnerKey::Workload(_) => None,
        }
    }

    /// Returns the name in reports. A user without a name is called by the uid, and one who is named like the unknown
    /// owner by both.
    pub fn shown(&self) -> Cow<'_, str> {
        match self {
            OwnerKey::Unknown => UNKNOWN.into(),
            OwnerKey::Name(name) | OwnerKey::Workload(name) => Cow::Borrowed(name),
            OwnerKey::User(User { uid, name }) => match name.as_deref() {
                Some(UNKNOWN) => format!("{UNKNOWN} (uid {uid})").into(),
                Some(name) => name.into(),
                None => format!("uid {uid}").into(),
            },
        }
    }

    /// Reports whether a name that a person wrote means this owner: its name, or its uid.
    pub fn is_called(&self, name: &str) -> bool {
        match self {
            OwnerKey::Unknown => false,
            OwnerKey::Name(own) | OwnerKey::Workload(own) => **own == *name,
            OwnerKey::User(user) => {
                user.name.as_deref() == Some(name) || user.uid.to_string() == name
            }
        }
    }
}

crate::words! {
    /// Rule by which an owner was found; stored with the owner.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum OwnerSource {
        /// The login uid, which sudo and su do not change.
        Login = "login",
        /// The uid of the process.
        Process = "process",
        /// A process in a Slurm job of that user.
        Job = "job",
        /// A process in that pod, or in a pod of that user.
        Pod = "pod",
        /// A process in that container, or in a container of that user.
        Container = "container",
        /// A rule of the configuration.
        Rule = "rule",
    }
}

impl Identity {
    /// Returns the owner that the configuration assigns, or else the user of the Slurm job or rootless container, the
    /// login user, the pod or container, and the user that the process runs as. `None` only if the process is hidden.
    pub fn owner(&self) -> Option<Owner> {
        let workload = &self.workload;
        if let Some(name) = &workload.assigned {
            return Some(Owner {
                who: OwnerKey::Name(name.as_str().into()),
                source: OwnerSource::Rule,
            });
        }
        let owner = |user: &User, source| Owner {
            who: OwnerKey::User(user.clone()),
            source,
        };
        let own = self.own.as_ref().ok();
        if workload.containers == ContainerOwners::Uid {
            return self.owner_by_uid();
        }
        match (workload.source(), &workload.user, own) {
            (Some(source), Some(user), _) => return Some(owner(user, source)),
            // Slurm runs a job as its user.
            (Some(OwnerSource::Job), None, Some(own)) => return Some(owner(own, OwnerSource::Job)),
            _ => {}
        }
        let login = self.login.as_ref().ok().and_then(Option::as_ref);
        if let Some(login) = login {
            return Some(owner(login, OwnerSource::Login));
        }
        if let (Some(source), Some(name)) = (workload.source(), workload.name()) {
            return Some(Owner {
                who: OwnerKey::Workload(name.into()),
                source,
            });
        }
        own.map(|own| owner(own, OwnerSource::Process))
    }

    /// Returns the login user, or else the user that the process runs as. If that is root and a job, pod or container
    /// names its user, returns that user.
    fn owner_by_uid(&self) -> Option<Owner> {
        let login = self.login.as_ref().ok().and_then(Option::as_ref);
        let (user, source) = match (login, &self.own) {
            (Some(user), _) => (user, OwnerSource::Login),
            (None, Ok(user)) => (user, OwnerSource::Process),
            (None, Err(_)) => return None,
        };
        let (user, source) = match (&self.workload.user, self.workload.source()) {
            (Some(answerable), Some(source)) if user.uid == Uid::ROOT => (answerable, source),
            _ => (user, source),
        };
        Some(Owner {
            who: OwnerKey::User(user.clone()),
            source,
        })
    }

    /// Returns the age of the process, `since_boot` after the boot.
    pub fn age(&self, since_boot: Duration, ticks_per_second: u64) -> Option<Duration> {
        // The kernel counts the start of a process from boot, including suspend, as a sample does (proc_pid_stat(5)).
        let millis = self.key.start.0.checked_mul(1000)?;
        let start = Duration::from_millis(millis.checked_div(ticks_per_second)?);
        since_boot.checked_sub(start)
    }
}

impl User {
    /// Returns the name, or else the uid, sanitized for a terminal.
    pub fn shown(&self) -> String {
        match &self.name {
            Some(name) => sanitize(name),
            None => format!("uid {}", self.uid),
        }
    }
}

impl Owner {
    /// Returns its name, sanitized for a terminal.
    pub fn shown(&self) -> String {
        match &self.who {
            OwnerKey::User(user) => user.shown(),
            other => sanitize(&other.shown()),
        }
    }
}

/// Number of characters shown of a container or pod ID. The full IDs are long, and other tools also show the first
/// twelve.
const SHORT_ID: usize = 12;

impl Workload {
    /// Returns the pod or container as an owner: `pod:ml/train-0`, `container:web`; by its short ID if it has no known
    /// name.
    pub fn name(&self) -> Option<String> {
        self.pod_or_container(':', SHORT_ID)
    }

    /// Returns the job, or else the pod, or else the container: `job 4711`, `container 3f1c`...
    pub fn in_words(&self) -> Option<String> {
        self.with_ids_of(usize::MAX)
    }

    /// Returns the same text with the ID truncated.
    pub fn in_short(&self) -> Option<String> {
        self.with_ids_of(SHORT_ID)
    }

    fn with_ids_of(&self, letters: usize) -> Option<String> {
        let job = self.job.as_ref().map(|job| format!("job {job}"));
        job.or_else(|| self.pod_or_container(' ', letters))
    }

    fn pod_or_container(&self, between: char, letters: usize) -> Option<String> {
        let pod = self.pod_label(letters);
        let pod = pod.map(|pod| format!("pod{between}{pod}"));
        pod.or_else(|| {
            Some(format!(
                "container{between}{}",
                self.container_label(letters)?
            ))
        })
    }

    /// Returns the name of the pod, or else its ID, of which at most this many characters are shown.
    pub(crate) fn pod_label(&self, letters: usize) -> Option<String> {
        label(
            &self.pod_name,
            self.pod.as_ref().map(PodUid::as_str),
            letters,
        )
    }

    /// Returns the name of the container, or else its ID, of which at most this many characters are shown.
    pub(crate) fn container_label(&self, letters: usize) -> Option<String> {
        let id = self.container.as_ref().map(ContainerId::as_str);
        label(&self.container_name, id, letters)
    }

    fn source(&self) -> Option<OwnerSource> {
        if self.job.is_some() {
            Some(OwnerSource::Job)
        } else if self.pod.is_some() {
            Some(OwnerSource::Pod)
        } else if self.container.is_some() {
            Some(OwnerSource::Container)
        } else {
            None
        }
    }
}

fn label(name: &Option<String>, id: Option<&str>, letters: usize) -> Option<String> {
    let short = |id: &str| id.chars().take(letters).collect();
    name.clone().or_else(|| id.map(short))
}

#[cfg(test)]
mod tests;
