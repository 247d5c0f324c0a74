//! Whole `/proc/PID/cgroup` files as container runtimes, Kubernetes and Slurm make them, with the workload and the owner that
//! follow from each.
//!
//! Sources: the kubelet names pods (`pkg/kubelet/cm`, `pod_container_manager_linux.go`) and each runtime the containers below
//! them (`SystemdCgroup` of containerd, `scopePrefix` of CRI-O, `docker-` of Docker); Slurm's trees are described in
//! <https://slurm.schedmd.com/cgroups.html> and <https://slurm.schedmd.com/cgroup_v2.html>, LXC's in `lxc.container.conf(5)`.

use super::owners::{ID, NO_LOGIN, POD, host, owners, process, shown};
use super::*;

/// Controllers of version 1 on a host with systemd.
const VERSION_1: [&str; 12] = [
    "pids",
    "cpuset",
    "net_cls,net_prio",
    "memory",
    "perf_event",
    "blkio",
    "hugetlb",
    "freezer",
    "devices",
    "cpu,cpuacct",
    "rdma",
    "name=systemd",
];

/// A file of version 1 with the same path in every hierarchy.
fn version_1(path: &str) -> String {
    version_1_of(path, |_| true, path)
}

/// A file of version 1 with one path for some controllers and another for the rest.
fn version_1_of(path: &str, has_path: impl Fn(&str) -> bool, rest: &str) -> String {
    let mut text = String::new();
    for (place, name) in VERSION_1.iter().enumerate() {
        let path = if has_path(name) { path } else { rest };
        text.push_str(&format!("{}:{name}:{path}\n", VERSION_1.len() - place));
    }
    text + "0::/"
}

fn version_2(path: &str) -> String {
    format!("0::{path}")
}

/// Compares `WORKLOAD; OWNER by SOURCE` of a process in a cgroup file.
#[track_caller]
fn check(cgroup: &str, uid: u32, login: &str, expected: &str) {
    let tree = host();
    tree.put(&process(cgroup, uid, login));
    let identity = owners(&tree).resolve(PID).unwrap();
    let workload = &identity.workload;
    let container = workload
        .container
        .as_ref()
        .map(|id| format!("container {id}"));
    let pod = workload.pod.as_ref().map(|uid| format!("pod {uid}"));
    let job = workload.job.as_ref().map(|job| format!("job {job}"));
    let found: Vec<String> = [container, pod, job].into_iter().flatten().collect();
    let found = found.join(" ").replace(ID, "$id").replace(POD, "$pod");
    assert_eq!(
        format!("{found}; {}", shown(&identity)),
        expected,
        "{cgroup}"
    );
}

/// Cgroups of pods in the three classes of service, under the kubelet's two cgroup drivers.
const SYSTEMD_PODS: [&str; 3] = [
    "/kubepods.slice/kubepods-pod$p_o_d.slice",
    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod$p_o_d.slice",
    "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod$p_o_d.slice",
];
const CGROUPFS_PODS: [&str; 3] = [
    "/kubepods/pod$pod",
    "/kubepods/burstable/pod$pod",
    "/kubepods/besteffort/pod$pod",
];

#[test]
fn pods_of_every_runtime_driver_and_class_are_known() {
    // containerd, CRI-O (with runc and with crun), Docker with cri-dockerd.
    let of_systemd = [
        "cri-containerd-$id.scope",
        "crio-$id.scope",
        "crio-$id.scope/container",
        "docker-$id.scope",
    ];
    let of_cgroupfs = ["$id", "crio-$id"];
    let mut layouts = Vec::new();
    for pod in SYSTEMD_PODS {
        layouts.extend(of_systemd.map(|container| format!("{pod}/{container}")));
    }
    for pod in CGROUPFS_PODS {
        layouts.extend(of_cgroupfs.map(|container| format!("{pod}/{container}")));
    }
    // The kubelet uses systemd, and containerd does not.
    let mixed = "kubepods-burstable-pod$p_o_d.slice:cri-containerd:$id";
    layouts.push(format!("/system.slice/containerd.service/{mixed}"));
    layouts.push(format!("/system.slice/k3s-agent.service/{mixed}"));
    for path in layouts {
        for cgroup in [version_1(&path), version_2(&path)] {
            check(
                &cgroup,
                0,
                NO_LOGIN,
                "container $id pod $pod; pod:ml/train-0 by pod",
            );
        }
    }
}

/// The agent of a DaemonSet has a cgroup namespace of its own with version 2, so paths begin at its own container.
#[test]
fn an_agent_in_a_pod_finds_the_other_pods() {
    let expected = "container $id pod $pod; pod:ml/train-0 by pod";
    for path in [
        // The agent is best-effort, the other pod best-effort, burstable and guaranteed.
        "/../../kubepods-besteffort-pod$p_o_d.slice/cri-containerd-$id.scope",
        "/../../../kubepods-burstable.slice/kubepods-burstable-pod$p_o_d.slice/crio-$id.scope",
        "/../../../kubepods-pod$p_o_d.slice/cri-containerd-$id.scope",
        "/../../pod$pod/$id",
        "/../../../burstable/pod$pod/$id",
        "/../../../pod$pod/crio-$id",
    ] {
        check(&version_2(path), 0, NO_LOGIN, expected);
    }
    // Nothing above the agent's own cgroup can be trusted to be Slurm's or a user's.
    let job = version_2("/../../../../system.slice/slurmstepd.scope/job_42/step_0/user/task_0");
    check(&job, 1001, NO_LOGIN, "; bob by process");
}

/// A node of kind is a container of Docker: its pods are inside that container.
#[test]
fn pods_of_a_node_in_a_container_belong_to_that_container() {
    let inner = "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod$p_o_d.slice";
    let path = format!("/system.slice/docker-$id.scope/{inner}/cri-containerd-$id.scope");
    check(
        &version_2(&path),
        0,
        NO_LOGIN,
        "container $id; container:jupyter-ada by container",
    );
}

#[test]
fn jobs_of_slurm_are_known_in_both_versions() {
    let expected = "job 42; bob by job";
    let is_slurms = |name: &str| {
        matches!(
            name,
            "memory" | "cpuset" | "devices" | "freezer" | "cpu,cpuacct"
        )
    };
    for path in [
        "/slurm/uid_1001/job_42/step_0/task_0",
        "/slurm/uid_1001/job_42/step_batch/task_0",
        "/slurm/uid_1001/job_42/step_extern",
        "/slurm/uid_1001/job_42/step_interactive/task_0",
        // Several slurmd on one host.
        "/slurm_gpu01/uid_1001/job_42/step_0/task_0",
    ] {
        let cgroup = version_1_of(path, is_slurms, "/system.slice/slurmd.service");
        check(&cgroup, 1001, NO_LOGIN, expected);
        // slurmd was started from a login of ada, which its jobs inherit.
        check(&cgroup, 1001, "1000", "job 42; bob by job not ada");
    }
    for path in [
        "/system.slice/slurmstepd.scope/job_42/step_0/user/task_0",
        "/system.slice/slurmstepd.scope/job_42/step_batch/user/task_0",
        "/system.slice/slurmstepd.scope/job_42/step_extern/user/task_special",
        "/system.slice/slurmstepd.scope/job_42/step_interactive/user/task_0",
        "/system.slice/gpu01_slurmstepd.scope/job_42/step_0/user/task_0",
    ] {
        check(&version_2(path), 1001, NO_LOGIN, expected);
    }
}

/// Apptainer, Singularity, enroot and bubblewrap make no cgroup: their processes stay where the user started them.
#[test]
fn containers_without_a_cgroup_belong_to_the_session_or_the_job() {
    let session = version_2("/user.slice/user-1000.slice/session-3.scope");
    check(&session, 1000, "1000", "; ada by login");
    let job = version_2("/system.slice/slurmstepd.scope/job_42/step_0/user/task_0");
    check(&job, 1001, NO_LOGIN, "job 42; bob by job");
    // Podman without root has no cgroup of its own with version 1 either.
    let session = version_1_of(
        "/user.slice/user-1000.slice/session-3.scope",
        |name| name == "name=systemd",
        "/user.slice",
    );
    check(&session, 100_032, "1000", "; ada by login");
}

#[test]
fn containers_of_root_are_their_own_owners() {
    let expected = "container $id; container:jupyter-ada by container";
    for path in [
        "/docker/$id",
        "/system.slice/docker-$id.scope",
        "/system.slice/nerdctl-$id.scope",
        "/machine.slice/libpod-$id.scope/container",
        "/system.slice/train.service/libpod-payload-$id",
    ] {
        check(&version_1(path), 0, NO_LOGIN, expected);
        check(&version_2(path), 0, NO_LOGIN, expected);
    }
    // With the hybrid layout, the unified hierarchy has the daemon's path.
    let hybrid = version_1("/docker/$id").replace("0::/", "0::/system.slice/containerd.service");
    check(&hybrid, 0, NO_LOGIN, expected);
    for (path, name) in [
        ("/lxc.payload.web1/init.scope", "web1"),
        ("/lxc.payload.web1/system.slice/train.service", "web1"),
        // Proxmox.
        ("/lxc/101/ns/system.slice/train.service", "101"),
    ] {
        let expected = format!("container {name}; container:{name} by container");
        check(&version_1(path), 100_000, NO_LOGIN, &expected);
        check(&version_2(path), 100_000, NO_LOGIN, &expected);
    }
}

#[test]
fn containers_without_root_belong_to_their_user() {
    let service = "/user.slice/user-1000.slice/user@1000.service";
    for below in [
        "user.slice/libpod-$id.scope/container",
        "app.slice/train.service/libpod-payload-$id",
        "app.slice/docker-$id.scope",
        "user.slice/nerdctl-$id.scope",
    ] {
        let cgroup = version_2(&format!("{service}/{below}"));
        check(
            &cgroup,
            100_032,
            NO_LOGIN,
            "container $id; ada by container",
        );
    }
}
