//! The job, pod and container of a process, from the paths in `/proc/PID/cgroup`.
//!
//! A path is parsed from its root, and each part is trusted only if an unprivileged user cannot have chosen it. Below
//! `user-N.slice` the user N names cgroups freely (systemd delegates `user@N.service`), below a container its processes
//! do, and below a service the account that it runs as. There a name can still identify a container, which makes no
//! user accountable; it can no longer identify a user, a job or a pod.
//!
//! A user who controls a container runtime that runs as root chooses the parent cgroup too, and is trusted like root.

use gua_model::id::{ContainerId, PodUid, SlurmJob, Uid};

/// Result of parsing the cgroup paths of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupFacts {
    pub container: Option<ContainerId>,
    pub pod: Option<PodUid>,
    pub job: Option<SlurmJob>,
    /// User that the path names for the job, pod or container. `None` without one of them.
    pub user: Option<Uid>,
    /// User whose slice the process is in, with or without a container.
    pub slice: Option<Uid>,
    /// Whether the container was started without a daemon (Podman), so that its processes have the login of the person
    /// who started it.
    pub is_daemonless: bool,
    /// The paths, for rules of the configuration.
    pub paths: Vec<String>,
}

/// Parses `/proc/PID/cgroup`: one line of version 2, a line per hierarchy of version 1, or both.
///
/// The hierarchies of version 1 can differ (Slurm does not use systemd's), so each value comes from the first line that
/// has it, and the user from the line of the job, else of the pod, else of the container.
pub(super) fn parse(text: &str) -> CgroupFacts {
    // A cgroup's name cannot contain a newline: the kernel rejects it (`cgroup_mkdir`).
    let paths: Vec<&str> = text.lines().filter_map(path_of).collect();
    let lines: Vec<CgroupFacts> = paths.iter().map(|path| facts(path)).collect();
    let job = lines.iter().find(|line| line.job.is_some());
    let pod = lines.iter().find(|line| line.pod.is_some());
    let container = lines.iter().find(|line| line.container.is_some());
    CgroupFacts {
        container: container.and_then(|line| line.container.clone()),
        pod: pod.and_then(|line| line.pod.clone()),
        job: job.and_then(|line| line.job.clone()),
        user: job.or(pod).or(container).and_then(|line| line.user),
        slice: text.lines().find_map(slice),
        is_daemonless: container.is_some_and(|line| line.is_daemonless),
        paths: paths.into_iter().map(str::to_owned).collect(),
    }
}

/// Returns the user of `/user.slice/user-N.slice`. Only root moves a process into the slice of a user, in the hierarchy
/// that systemd manages.
fn slice(line: &str) -> Option<Uid> {
    let controllers = line.split(':').nth(1)?;
    let mut parts = path_of(line)?.strip_prefix("/user.slice/")?.split('/');
    matches!(controllers, "" | "name=systemd").then(|| slice_user(parts.next()?))?
}

fn slice_user(part: &str) -> Option<Uid> {
    uid(part.strip_prefix("user-")?.strip_suffix(".slice")?)
}

/// Parses `hierarchy:controllers:path`. The path may contain colons.
fn path_of(line: &str) -> Option<&str> {
    let path = line.splitn(3, ':').nth(2)?;
    // Suffix that the kernel adds if the cgroup was removed while the process was in it.
    Some(path.strip_suffix(" (deleted)").unwrap_or(path))
}

fn facts(path: &str) -> CgroupFacts {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        // Seen from another cgroup namespace: the start of the path is unknown, so it identifies no user or job.
        ["..", ..] => {
            let hidden = parts.iter().take_while(|part| **part == "..").count();
            inside(&parts[hidden..], Under::Kubernetes)
        }
        ["user.slice", below @ ..] => CgroupFacts {
            user: below.first().and_then(|part| slice_user(part)),
            ..inside(below, Under::Strangers)
        },
        // Slurm with version 1.
        [top, user, job, below @ ..] if is_slurm(top) => {
            let job = slurm_job(job);
            let user = user.strip_prefix("uid_").and_then(uid);
            CgroupFacts {
                user: user.filter(|_| job.is_some()),
                job,
                ..inside(below, Under::Strangers)
            }
        }
        _ => {
            let is_slice = |part: &&&str| part.ends_with(".slice");
            let slices = parts.iter().take_while(is_slice).count();
            match &parts[slices..] {
                // Slurm with version 2, whose path has no user.
                [scope, job, below @ ..] if slices > 0 && is_slurm_scope(scope) => CgroupFacts {
                    job: slurm_job(job),
                    ..inside(below, Under::Strangers)
                },
                _ => inside(&parts, Under::Root),
            }
        }
    }
}

/// Source of the names of the following parts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Under {
    /// Services of root; no pod so far.
    Root,
    /// Kubernetes, so that a pod may follow.
    Kubernetes,
    /// A pod, so that its containers follow.
    Pod,
    /// Any user.
    Strangers,
}

/// Finds the pod and the outermost container. Names inside a container are not trusted.
fn inside(parts: &[&str], mut under: Under) -> CgroupFacts {
    let mut found = CgroupFacts::default();
    let mut above = None;
    for part in parts {
        if matches!(under, Under::Root | Under::Kubernetes) {
            // If the runtime and Kubernetes use different cgroup drivers, one part has both:
            // `kubepods-…-pod<uid>.slice:cri-containerd:<id>`.
            let slice = part.split(':').next().unwrap_or(part);
            found.pod = pod(slice, under);
            under = match found.pod {
                Some(_) => Under::Pod,
                None => next(slice, under),
            };
        }
        found.container = container(part, under).or_else(|| linux_container(above, part));
        if found.container.is_some() {
            found.is_daemonless = part.starts_with("libpod-");
            break;
        }
        above = Some(*part);
    }
    found
}

/// Path components, apart from slices, below which only Kubernetes and services of root choose names.
const OF_ROOT: &str = "kubelet besteffort burstable guaranteed containerd.service crio.service docker.service kubelet.service \
    k3s.service k3s-agent.service rke2-server.service rke2-agent.service";

/// Returns who chooses the names below this part.
fn next(part: &str, under: Under) -> Under {
    let stem = part.strip_suffix(".slice");
    if part == "kubepods" || stem.is_some_and(|stem| stem.split('-').any(|word| word == "kubepods"))
    {
        return Under::Kubernetes;
    }
    match stem.is_some() || OF_ROOT.split(' ').any(|name| name == part) {
        true => under,
        false => Under::Strangers,
    }
}

/// Matches `pod<uid>` below `kubepods`, or `kubepods-burstable-pod<uid>.slice` with `_` for `-`.
fn pod(part: &str, under: Under) -> Option<PodUid> {
    let uid = match part.strip_suffix(".slice") {
        Some(stem) => {
            let (above, uid) = stem.rsplit_once("-pod")?;
            above
                .split('-')
                .any(|word| word == "kubepods")
                .then_some(uid)?
        }
        None if under == Under::Kubernetes => part.strip_prefix("pod")?,
        None => return None,
    };
    let uid = uid.replace('_', "-");
    // A UUID, or 32 digits for a static pod, which is defined by a file on the node.
    let is_uid = matches!(uid.len(), 32 | 36)
        && uid
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_uid.then(|| uid.parse().ok())?
}

/// Matches `docker-<id>.scope`, `libpod-<id>`, `…:cri-containerd:<id>`, `lxc.payload.NAME`, or the bare id. Podman uses `libpod-payload-<id>` in
/// the cgroup of a service (`--cgroups=split`, which is the default of its systemd units).
fn container(part: &str, under: Under) -> Option<ContainerId> {
    const RUNTIMES: &str = "docker containerd cri-containerd crio libpod libpod-payload nerdctl";
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let split = part
        .rsplit_once(':')
        .map(|(above, id)| (above.rsplit(':').next().unwrap_or(above), id));
    let id = match split.or_else(|| name.rsplit_once('-')) {
        // The monitors `libpod-conmon-<id>` and `crio-conmon-<id>` are beside the container, not in it.
        Some((runtime, id)) if RUNTIMES.split(' ').any(|known| known == runtime) => id,
        None if name.len() == 64 || under == Under::Pod => name,
        // Users of LXC choose the names of their containers.
        _ => return part.strip_prefix("lxc.payload.")?.parse().ok(),
    };
    let is_id = (12..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id.parse().ok())?
}

/// Matches the older forms of LXC: `/lxc/NAME`, `/lxc.payload/NAME`.
fn linux_container(above: Option<&str>, part: &str) -> Option<ContainerId> {
    matches!(above, Some("lxc" | "lxc.payload")).then(|| part.parse().ok())?
}

fn is_slurm(part: &str) -> bool {
    part == "slurm" || part.starts_with("slurm_")
}

fn is_slurm_scope(part: &str) -> bool {
    part == "slurmstepd.scope" || part.ends_with("_slurmstepd.scope")
}

fn slurm_job(part: &str) -> Option<SlurmJob> {
    let id = part.strip_prefix("job_")?;
    let is_id = id.starts_with(|first: char| first.is_ascii_digit())
        && id.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    is_id.then(|| id.parse().ok())?
}

fn uid(digits: &str) -> Option<Uid> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number
        .then(|| digits.parse().ok())?
        .filter(|uid| *uid != u32::MAX)
        .map(Uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970";
    const POD: &str = "57e67067-89e4-4001-bdd4-8632d39ea02b";

    /// Replaces `$id` by a container, `$pod` by a pod and `$p_o_d` by the same with `_`.
    fn check(text: &str, expected: &str) {
        let text = text
            .replace("$id", ID)
            .replace("$pod", POD)
            .replace("$p_o_d", &POD.replace('-', "_"));
        let facts = parse(&text);
        let mut words = Vec::new();
        if let Some(id) = &facts.container {
            words.push(format!("container {}", id.as_str().replace(ID, "$id")));
        }
        if let Some(uid) = &facts.pod {
            words.push(format!("pod {}", uid.as_str().replace(POD, "$pod")));
        }
        words.extend(facts.job.map(|job| format!("job {job}")));
        words.extend(facts.user.map(|uid| format!("user {uid}")));
        assert_eq!(facts.paths.len(), text.lines().filter_map(path_of).count());
        assert_eq!(words.join(" "), expected, "{text}");
    }

    #[test]
    fn an_ordinary_process_belongs_to_no_workload() {
        for path in [
            "/",
            "/init.scope",
            "/user.slice/user-1000.slice/session-3.scope",
            "/system.slice/sshd.service",
        ] {
            check(&format!("0::{path}\n"), "");
        }
        check("", "");
        check("0::", "");
        check("nonsense", "");
    }

    #[test]
    fn containers_are_known_by_every_runtimes_path() {
        for path in [
            "/docker/$id",
            "/$id",
            "/system.slice/docker-$id.scope",
            "/system.slice/docker-$id.scope (deleted)",
            "/batch.slice/docker-$id.scope",
            "/system.slice/docker-$id.scope/init.scope",
            "/system.slice/containerd-$id.scope",
            "/system.slice/nerdctl-$id.scope",
            "/machine.slice/libpod-$id.scope/container",
            "/libpod_parent/libpod-$id",
            "/system.slice/web.service/libpod-payload-$id",
            "/system.slice/web.service/libpod-payload-$id/init.scope",
            "/ecs/0b6f8a3c2d1e4f5a9b8c7d6e5f4a3b2c/$id",
            "/../docker-$id.scope",
        ] {
            check(&format!("0::{path}\n"), "container $id");
        }
        check("0::/lxc.payload.web1/init.scope", "container web1");
        check("4:memory:/lxc/101/ns", "container 101");
        check("4:memory:/lxc.payload/web1", "container web1");
    }

    #[test]
    fn a_monitor_beside_a_container_is_not_in_it() {
        for path in [
            "/machine.slice/libpod-conmon-$id.scope",
            "/system.slice/crio-conmon-$id.scope",
            "/lxc.monitor.web1",
        ] {
            check(&format!("0::{path}\n"), "");
        }
    }

    #[test]
    fn pods_are_known_under_either_cgroup_driver() {
        for path in [
            "/kubepods/besteffort/pod$pod/$id",
            "/kubepods/burstable/pod$pod/crio-$id",
            "/kubepods/pod$pod/$id",
            "/kubelet/kubepods/besteffort/pod$pod/$id",
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod$p_o_d.slice/cri-containerd-$id.scope",
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod$p_o_d.slice/crio-$id.scope",
            "/kubepods.slice/kubepods-pod$p_o_d.slice/docker-$id.scope",
            "/kubepods.slice/kubepods-pod$p_o_d.slice/crio-$id.scope/container",
            "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/\
                kubelet-kubepods-besteffort-pod$p_o_d.slice/cri-containerd-$id.scope",
            "/system.slice/containerd.service/kubepods-besteffort-pod$p_o_d.slice:cri-containerd:$id",
            "/system.slice/k3s.service/kubepods-besteffort-pod$p_o_d.slice:cri-containerd:$id",
            "/kubepods-besteffort-pod$p_o_d.slice:cri-containerd:$id",
            "/../../../kubepods-burstable.slice/kubepods-burstable-pod$p_o_d.slice/cri-containerd-$id.scope",
            "/../../pod$pod/$id",
        ] {
            check(&format!("0::{path}\n"), "container $id pod $pod");
        }
        check("0::/kubepods/burstable/pod$pod", "pod $pod");
        check(
            "0::/kubepods/pod2a1b3c4d5e6f708192a3b4c5d6e7f809/$id",
            "container $id pod 2a1b3c4d5e6f708192a3b4c5d6e7f809",
        );
    }

    #[test]
    fn slurm_jobs_are_known_in_both_versions() {
        check(
            "9:devices:/slurm/uid_1000/job_42/step_0/task_0",
            "job 42 user 1000",
        );
        check(
            "9:devices:/slurm_node7/uid_1000/job_42/step_batch",
            "job 42 user 1000",
        );
        check("9:devices:/slurm/uid_1000/job_42", "job 42 user 1000");
        check("9:devices:/slurm/uid_1000", "");
        check("9:devices:/slurm/uid_1000/system", "");
        check(
            "0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0",
            "job 42",
        );
        check(
            "0::/system.slice/node7_slurmstepd.scope/job_42/step_extern/user/task_special",
            "job 42",
        );
        check(
            "0::/gpu.slice/gpu-batch.slice/slurmstepd.scope/job_42_3/step_0",
            "job 42_3",
        );
        check("0::/system.slice/slurmstepd.scope/system", "");
        check(
            "9:devices:/slurm/uid_1000/job_42/step_0/$id",
            "container $id job 42 user 1000",
        );
        check(
            "0::/system.slice/slurmstepd.scope/job_42/step_0/user/libpod-$id.scope",
            "container $id job 42",
        );
    }

    #[test]
    fn a_rootless_container_names_its_user() {
        let manager = "/user.slice/user-1000.slice/user@1000.service";
        check(
            &format!("0::{manager}/user.slice/libpod-$id.scope/container"),
            "container $id user 1000",
        );
        check(
            &format!("0::{manager}/user.slice/user-libpod_pod_7.slice/libpod-$id.scope"),
            "container $id user 1000",
        );
        check(
            &format!("0::{manager}/user.slice/docker-$id.scope"),
            "container $id user 1000",
        );
        check(
            &format!("0::{manager}/app.slice/web.service/libpod-payload-$id"),
            "container $id user 1000",
        );
        check(
            &format!("0::{manager}/app.slice/lxc.payload.web1"),
            "container web1 user 1000",
        );
    }

    #[test]
    fn a_slice_names_its_user_where_root_chose_the_path() {
        let slice = |text: &str| parse(text).slice.map(|uid| uid.0);
        let session = "/user.slice/user-1000.slice/session-3.scope";
        assert_eq!(slice(&format!("0::{session}")), Some(1000));
        let version_1 = format!("4:memory:/user/ada\n1:name=systemd:{session}\n0::/");
        assert_eq!(slice(&version_1), Some(1000));
        assert_eq!(slice(&format!("4:memory:{session}")), None);
        assert_eq!(slice("0::/system.slice/user.slice/user-1000.slice"), None);
        assert_eq!(slice("0::/../user.slice/user-1000.slice"), None);
    }

    #[test]
    fn only_podman_starts_a_container_without_a_daemon() {
        let id = ID;
        for (path, expected) in [
            (format!("/machine.slice/libpod-{id}.scope/container"), true),
            (
                format!("/system.slice/docker-{id}.scope/libpod-{id}"),
                false,
            ),
            (format!("/system.slice/docker-{id}.scope"), false),
        ] {
            assert_eq!(
                parse(&format!("0::{path}")).is_daemonless,
                expected,
                "{path}"
            );
        }
    }

    #[test]
    fn the_hierarchies_of_version_1_are_read_together() {
        let text = "11:memory:/slurm/uid_1000/job_42/step_0\n10:cpuset:/slurm/uid_1000/job_42/step_0\n\
            1:name=systemd:/system.slice/slurmd.service\n0::/system.slice/slurmd.service\n";
        check(text, "job 42 user 1000");
        let text = "12:pids:/docker/$id\n11:cpu,cpuacct:/docker/$id\n1:name=systemd:/docker/$id\n\
            0::/system.slice/containerd.service\n";
        check(text, "container $id");
    }

    #[test]
    fn the_user_comes_from_the_line_of_the_job() {
        let text = "2:memory:/slurm/uid_1007/job_42/step_extern\n1:name=systemd:/user.slice/user-1000.slice/session-1.scope";
        check(text, "job 42 user 1007");
        let text = "2:name=systemd:/user.slice/user-1000.slice/user@1000.service/docker-$id.scope\n\
            1:memory:/slurm/uid_1007/job_42/step_0";
        check(text, "container $id job 42 user 1007");
    }

    /// Names that a user can choose must not change who is accountable.
    #[test]
    fn a_user_cannot_blame_another_by_naming_a_cgroup() {
        for forged in [
            "uid_0/job_99",
            "slurm/uid_0/job_99/step_0",
            "system.slice/slurmstepd.scope/job_99/step_0",
            "user.slice/user-0.slice/user@0.service",
            "user-0.slice",
            "kubepods/besteffort/pod$pod",
            "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod$p_o_d.slice",
            "x:y:/slurm/uid_0/job_99",
            "0::/slurm/uid_0/job_99",
            "x (deleted)",
        ] {
            let user = "0::/user.slice/user-1000.slice/user@1000.service";
            check(&format!("{user}/{forged}"), "");
            check(
                &format!("{user}/{forged}/docker-$id.scope"),
                "container $id user 1000",
            );
            check(
                &format!("0::/user.slice/user-1000.slice/session-1.scope/{forged}"),
                "",
            );
            // Inside a container, below a delegated service, and where pam_cgfs gives users cgroups of version 1.
            check(&format!("0::/docker/$id/{forged}"), "container $id");
            check(
                &format!("0::/system.slice/docker-$id.scope/{forged}"),
                "container $id",
            );
            check(&format!("0::/system.slice/jenkins.service/{forged}"), "");
            check(&format!("0::/user/ada/0/{forged}"), "");
            check(
                &format!("0::/../../user.slice/user-1000.slice/user@1000.service/{forged}"),
                "",
            );
            check(
                &format!("0::/kubepods/pod$pod/$id/{forged}"),
                "container $id pod $pod",
            );
            // Inside a job, where a user may have created a cgroup.
            check(
                &format!("0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0/{forged}"),
                "job 42",
            );
            check(
                &format!("3:memory:/slurm/uid_1007/job_42/step_0/{forged}"),
                "job 42 user 1007",
            );
        }
    }

    #[test]
    fn names_that_only_resemble_are_not_taken() {
        for path in [
            "/slurm/uid_-1/job_x/step_0",
            "/slurm/uid_1000/job_/step_0",
            "/slurmstepd.scope/job_42",
            "/system.slice/slurmstepd.scope/job_42;rm",
            "/kubepods/besteffort/podium/$p_o_d",
            "/system.slice/docker-abc.scope",
            "/system.slice/docker-zz797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970.scope",
            "/lxc.payload.\u{1b}[2J",
            "/../slurm/uid_0/job_99",
            "/../user.slice/user-0.slice",
        ] {
            check(&format!("0::{path}\n"), "");
        }
        check("0::/slurm/uid_4294967295/job_42", "job 42");
        check("0::/slurm/uid_99999999999/job_42", "job 42");
    }
}
