//! Finds a running gpu-usage-audit collector (the Python tool) that writes a given file; gua must not write it as well.

use std::path::Path;

use gua_probe::host::HostRoot;
use gua_probe::host::collector::{GPU_USAGE_AUDIT, collectors};

use crate::managed::command_line;

/// PID of a Python collector that has this file open or was started with it as `--db`. The argument also counts because
/// the open files of other users are hidden, and because a new collector has not created the file yet.
pub fn python_writer(root: &HostRoot, path: &Path) -> Option<u32> {
    let target = path.canonicalize().ok();
    collectors(root)
        .into_iter()
        .filter(|running| running.name == GPU_USAGE_AUDIT)
        .map(|running| running.pid.0)
        .find(|pid| {
            let process = root.join("proc").join(pid.to_string());
            let files = std::fs::read_dir(process.join("fd"));
            let mut open = files
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|file| std::fs::read_link(file.path()).ok());
            open.any(|open| target.as_ref() == Some(&open)) || has_db_argument(root, *pid, path)
        })
}

fn has_db_argument(root: &HostRoot, pid: u32, path: &Path) -> bool {
    let arguments = command_line(&root.join("proc"), pid).unwrap_or_default();
    let is_db = |pair: &[String]| pair[0] == "--db" && Path::new(&pair[1]) == path;
    arguments.windows(2).any(is_db)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_a_python_collector_that_uses_the_file_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let root = HostRoot(directory.path().to_owned());
        let history = directory.path().join("gua.db");
        std::fs::write(&history, "").unwrap();
        let process = |pid: &str, arguments: &str, open: Option<&Path>| {
            let process = root.join("proc").join(pid);
            std::fs::create_dir_all(&process).unwrap();
            std::fs::write(process.join("comm"), "python3\n").unwrap();
            std::fs::write(process.join("cmdline"), arguments.replace(' ', "\0")).unwrap();
            if let Some(open) = open {
                std::fs::create_dir_all(process.join("fd")).unwrap();
                symlink(open, process.join("fd/3")).unwrap();
            }
        };
        let other = directory.path().join("other.db");
        process("10", "python3 train.py", Some(&history));
        process("11", "python3 -m gpu_usage_audit daemon ", Some(&other));
        process(
            "12",
            "python3 -m gpu_usage_audit daemon --db /elsewhere ",
            None,
        );
        assert_eq!(python_writer(&root, &history), None);
        let line = format!(
            "python3 -m gpu_usage_audit daemon --db {} ",
            history.display()
        );
        process("14", &line, None);
        assert_eq!(python_writer(&root, &history), Some(14));
        process("13", "python3 -m gpu_usage_audit daemon ", Some(&history));
        assert_eq!(python_writer(&root, &history), Some(13));
        assert_eq!(
            python_writer(&root, &other),
            None,
            "the file does not exist"
        );
        let line = format!(
            "python3 -m gpu_usage_audit daemon --db {} ",
            other.display()
        );
        process("15", &line, Some(&history));
        assert_eq!(python_writer(&root, &other), Some(15), "not created yet");
    }
}
