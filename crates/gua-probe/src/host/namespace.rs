//! Whether we see the host's processes: the driver names them by the host's numbers, and in a container those mean
//! nothing, or worse, somebody else.

use super::HostRoot;

/// The kernel's fixed number of the first pid namespace (`PROC_PID_INIT_INO` in `include/linux/proc_ns.h`).
const FIRST: u32 = 0xEFFF_FFFC;

/// Whose process numbers we see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PidNamespace {
    /// The host's.
    Host,
    /// Those of a container, or of another namespace within the host.
    Own,
    Unknown,
}

impl PidNamespace {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            PidNamespace::Host => "host",
            PidNamespace::Own => "own",
            PidNamespace::Unknown => "unknown",
        }
    }
}

/// Where this program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    pub pid_namespace: PidNamespace,
    /// The container engines that left a mark in our file system.
    pub engines: Vec<&'static str>,
}

/// Looks for the namespace and for marks of container engines.
#[must_use]
pub fn surroundings(root: &HostRoot) -> Surroundings {
    let link = std::fs::read_link(root.proc.join("self/ns/pid"));
    let pid_namespace = link.map_or(PidNamespace::Unknown, |name| {
        parse_pid_namespace(name.as_os_str().as_encoded_bytes())
    });
    let marks = [
        (root.root.join(".dockerenv"), "docker"),
        (root.run.join(".containerenv"), "podman"),
        (root.run.join("secrets/kubernetes.io"), "kubernetes"),
        (root.run.join("systemd/container"), "systemd-nspawn or lxc"),
    ];
    let engines = marks
        .into_iter()
        .filter(|(mark, _)| mark.exists())
        .map(|(_, engine)| engine)
        .collect();
    Surroundings {
        pid_namespace,
        engines,
    }
}

/// Reads the target of `/proc/self/ns/pid`: `pid:[4026531836]` on the host.
#[must_use]
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
    fn the_marks_of_container_engines_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let root = HostRoot::below(directory.path());
        let nowhere = Surroundings {
            pid_namespace: PidNamespace::Unknown,
            engines: Vec::new(),
        };
        assert_eq!(surroundings(&root), nowhere);
        std::fs::create_dir_all(root.proc.join("self/ns")).unwrap();
        std::os::unix::fs::symlink("pid:[4026532201]", root.proc.join("self/ns/pid")).unwrap();
        std::fs::write(root.root.join(".dockerenv"), "").unwrap();
        let container = Surroundings {
            pid_namespace: PidNamespace::Own,
            engines: vec!["docker"],
        };
        assert_eq!(surroundings(&root), container);
    }
}
