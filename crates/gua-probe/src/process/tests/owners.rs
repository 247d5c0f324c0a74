//! Owners of processes in cgroup trees as real hosts have them.

use gua_model::{ContainerOwners, OwnerRule};

use super::*;

pub(super) const ID: &str = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970";
pub(super) const POD: &str = "57e67067-89e4-4001-bdd4-8632d39ea02b";
pub(super) const NO_LOGIN: &str = "4294967295";

/// A tree with the files of Docker, Podman and the kubelet, and the names ada, bob (1001) and www-data.
pub(super) fn host() -> FakeProc {
    let tree = FakeProc::new();
    tree.write(
        "passwd",
        "root:x:0:0::/:/bin/sh\nada:x:1000:1000::/:/bin/sh\nbob:x:1001:1001::/:/bin/sh\n\
         www-data:x:33:33::/:/bin/sh\n",
    );
    let docker = format!("host/var/lib/docker/containers/{ID}/config.v2.json");
    tree.write(&docker, r#"{"Name":"/jupyter-ada"}"#);
    let log = format!("host/var/log/pods/ml_train-0_{POD}/main/0.log");
    tree.write(&log, "");
    tree
}

pub(super) fn owners(tree: &FakeProc) -> ProcessTable {
    ProcessTable::of_driver(ProbeOptions {
        proc_root: tree.root(),
        passwd: Passwd::File(tree.path("passwd")),
        state_root: HostRoot(tree.path("host")),
        ..ProbeOptions::default()
    })
}

/// `OWNER by SOURCE`, and ` not LOGIN` for a login that does not count.
pub(super) fn shown(identity: &Identity) -> String {
    let owner = identity.owner().unwrap();
    let claimed = identity.claimed_login.as_ref();
    let claimed = claimed.map_or_else(String::new, |user| format!(" not {}", user.shown()));
    format!("{} by {}{claimed}", owner.shown(), owner.source.as_str())
}

/// A process in a cgroup; `$id` and `$pod` are replaced by the ids of the container and the pod, `$p_o_d` by that of the pod with `_`.
pub(super) fn process(cgroup: &str, uid: u32, login: &str) -> FakeProcess {
    let cgroup = cgroup
        .replace("$id", ID)
        .replace("$pod", POD)
        .replace("$p_o_d", &POD.replace('-', "_"));
    FakeProcess {
        uid: Some(uid),
        login: Some(login.to_owned()),
        cgroup: Some(format!("{cgroup}\n")),
        ..python(4711, 7)
    }
}

#[track_caller]
fn check_owner(cgroup: &str, uid: u32, login: &str, expected: &str) {
    let tree = host();
    tree.put(&process(cgroup, uid, login));
    let identity = owners(&tree).resolve(PID).unwrap();
    assert_eq!(shown(&identity), expected, "{cgroup} {uid} {login}");
}

#[test]
fn a_container_is_the_owner_of_its_processes() {
    let docker = "0::/system.slice/docker-$id.scope";
    check_owner(docker, 33, NO_LOGIN, "container:jupyter-ada by container");
    check_owner(docker, 0, NO_LOGIN, "container:jupyter-ada by container");
    check_owner(
        "12:pids:/docker/$id\n1:name=systemd:/docker/$id\n0::/system.slice/containerd.service",
        33,
        NO_LOGIN,
        "container:jupyter-ada by container",
    );
    check_owner(
        "0::/system.slice/web.service/libpod-payload-$id",
        33,
        NO_LOGIN,
        "container:jupyter-ada by container",
    );
    // A daemon that a user started by hand passes its login on.
    check_owner(
        docker,
        33,
        "1000",
        "container:jupyter-ada by container not ada",
    );
    let unnamed = docker.replace("$id", &ID.replace('4', "5"));
    check_owner(
        &unnamed,
        33,
        NO_LOGIN,
        "container:5f797c539e6c by container",
    );
}

#[test]
fn a_pod_is_the_owner_of_its_processes() {
    for cgroup in [
        "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod$p_o_d.slice/cri-containerd-$id.scope",
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod$p_o_d.slice/crio-$id.scope/container",
        "11:memory:/kubepods/burstable/pod$pod/$id\n1:name=systemd:/kubepods/burstable/pod$pod/$id",
        "0::/system.slice/k3s.service/kubepods-besteffort-pod$p_o_d.slice:cri-containerd:$id",
    ] {
        check_owner(cgroup, 33, NO_LOGIN, "pod:ml/train-0 by pod");
    }
}

#[test]
fn a_rootless_container_belongs_to_the_user_whose_slice_it_is_in() {
    let podman =
        "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-$id.scope/container";
    check_owner(podman, 1000, "1000", "ada by container");
    check_owner(podman, 100_032, "1000", "ada by container");
    check_owner(podman, 100_032, NO_LOGIN, "ada by container");
    let docker = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/docker-$id.scope";
    check_owner(docker, 165_536, NO_LOGIN, "ada by container");
    let unit =
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/web.service/libpod-payload-$id";
    check_owner(unit, 100_032, NO_LOGIN, "ada by container");
}

#[test]
fn a_container_that_a_person_started_without_a_daemon_belongs_to_that_person() {
    let tree = host();
    let cgroup = "0::/machine.slice/libpod-$id.scope/container";
    tree.put(&FakeProcess {
        session: Some(3),
        ..process(cgroup, 33, "1000")
    });
    let forged = owners(&tree).resolve(PID).unwrap();
    assert_eq!(shown(&forged), "container:jupyter-ada by container not ada");
    tree.write("host/run/systemd/sessions/3", "UID=1000\nAUDIT=3\n");
    let identity = owners(&tree).resolve(PID).unwrap();
    assert_eq!(shown(&identity), "ada by login");
}

#[test]
fn a_slurm_job_belongs_to_its_user_no_matter_who_started_the_daemon() {
    let version_1 = "9:memory:/slurm/uid_1001/job_42/step_0\n1:name=systemd:/user.slice/user-1000.slice/session-3.scope";
    check_owner(version_1, 1001, "1000", "bob by job not ada");
    check_owner(version_1, 0, "1000", "bob by job not ada");
    let version_2 = "0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0";
    check_owner(version_2, 1001, "1000", "bob by job not ada");
    check_owner(version_2, 1001, NO_LOGIN, "bob by job");
}

#[test]
fn a_slurm_job_belongs_to_its_user_whatever_its_processes_run_as() {
    let cgroup = "0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0";
    let put = |tree: &FakeProc, pid, parent, comm: &str, uid| {
        tree.put(&FakeProcess {
            pid,
            parent,
            comm: comm.as_bytes().to_vec(),
            ..process(cgroup, uid, "1000")
        });
    };
    // A program by sudo, and a process of a rootless container.
    for uid in [0, 100_032] {
        let tree = host();
        put(&tree, 50, 1, "slurmstepd", 0);
        put(&tree, 51, 50, "bash", 1001);
        put(&tree, 52, 51, "sudo", 0);
        put(&tree, PID.0, 52, "python3", uid);
        let identity = owners(&tree).resolve(PID).unwrap();
        assert_eq!(shown(&identity), "bob by job not ada", "{uid}");
    }
    // A process of that name that is not root's starts no job.
    let tree = host();
    put(&tree, 50, 1, "slurmstepd", 33);
    put(&tree, PID.0, 50, "python3", 1001);
    let identity = owners(&tree).resolve(PID).unwrap();
    assert_eq!(shown(&identity), "bob by job not ada");
}

#[test]
fn a_job_without_a_cgroup_belongs_to_the_user_that_it_runs_as() {
    let tree = host();
    let session = "0::/user.slice/user-1000.slice/session-3.scope";
    let above = |pid, parent, comm: &str, uid| FakeProcess {
        pid,
        parent,
        comm: comm.as_bytes().to_vec(),
        ..process(session, uid, "1000")
    };
    tree.put(&FakeProcess {
        parent: 50,
        ..process(session, 1001, "1000")
    });
    for daemon in ["slurmstepd", "pbs_mom", "condor_starter"] {
        tree.put(&above(50, 1, daemon, 0));
        let identity = owners(&tree).resolve(PID).unwrap();
        assert_eq!(shown(&identity), "bob by process not ada", "{daemon}");
    }
    // A user's own program of that name is no daemon.
    tree.put(&above(50, 1, "slurmstepd", 1000));
    let identity = owners(&tree).resolve(PID).unwrap();
    assert_eq!(shown(&identity), "ada by login");
}

#[test]
fn a_login_counts_only_where_root_confirms_it() {
    let service = "0::/system.slice/cron.service";
    // Set by the process itself: its audit session is its own.
    check_owner(service, 1001, "33", "bob by process not www-data");
    let slice = "0::/user.slice/user-1000.slice/session-3.scope";
    check_owner(slice, 0, "1000", "ada by login");
    check_owner(slice, 0, "33", "root by process not www-data");
    check_owner(service, 1001, "1001", "bob by login");
    check_owner(service, 1001, NO_LOGIN, "bob by process");
}

#[test]
fn logind_confirms_the_login_of_its_own_audit_session_alone() {
    let tree = host();
    tree.write(
        "host/run/systemd/sessions/3",
        "UID=1000\nUSER=ada\nAUDIT=3\n",
    );
    let service = "0::/system.slice/x.service";
    for (session, login, expected) in [
        (3, "1000", "ada by login"),
        (4, "1000", "root by process not ada"),
        (3, "1001", "root by process not bob"),
    ] {
        tree.put(&FakeProcess {
            session: Some(session),
            ..process(service, 0, login)
        });
        let identity = owners(&tree).resolve(PID).unwrap();
        assert_eq!(shown(&identity), expected, "{session} {login}");
    }
}

/// Ancestors from the top: `comm uid login session`, with `-` for no login. The last one is the process.
#[track_caller]
fn check_chain(chain: &[&str], expected: &str) {
    let tree = host();
    let service = "0::/system.slice/x.service";
    for (place, text) in chain.iter().enumerate() {
        let words: Vec<&str> = text.split(' ').collect();
        let place = u32::try_from(place).unwrap();
        let is_last = usize::try_from(place).unwrap() + 1 == chain.len();
        let (login, session) = match words[2] {
            "-" => (NO_LOGIN, u32::MAX),
            login => (login, words[3].parse().unwrap()),
        };
        tree.put(&FakeProcess {
            pid: if is_last { PID.0 } else { 50 + place },
            parent: if place == 0 { 1 } else { 49 + place },
            comm: words[0].as_bytes().to_vec(),
            session: Some(session),
            ..process(service, words[1].parse().unwrap(), login)
        });
    }
    let identity = owners(&tree).resolve(PID).unwrap();
    assert_eq!(shown(&identity), expected, "{chain:?}");
}

#[test]
fn the_ancestors_confirm_a_login_where_root_began_the_session() {
    // sshd without logind, and a root shell by sudo.
    let sshd = [
        "sshd 0 -",
        "sshd 0 1000 3",
        "bash 1000 1000 3",
        "sudo 0 1000 3",
        "python 0 1000 3",
    ];
    check_chain(&sshd, "ada by login");
    // A cron job sets the login uid of another user, and runs a set-uid program afterwards.
    let forged = [
        "cron 0 -",
        "sh 1001 -",
        "sh 1001 1000 9",
        "su 0 1000 9",
        "python 0 1000 9",
    ];
    check_chain(&forged, "root by process not ada");
    // The process that set it has ended.
    check_chain(
        &["sudo 0 1000 9", "python 1001 1000 9"],
        "bob by process not ada",
    );
    check_chain(
        &["sh 1001 -", "python 1001 1000 9"],
        "bob by process not ada",
    );
}

#[test]
fn the_setting_restores_the_uid_as_the_owner_of_a_container() {
    let tree = host();
    tree.put(&process("0::/system.slice/docker-$id.scope", 33, NO_LOGIN));
    let policy = OwnerPolicy {
        containers: ContainerOwners::Uid,
        ..OwnerPolicy::default()
    };
    let identity = ProcessTable {
        policy,
        ..owners(&tree)
    }
    .resolve(PID)
    .unwrap();
    assert_eq!(shown(&identity), "www-data by process");
}

#[test]
fn rules_assign_containers_pods_namespaces_and_paths() {
    let rule = |change: fn(&mut OwnerRule)| {
        let mut rule = OwnerRule {
            owner: "vision".to_owned(),
            ..OwnerRule::default()
        };
        change(&mut rule);
        rule
    };
    let docker = "0::/system.slice/docker-$id.scope";
    let pod = "0::/kubepods.slice/kubepods-pod$p_o_d.slice/cri-containerd-$id.scope";
    for (cgroup, rule) in [
        (
            docker,
            rule(|rule| rule.container = Some("jupyter-*".to_owned())),
        ),
        (pod, rule(|rule| rule.pod = Some("ml/train-?".to_owned()))),
        (pod, rule(|rule| rule.namespace = Some("ml".to_owned()))),
        (
            pod,
            rule(|rule| rule.cgroup = Some("/kubepods.slice/**".to_owned())),
        ),
    ] {
        let tree = host();
        tree.put(&process(cgroup, 33, NO_LOGIN));
        let policy = OwnerPolicy {
            rules: vec![rule],
            ..OwnerPolicy::default()
        };
        let identity = ProcessTable {
            policy,
            ..owners(&tree)
        }
        .resolve(PID)
        .unwrap();
        assert_eq!(shown(&identity), "vision by rule", "{cgroup}");
        assert_eq!(
            identity.own.map(|user| user.shown()),
            Ok("www-data".to_owned())
        );
    }
}
