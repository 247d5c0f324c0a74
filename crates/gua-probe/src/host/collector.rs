//! Other programs that read the GPUs of this host.
//!
//! A Python program shows up as `python3`, so this module reads the command lines of other processes. They are compared
//! and dropped: only a name from a fixed list and a pid leave this module.

use gua_model::Pid;
use schemars::JsonSchema;
use serde::Serialize;

use super::{HostRoot, read};

/// Maximum length of a command line that is read; enough to recognise a collector.
const LIMIT: u64 = 4096;
/// Maximum length of a process's short name in the kernel.
const COMM: usize = 15;

/// The daemon of `gua`.
pub const GUA: &str = "gua daemon";
/// The Python tool that `gua` replaces.
pub const GPU_USAGE_AUDIT: &str = "gpu-usage-audit (Python)";
/// Other programs that collect GPU readings, by their short names.
const OTHERS: [(&str, &str); 5] = [
    ("dcgm-exporter", "dcgm-exporter"),
    ("nv-hostengine", "nv-hostengine (DCGM)"),
    ("nvidia_gpu_exporter", "nvidia_gpu_exporter"),
    ("nvitop-exporter", "nvitop-exporter"),
    ("all-smi", "all-smi"),
];

/// Another collector on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Collector {
    pub name: &'static str,
    #[schemars(with = "u32")]
    pub pid: Pid,
}

/// Returns all collectors that are visible in `/proc`, sorted. Hidden processes are not found.
pub fn collectors(root: &HostRoot) -> Vec<Collector> {
    let Ok(entries) = std::fs::read_dir(root.join("proc")) else {
        return Vec::new();
    };
    let ourselves = std::process::id();
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut running: Vec<Collector> = pids
        .filter(|pid| *pid != ourselves)
        .filter_map(|pid| {
            let directory = root.join("proc").join(pid.to_string());
            let comm = read(&directory.join("comm"), LIMIT).ok()?;
            // Reading arguments can block on a stuck process, so it is done for few.
            let words = match needs_arguments(&comm) {
                true => read(&directory.join("cmdline"), LIMIT).unwrap_or_default(),
                false => Vec::new(),
            };
            Some(Collector {
                name: recognise(&comm, &words)?,
                pid: Pid(pid),
            })
        })
        .collect();
    running.sort_by_key(|one| (one.name, one.pid));
    running
}

/// Reports whether a process with this short name can only be recognised by its arguments.
fn needs_arguments(comm: &[u8]) -> bool {
    let comm = comm.trim_ascii();
    comm.starts_with(b"python") || comm == b"gua" || comm == b"gpu-usage-audit"
}

/// Recognises a collector by the short name and the zero-separated arguments of a process.
pub fn recognise(comm: &[u8], arguments: &[u8]) -> Option<&'static str> {
    let words: Vec<&[u8]> = arguments.split(|byte| *byte == 0).collect();
    let says = |word: &[u8]| words.contains(&word);
    let comm = comm.trim_ascii();
    // The short name of a script is the script's, and its interpreter comes first among the arguments.
    let is_script = words
        .first()
        .is_some_and(|word| file_name(word).starts_with(b"python"));
    // The collector of `gua` has the same arguments, so that the Python tool recognises it.
    let is_python = is_script || comm.starts_with(b"python");
    if is_python && says(b"daemon") && is_python_tool(&words) {
        return Some(GPU_USAGE_AUDIT);
    }
    let named = |name: &str| comm == &name.as_bytes()[..name.len().min(COMM)];
    let collects = (named("gua") && (says(b"daemon") || says(b"start")))
        || (named("gpu-usage-audit") && says(b"daemon"));
    if collects {
        return Some(match is_script {
            true => GPU_USAGE_AUDIT,
            false => GUA,
        });
    }
    let found = OTHERS.into_iter().find(|(name, _)| named(name));
    found.map(|(_, shown)| shown)
}

/// Matches `python -m gpu_usage_audit` and its modules.
fn is_python_tool(words: &[&[u8]]) -> bool {
    words.windows(2).any(|pair| {
        let module = pair[1].strip_prefix(b"gpu_usage_audit");
        pair[0] == b"-m" && module.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
    })
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(comm: &str, arguments: &str, expected: Option<&str>) {
        let arguments = arguments.replace(' ', "\0") + "\0";
        assert_eq!(
            recognise(format!("{comm}\n").as_bytes(), arguments.as_bytes()),
            expected,
            "{comm}: {arguments:?}"
        );
    }

    #[test]
    fn the_python_tool_is_distinguished_from_gua() {
        let python = Some(GPU_USAGE_AUDIT);
        check(
            "gua",
            "gua __collect -m gpu_usage_audit daemon --db /x",
            Some(GUA),
        );
        check(
            "python3",
            "/usr/bin/python3 -m gpu_usage_audit daemon --foreground",
            python,
        );
        check(
            "python3",
            "/usr/bin/python3 -m gpu_usage_audit.cli daemon",
            python,
        );
        check(
            "gua",
            "/usr/bin/python3.12 /home/ada/.local/bin/gua daemon --foreground",
            python,
        );
        check(
            "gpu-usage-audit",
            "/usr/bin/python3 /usr/bin/gpu-usage-audit daemon",
            python,
        );
        check("gua", "/usr/bin/gua daemon --foreground", Some(GUA));
        check("gua", "gua start", Some(GUA));
        check(
            "gua",
            "gua __collect -m gpu_usage_audit daemon --foreground",
            Some(GUA),
        );
    }

    #[test]
    fn reading_a_report_is_not_collecting() {
        check("gua", "gua report --since 1h", None);
        check("gua", "gua __reader", None);
        check("python3", "python3 -m gpu_usage_audit report", None);
        check("python3", "python3 -m gpu_usage_auditor daemon", None);
        check("vim", "vim gua daemon", None);
        check("", "", None);
    }

    #[test]
    fn other_collectors_are_recognised_by_their_short_name() {
        check("dcgm-exporter", "dcgm-exporter -f x", Some("dcgm-exporter"));
        check(
            "nv-hostengine",
            "nv-hostengine -n",
            Some("nv-hostengine (DCGM)"),
        );
        check(
            "nvidia_gpu_expo",
            "nvidia_gpu_exporter",
            Some("nvidia_gpu_exporter"),
        );
        check(
            "nvitop-exporter",
            "python3 nvitop-exporter",
            Some("nvitop-exporter"),
        );
        check("all-smi", "all-smi api", Some("all-smi"));
    }

    #[test]
    fn a_process_tree_yields_names_and_pids_alone() {
        let directory = tempfile::tempdir().unwrap();
        let root = HostRoot(directory.path().to_owned());
        assert_eq!(collectors(&root), []);
        let process = |pid: &str, comm: &str, arguments: &str| {
            let directory = root.join("proc").join(pid);
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("comm"), comm).unwrap();
            std::fs::write(directory.join("cmdline"), arguments).unwrap();
        };
        process("12", "nv-hostengine\n", "nv-hostengine\0");
        process("7", "gua\n", "gua\0daemon\0--token\0secret\0");
        process("9", "bash\n", "bash\0");
        let python = "/usr/bin/python3\0-m\0gpu_usage_audit\0daemon\0";
        process("30", "python3.12\n", python);
        process("31", "python3.12\n", "python3.12\0train.py\0");
        std::fs::create_dir_all(root.join("proc/8")).unwrap();
        std::fs::create_dir_all(root.join("proc/sys")).unwrap();
        let expected = [
            Collector {
                name: GPU_USAGE_AUDIT,
                pid: Pid(30),
            },
            Collector {
                name: GUA,
                pid: Pid(7),
            },
            Collector {
                name: "nv-hostengine (DCGM)",
                pid: Pid(12),
            },
        ];
        assert_eq!(collectors(&root), expected);
    }
}
