use super::*;
use crate::id::{BootId, Pid, StartTicks};
use crate::reading::Missing;

fn user(uid: u32) -> User {
    User {
        uid: Uid(uid),
        name: None,
    }
}

fn identity(login: Reading<Option<u32>>, own: Reading<u32>, workload: Workload) -> Identity {
    Identity {
        key: ProcessKey {
            boot: BootId(1),
            pid: Pid(1),
            start: StartTicks(1),
        },
        login: login.map(|uid| uid.map(user)),
        claimed_login: None,
        own: own.map(user),
        workload,
        comm: Ok("python".to_owned()),
    }
}

/// `job 7`, `of 1007` (the user of the path), `pod`, `container`, a name after `=`, `uid` for the rule of uids.
fn workload(text: &str) -> Workload {
    let mut workload = Workload::default();
    let words: Vec<&str> = text.split_whitespace().collect();
    for pair in words.chunks(2) {
        let value = pair.get(1).copied().unwrap_or_default();
        match pair[0] {
            "job" => workload.job = value.parse().ok(),
            "of" => workload.user = Some(user(value.parse().unwrap())),
            "pod" => workload.pod = value.parse().ok(),
            "podname" => workload.pod_name = Some(value.to_owned()),
            "container" => workload.container = value.parse().ok(),
            "name" => workload.container_name = Some(value.to_owned()),
            "rule" => workload.assigned = Some(value.to_owned()),
            "uid" => workload.containers = ContainerOwners::Uid,
            other => panic!("{other}"),
        }
    }
    workload
}

#[track_caller]
fn check(login: Option<u32>, own: u32, text: &str, expected: &str) {
    let owner = identity(Ok(login), Ok(own), workload(text)).owner();
    let shown = owner.map(|owner| format!("{} by {}", owner.shown(), owner.source.as_str()));
    assert_eq!(shown.as_deref(), Some(expected), "{login:?} {own} {text}");
}

#[test]
fn the_login_user_goes_before_the_process_user() {
    check(Some(1000), 0, "", "uid 1000 by login");
    check(None, 33, "", "uid 33 by process");
    check(None, 0, "", "uid 0 by process");
    let none = Workload::default;
    let unsupported = identity(Err(Missing::Unsupported), Ok(33), none()).owner();
    assert_eq!(
        unsupported.map(|owner| owner.source),
        Some(OwnerSource::Process)
    );
    let denied = identity(Ok(Some(1000)), Err(Missing::Denied), none()).owner();
    assert_eq!(denied.map(|owner| owner.source), Some(OwnerSource::Login));
    assert_eq!(identity(Ok(None), Err(Missing::Gone), none()).owner(), None);
}

#[test]
fn a_job_belongs_to_its_user_no_matter_who_started_the_daemon() {
    check(None, 0, "job 7 of 1007", "uid 1007 by job");
    check(Some(1001), 1007, "job 7 of 1007", "uid 1007 by job");
    check(Some(1001), 1007, "job 7", "uid 1007 by job");
    check(None, 1007, "job 7 container c", "uid 1007 by job");
}

#[test]
fn a_container_or_pod_owns_its_processes_and_a_rootless_one_belongs_to_its_user() {
    let id = "0123456789abcdef";
    check(
        None,
        33,
        &format!("container {id} name web"),
        "container:web by container",
    );
    check(
        None,
        33,
        &format!("container {id}"),
        "container:0123456789ab by container",
    );
    check(
        None,
        0,
        &format!("container {id} pod {id} podname ml/train-0"),
        "pod:ml/train-0 by pod",
    );
    check(
        None,
        0,
        &format!("container {id} pod {id}"),
        "pod:0123456789ab by pod",
    );
    check(
        None,
        100_033,
        &format!("container {id} of 1000"),
        "uid 1000 by container",
    );
    // A person started it without a daemon in between (`sudo podman run`).
    check(
        Some(1001),
        33,
        &format!("container {id} name web"),
        "uid 1001 by login",
    );
    let hidden = identity(Ok(None), Err(Missing::Denied), workload("container c"));
    assert_eq!(hidden.owner().unwrap().shown(), "container:c");
}

#[test]
fn the_setting_restores_the_uid_as_the_owner() {
    check(None, 33, "uid - container c name web", "uid 33 by process");
    check(None, 0, "uid - container c", "uid 0 by process");
    check(
        None,
        0,
        "uid - container c of 1009",
        "uid 1009 by container",
    );
    check(None, 1000, "uid - job 7 of 1007", "uid 1000 by process");
    check(None, 0, "uid - job 7 of 1007", "uid 1007 by job");
    check(Some(0), 0, "uid - pod p of 1008", "uid 1008 by pod");
    check(Some(1001), 0, "uid - job 7 of 1007", "uid 1001 by login");
}

#[test]
fn a_rule_of_the_configuration_goes_before_everything() {
    check(
        Some(1001),
        33,
        "container c name web rule vision",
        "vision by rule",
    );
    check(
        Some(1001),
        33,
        "uid - container c rule vision",
        "vision by rule",
    );
}

#[test]
fn a_slice_without_a_container_names_nobody() {
    check(None, 0, "of 1000", "uid 0 by process");
}

#[test]
fn a_user_named_like_the_unknown_owner_is_a_user() {
    let user = OwnerKey::User(User {
        uid: Uid(1005),
        name: Some("unknown".to_owned()),
    });
    assert_ne!(user.shown(), OwnerKey::Unknown.shown());
    assert!(user.is_called("unknown") && !OwnerKey::Unknown.is_called("unknown"));
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
    workload.container_name = Some("web".to_owned());
    assert_eq!(workload.in_short().as_deref(), Some("container web"));
    workload.job = "4711".parse().ok();
    assert_eq!(workload.in_short().as_deref(), Some("job 4711"));
}

#[test]
fn an_age_is_what_passed_since_the_start_and_none_before_it() {
    let age = |start, since_boot| {
        let mut identity = identity(Ok(None), Ok(1000), Workload::default());
        identity.key.start = StartTicks(start);
        identity.age(Duration::from_millis(since_boot), 100)
    };
    assert_eq!(age(250, 10_000), Some(Duration::from_millis(7_500)));
    assert_eq!(age(1_100, 10_000), None);
    assert_eq!(age(u64::MAX, 10_000), None);
}
