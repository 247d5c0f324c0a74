//! Names of containers and pods, from files of their runtimes that only root can write. Nothing inside a container is
//! read, because its processes choose it.
//!
//! The files are private to root with most runtimes. Where they cannot be read, a container is known by its ID.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gua_model::id::{ContainerId, PodUid};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::parse;
use crate::host;

/// Maximum size of a file.
const MAX_BYTES: u64 = 4 << 20;

/// Time after which a name is read again: containers can be renamed.
const READ_AGAIN: Duration = Duration::from_mins(10);
/// Time after which a name that was not found is looked up again.
const RETRY: Duration = Duration::from_mins(1);
/// Maximum number of cached names.
const MAX_KNOWN: usize = 1000;

/// State directories of containerd: its own, that of k3s and RKE2, and that of MicroK8s.
const CONTAINERD: [&str; 3] = [
    "run/containerd",
    "run/k3s/containerd",
    "var/snap/microk8s/common/run/containerd",
];
/// Directory of the tasks in each of them; below it are namespaces.
const TASKS: &str = "io.containerd.runtime.v2.task";

/// Lists of containers that Podman keeps: those on disk, and those that do not survive a boot.
const PODMAN: [&str; 2] = [
    "var/lib/containers/storage/overlay-containers/containers.json",
    "run/containers/storage/overlay-containers/volatile-containers.json",
];

/// Directory with a directory for each container of Docker.
const DOCKER: &str = "var/lib/docker/containers";

/// Whether the host has files of a container runtime, which only root can read.
pub fn has_container_runtime(root: &Path) -> bool {
    let mut places = PODMAN.iter().chain(&CONTAINERD).chain(&[DOCKER]);
    places.any(|place| root.join(place).exists())
}

/// Cached names below a root directory.
pub(super) struct Containers {
    pub(super) root: PathBuf,
    known: HashMap<String, Known>,
}

struct Known {
    name: Option<String>,
    read_at: Duration,
}

/// Docker's `config.v2.json`.
#[derive(Deserialize)]
struct DockerContainer {
    #[serde(rename = "Name")]
    name: String,
}

/// An entry of Podman's list.
#[derive(Deserialize)]
struct PodmanContainer {
    id: String,
    #[serde(default)]
    names: Vec<String>,
}

/// The configuration of a container for its runtime (OCI).
#[derive(Default, Deserialize)]
struct RuntimeConfig {
    #[serde(default)]
    annotations: HashMap<String, String>,
}

impl Containers {
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root,
            known: HashMap::new(),
        }
    }

    /// Returns the name of a container. LXC has no other ID than the name.
    pub(super) fn container(&mut self, id: &ContainerId, now: Duration) -> Option<String> {
        let id = id.as_str();
        let is_hash = id.len() >= 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        match is_hash {
            false => Some(id.to_owned()),
            true => self.cached(id, now, |root| find_container(root, id)),
        }
    }

    /// Returns `NAMESPACE/NAME` of a pod.
    pub(super) fn pod(
        &mut self,
        uid: &PodUid,
        container: Option<&ContainerId>,
        now: Duration,
    ) -> Option<String> {
        let uid = uid.as_str();
        self.cached(uid, now, |root| {
            let config = || pod_of_container(root, container?.as_str());
            pod_with_logs(root, uid).or_else(config)
        })
    }

    fn cached(
        &mut self,
        id: &str,
        now: Duration,
        find: impl FnOnce(&Path) -> Option<String>,
    ) -> Option<String> {
        if let Some(known) = self.known.get(id) {
            let limit = known.name.as_ref().map_or(RETRY, |_| READ_AGAIN);
            if now.saturating_sub(known.read_at) < limit {
                return known.name.clone();
            }
        }
        let name = find(&self.root).and_then(|name| parse::user_name(&name));
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        let known = Known {
            name: name.clone(),
            read_at: now,
        };
        self.known.insert(id.to_owned(), known);
        name
    }
}

fn find_container(root: &Path, id: &str) -> Option<String> {
    let file = root.join(DOCKER).join(id).join("config.v2.json");
    if let Some(DockerContainer { name }) = json(&file) {
        return Some(name.trim_start_matches('/').to_owned());
    }
    let podman = PODMAN.iter().find_map(|list| {
        let list: Vec<PodmanContainer> = json(&root.join(list))?;
        let found = list.into_iter().find(|container| container.id == id)?;
        found.names.into_iter().next()
    });
    podman.or_else(|| {
        let mut config = containerd_config(root, id)?;
        config.annotations.remove("nerdctl/name")
    })
}

/// The kubelet keeps the logs of a pod in `/var/log/pods/NAMESPACE_NAME_UID`. No part of it contains `_`.
fn pod_with_logs(root: &Path, uid: &str) -> Option<String> {
    let pods = std::fs::read_dir(root.join("var/log/pods")).ok()?;
    pods.flatten().find_map(|entry| {
        let name = entry.file_name();
        let (pod, found) = name.to_str()?.rsplit_once('_')?;
        let (namespace, name) = pod.split_once('_')?;
        (found == uid).then(|| format!("{namespace}/{name}"))
    })
}

/// Finds the pod in the annotations of a container of containerd or CRI-O.
fn pod_of_container(root: &Path, id: &str) -> Option<String> {
    let crio = || {
        let place = "run/containers/storage/overlay-containers";
        json(&root.join(format!("{place}/{id}/userdata/config.json")))
    };
    let config = containerd_config(root, id).or_else(crio)?;
    let keys = [
        (
            "io.kubernetes.cri.sandbox-namespace",
            "io.kubernetes.cri.sandbox-name",
        ),
        ("io.kubernetes.pod.namespace", "io.kubernetes.pod.name"),
    ];
    keys.iter().find_map(|(namespace, name)| {
        let namespace = config.annotations.get(*namespace)?;
        Some(format!("{namespace}/{}", config.annotations.get(*name)?))
    })
}

fn containerd_config(root: &Path, id: &str) -> Option<RuntimeConfig> {
    CONTAINERD.iter().find_map(|place| {
        let namespaces = std::fs::read_dir(root.join(place).join(TASKS)).ok()?;
        namespaces
            .flatten()
            .find_map(|namespace| json(&namespace.path().join(id).join("config.json")))
    })
}

fn json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&host::read(path, MAX_BYTES).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970";
    const POD: &str = "57e67067-89e4-4001-bdd4-8632d39ea02b";

    /// Files below the root, and the names of the container and of the pod that they give.
    fn check(files: &[(&str, &str)], container: Option<&str>, pod: Option<&str>) {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root
                .path()
                .join(name.replace("$id", ID).replace("$pod", POD));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text.replace("$id", ID)).unwrap();
        }
        let mut names = Containers::new(root.path().to_owned());
        let id: ContainerId = ID.parse().unwrap();
        let found = names.container(&id, Duration::ZERO);
        assert_eq!(found.as_deref(), container, "{files:?}");
        let found = names.pod(&POD.parse().unwrap(), Some(&id), Duration::ZERO);
        assert_eq!(found.as_deref(), pod, "{files:?}");
    }

    #[test]
    fn every_runtime_keeps_the_names_of_its_containers() {
        check(&[], None, None);
        let docker =
            r#"{"State":{"Running":true},"ID":"$id","Name":"/jupyter-ada","Driver":"overlay2"}"#;
        let docker = ("var/lib/docker/containers/$id/config.v2.json", docker);
        check(&[docker], Some("jupyter-ada"), None);
        let podman = r#"[{"id":"00","names":["other"]},{"id":"$id","names":["web"],"layer":"x"}]"#;
        for file in PODMAN {
            check(&[(file, podman)], Some("web"), None);
        }
        let nerdctl = r#"{"ociVersion":"1.1.0","annotations":{"nerdctl/name":"train"}}"#;
        let task = "run/containerd/io.containerd.runtime.v2.task/default/$id/config.json";
        check(&[(task, nerdctl)], Some("train"), None);
        check(&[(task, "{damaged")], None, None);
    }

    #[test]
    fn pods_are_named_by_the_kubelets_logs_or_by_their_containers() {
        let logs = "var/log/pods/ml_train-0_$pod/main/0.log";
        check(&[(logs, "")], None, Some("ml/train-0"));
        check(&[("var/log/pods/ml_other_1234/main/0.log", "")], None, None);
        let containerd = r#"{"annotations":{"io.kubernetes.cri.container-type":"container",
            "io.kubernetes.cri.sandbox-name":"train-0","io.kubernetes.cri.sandbox-namespace":"ml"}}"#;
        for place in CONTAINERD {
            let task = format!("{place}/{TASKS}/k8s.io/$id/config.json");
            check(&[(&task, containerd)], None, Some("ml/train-0"));
        }
        let crio = r#"{"annotations":{"io.kubernetes.pod.name":"train-0","io.kubernetes.pod.namespace":"ml"}}"#;
        let place = "run/containers/storage/overlay-containers/$id/userdata/config.json";
        check(&[(place, crio)], None, Some("ml/train-0"));
    }

    #[test]
    fn a_name_is_read_again_after_a_while() {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().join("var/lib/docker/containers").join(ID);
        std::fs::create_dir_all(&place).unwrap();
        let mut names = Containers::new(root.path().to_owned());
        let id: ContainerId = ID.parse().unwrap();
        assert_eq!(names.container(&id, Duration::ZERO), None);
        std::fs::write(place.join("config.v2.json"), r#"{"Name":"/one"}"#).unwrap();
        assert_eq!(names.container(&id, Duration::ZERO), None);
        assert_eq!(names.container(&id, RETRY).as_deref(), Some("one"));
        std::fs::write(place.join("config.v2.json"), r#"{"Name":"/two"}"#).unwrap();
        let soon = READ_AGAIN;
        assert_eq!(names.container(&id, soon).as_deref(), Some("one"));
        let later = RETRY + READ_AGAIN;
        assert_eq!(names.container(&id, later).as_deref(), Some("two"));
    }

    #[test]
    fn a_container_of_lxc_is_called_by_its_name() {
        let mut names = Containers::new(PathBuf::from("/nonexistent"));
        let name = names.container(&"web1".parse().unwrap(), Duration::ZERO);
        assert_eq!(name.as_deref(), Some("web1"));
    }
}
