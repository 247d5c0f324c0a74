//! The PID namespace of this process, and whether the driver's process IDs can be looked up in it.
//!
//! The driver reports the PIDs of the host's namespace. In a container the same number is missing or identifies another
//! process, so a PID is looked up only where [`pid_lookup`] allows it.

use gua_model::DriverPids;
use schemars::JsonSchema;
use serde::Serialize;

use super::HostRoot;

/// The kernel's fixed inode number of the initial PID namespace (`PROC_PID_INIT_INO` in `include/linux/proc_ns.h`).
const FIRST: u32 = 0xEFFF_FFFC;

/// The PID namespace of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PidNamespace {
    /// The host's: the kernel's initial namespace.
    Host,
    /// Another one, such as a container's.
    Own,
    /// The kernel does not say.
    Unknown,
}

/// Whether a PID reported by the driver identifies a process that this process sees under the same PID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PidLookup {
    /// Yes: a PID that `/proc` lacks belongs to a process that has ended.
    Same,
    /// No: a lookup would find another process.
    Foreign,
    /// Probably: what is found counts, but a PID that `/proc` lacks proves nothing.
    Unknown,
}

/// Applies the setting `driver.pids` in a PID namespace.
pub fn pid_lookup(setting: DriverPids, namespace: PidNamespace) -> PidLookup {
    match (setting, namespace) {
        (DriverPids::Here, _) | (_, PidNamespace::Host) => PidLookup::Same,
        (_, PidNamespace::Own) | (DriverPids::Host, PidNamespace::Unknown) => PidLookup::Foreign,
        (DriverPids::Auto, PidNamespace::Unknown) => PidLookup::Unknown,
    }
}

/// PID namespace and container engines around this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    pub pid_namespace: PidNamespace,
    /// Container engines that left a marker file.
    pub engines: Vec<&'static str>,
}

/// Determines the namespace and finds the marker files of container engines.
pub fn surroundings(root: &HostRoot) -> Surroundings {
    let link = std::fs::read_link(root.join("proc/self/ns/pid"));
    let pid_namespace = link.map_or(PidNamespace::Unknown, |name| {
        parse_pid_namespace(name.as_os_str().as_encoded_bytes())
    });
    let marks = [
        (root.join(".dockerenv"), "docker"),
        (root.join("run/.containerenv"), "podman"),
        (root.join("run/secrets/kubernetes.io"), "kubernetes"),
        (root.join("run/systemd/container"), "systemd-nspawn or lxc"),
    ];
    let engines = marks.into_iter().filter(|(mark, _)| mark.exists());
    Surroundings {
        pid_namespace,
        engines: engines.map(|(_, engine)| engine).collect(),
    }
}

/// Reads the target of `/proc/self/ns/pid`: `pid:[4026531836]` on the host.
pub fn parse_pid_namespace(name: &[u8]) -> PidNamespace {
    let number = std::str::from_utf8(name).ok().and_then(|name| {
        name.strip_prefix("pid:[")?
            .strip_suffix(']')?
            .parse::<u32>()
            .ok()
    });
    match number {
        Some(FIRST) => PidNamespace::Host,
        Some(_) => PidNamespace::Own,
        None => PidNamespace::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_first_namespace_is_the_hosts() {
        let check = |name: &str, expected| {
            assert_eq!(parse_pid_namespace(name.as_bytes()), expected, "{name}");
        };
        check("pid:[4026531836]", PidNamespace::Host);
        check("pid:[4026532201]", PidNamespace::Own);
        check("pid:[]", PidNamespace::Unknown);
        check("mnt:[4026531836]", PidNamespace::Unknown);
        check("", PidNamespace::Unknown);
    }

    #[test]
    fn the_setting_says_whose_pids_are_looked_up() {
        let check = |setting, expected: [PidLookup; 3]| {
            let namespaces = [PidNamespace::Host, PidNamespace::Own, PidNamespace::Unknown];
            let found = namespaces.map(|namespace| pid_lookup(setting, namespace));
            assert_eq!(found, expected, "{setting:?}");
        };
        use PidLookup::{Foreign, Same, Unknown};
        check(DriverPids::Auto, [Same, Foreign, Unknown]);
        check(DriverPids::Host, [Same, Foreign, Foreign]);
        check(DriverPids::Here, [Same, Same, Same]);
    }

    #[test]
    fn the_marks_of_container_engines_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let root = HostRoot(directory.path().to_owned());
        let nowhere = Surroundings {
            pid_namespace: PidNamespace::Unknown,
            engines: Vec::new(),
        };
        assert_eq!(surroundings(&root), nowhere);
        std::fs::create_dir_all(root.join("proc/self/ns")).unwrap();
        std::os::unix::fs::symlink("pid:[4026532201]", root.join("proc/self/ns/pid")).unwrap();
        std::fs::write(root.join(".dockerenv"), "").unwrap();
        let container = Surroundings {
            pid_namespace: PidNamespace::Own,
            engines: vec!["docker"],
        };
        assert_eq!(surroundings(&root), container);
    }
}
