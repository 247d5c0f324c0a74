//! Owners of processes: the user who is responsible for a process, and the rule by which that user was found.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{ContainerId, PodUid, ProcessKey, SlurmJob, Uid};
use crate::reading::Reading;
use crate::text::sanitize;

/// Facts about one live process from the kernel. They include no command line and no environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub key: ProcessKey,
    /// User of the login session that the process came from; `Ok(None)` if the kernel has none for it.
    pub login: Reading<Option<User>>,
    /// The user that the process runs as.
    pub own: Reading<User>,
    pub workload: Workload,
    /// Short name; the kernel limits it to 15 characters.
    pub comm: Reading<String>,
}

/// A user of this host, with a name where the host has one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct User {
    pub uid: Uid,
    pub name: Option<String>,
}

/// The job, pod and container of a process, found from its cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    pub container: Option<ContainerId>,
    pub pod: Option<PodUid>,
    pub job: Option<SlurmJob>,
    /// User in the cgroup path of that job, pod or container.
    pub user: Option<User>,
}

/// The user who is responsible for a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    pub user: User,
    pub source: OwnerSource,
}

/// Rule by which an owner was found; stored with the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum OwnerSource {
    /// The login uid, which sudo and su do not change.
    Login,
    /// The uid of the process.
    Process,
    /// A root process in a Slurm job of that user.
    Job,
    /// A root process in a pod of that user.
    Pod,
    /// A root process in a container of that user.
    Container,
}

impl OwnerSource {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            OwnerSource::Login => "login",
            OwnerSource::Process => "process",
            OwnerSource::Job => "job",
            OwnerSource::Pod => "pod",
            OwnerSource::Container => "container",
        }
    }
}

impl Identity {
    /// Returns the login user, or else the user that the process runs as. If that is root and a job, pod or container
    /// names its user, returns that user. `None` only if the process is hidden.
    #[must_use]
    pub fn owner(&self) -> Option<Owner> {
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
            user: user.clone(),
            source,
        })
    }

    /// Returns the age of the process, `since_boot` after the boot.
    #[must_use]
    pub fn age(&self, since_boot: Duration, ticks_per_second: u64) -> Option<Duration> {
        // The kernel counts the start of a process from boot, including suspend, as a sample does (proc_pid_stat(5)).
        let millis = self.key.start.0.checked_mul(1000)?;
        let start = Duration::from_millis(millis.checked_div(ticks_per_second)?);
        since_boot.checked_sub(start)
    }
}

impl User {
    /// Returns the name, or else the uid, sanitized for a terminal.
    #[must_use]
    pub fn shown(&self) -> String {
        match &self.name {
            Some(name) => sanitize(name),
            None => format!("uid {}", self.uid),
        }
    }
}

/// Number of characters shown of a container or pod ID. The full IDs are long, and other tools also show the first
/// twelve.
const SHORT_ID: usize = 12;

impl Workload {
    /// Returns the job, or else the pod, or else the container: `job 4711`, `container 3f1c`...
    #[must_use]
    pub fn in_words(&self) -> Option<String> {
        self.with_ids_of(usize::MAX)
    }

    /// Returns the same text with the ID truncated.
    #[must_use]
    pub fn in_short(&self) -> Option<String> {
        self.with_ids_of(SHORT_ID)
    }

    fn with_ids_of(&self, letters: usize) -> Option<String> {
        let cut = |id: &str| id.chars().take(letters).collect::<String>();
        let job = self.job.as_ref().map(|job| format!("job {job}"));
        let pod = || Some(format!("pod {}", cut(self.pod.as_ref()?.as_str())));
        let container = || {
            Some(format!(
                "container {}",
                cut(self.container.as_ref()?.as_str())
            ))
        };
        job.or_else(pod).or_else(container)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{BootId, Pid, StartTicks};
    use crate::reading::Missing;

    fn user(uid: u32) -> User {
        User {
            uid: Uid(uid),
            name: None,
        }
    }

    fn check(
        login: Reading<Option<u32>>,
        own: Reading<u32>,
        workload: Workload,
        expected: Option<(u32, OwnerSource)>,
    ) {
        let identity = Identity {
            key: ProcessKey {
                boot: BootId(1),
                pid: Pid(1),
                start: StartTicks(1),
            },
            login: login.map(|uid| uid.map(user)),
            own: own.map(user),
            workload,
            comm: Ok("python".to_owned()),
        };
        let owner = identity
            .owner()
            .map(|owner| (owner.user.uid.0, owner.source));
        assert_eq!(owner, expected, "{identity:?}");
    }

    #[test]
    fn the_login_user_goes_before_the_process_user() {
        let none = Workload::default;
        check(
            Ok(Some(1000)),
            Ok(0),
            none(),
            Some((1000, OwnerSource::Login)),
        );
        check(Ok(None), Ok(33), none(), Some((33, OwnerSource::Process)));
        check(
            Err(Missing::Unsupported),
            Ok(33),
            none(),
            Some((33, OwnerSource::Process)),
        );
        check(Ok(None), Ok(0), none(), Some((0, OwnerSource::Process)));
        check(
            Ok(Some(1000)),
            Err(Missing::Denied),
            none(),
            Some((1000, OwnerSource::Login)),
        );
        check(Ok(None), Err(Missing::Gone), none(), None);
    }

    #[test]
    fn roots_process_in_a_job_pod_or_container_belongs_to_the_user_it_names() {
        let job = Workload {
            job: "7".parse().ok(),
            user: Some(user(1007)),
            ..Workload::default()
        };
        let pod = Workload {
            pod: "p".parse().ok(),
            user: Some(user(1008)),
            ..Workload::default()
        };
        let container = Workload {
            container: "c".parse().ok(),
            user: Some(user(1009)),
            ..Workload::default()
        };
        check(Ok(None), Ok(0), job.clone(), Some((1007, OwnerSource::Job)));
        check(Ok(Some(0)), Ok(0), pod, Some((1008, OwnerSource::Pod)));
        check(
            Ok(None),
            Ok(0),
            container,
            Some((1009, OwnerSource::Container)),
        );
        check(
            Ok(None),
            Ok(1000),
            job.clone(),
            Some((1000, OwnerSource::Process)),
        );
        check(Ok(Some(1001)), Ok(0), job, Some((1001, OwnerSource::Login)));
    }

    #[test]
    fn a_container_of_nobody_known_stays_with_root() {
        let container = Workload {
            container: "c".parse().ok(),
            ..Workload::default()
        };
        check(Ok(None), Ok(0), container, Some((0, OwnerSource::Process)));
        let slice = Workload {
            user: Some(user(1000)),
            ..Workload::default()
        };
        check(Ok(None), Ok(0), slice, Some((0, OwnerSource::Process)));
    }

    #[test]
    fn a_workload_is_called_by_its_job_then_its_pod_then_its_container() {
        let id = "0123456789abcdef".repeat(4);
        let mut workload = Workload::default();
        assert_eq!(workload.in_short(), None);
        workload.container = id.parse().ok();
        assert_eq!(
            workload.in_short().as_deref(),
            Some("container 0123456789ab")
        );
        assert_eq!(workload.in_words(), Some(format!("container {id}")));
        workload.job = "4711".parse().ok();
        assert_eq!(workload.in_short().as_deref(), Some("job 4711"));
    }

    #[test]
    fn an_age_is_what_passed_since_the_start_and_none_before_it() {
        let age = |start, since_boot| {
            let key = ProcessKey {
                boot: BootId(1),
                pid: Pid(7),
                start: StartTicks(start),
            };
            let identity = Identity {
                key,
                login: Ok(None),
                own: Ok(user(1000)),
                workload: Workload::default(),
                comm: Ok("python".to_owned()),
            };
            identity.age(Duration::from_millis(since_boot), 100)
        };
        assert_eq!(age(250, 10_000), Some(Duration::from_millis(7_500)));
        assert_eq!(age(1_100, 10_000), None);
        assert_eq!(age(u64::MAX, 10_000), None);
    }
}
