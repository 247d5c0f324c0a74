//! Ancestors of processes. Short names only, no command lines.

use std::collections::HashMap;

use gua_model::id::Pid;

use super::{ProcRoot, parse};

/// A process and its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    pub parent: Pid,
    /// Short name; empty if the process has none.
    pub name: String,
}

/// Looks up processes and their visible ancestors. Processes that end meanwhile are omitted.
pub fn ancestry(root: &ProcRoot, pids: &[Pid]) -> HashMap<Pid, Ancestor> {
    let mut known = HashMap::new();
    for pid in pids {
        if known.contains_key(pid) {
            continue;
        }
        for (at, comm, stat) in root.chain(*pid, Pid(1)) {
            let parent = Pid(stat.parent);
            let name = parse::comm(&comm).unwrap_or_default();
            known.insert(at, Ancestor { parent, name });
            // The rest of the chain is known too, and is not read again.
            if known.contains_key(&parent) {
                break;
            }
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn put(root: &ProcRoot, pid: u32, parent: u32, name: &str) {
        let directory = root.0.join(pid.to_string());
        fs::create_dir_all(&directory).unwrap();
        let line =
            format!("{pid} ({name}) S {parent} 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0\n");
        fs::write(directory.join("stat"), line).unwrap();
    }

    #[test]
    fn a_parent_is_read_only_when_the_chain_reaches_it() {
        let directory = tempfile::tempdir().unwrap();
        let root = ProcRoot(directory.path().to_owned());
        put(&root, 30, 20, "python");
        let mut chain = root.chain(Pid(30), Pid(2)).map(|(pid, ..)| pid);
        assert_eq!(chain.next(), Some(Pid(30)));
        put(&root, 20, 1, "bash");
        put(&root, 1, 0, "init");
        assert_eq!(chain.collect::<Vec<_>>(), [Pid(20)]);
    }

    #[test]
    fn everyone_above_a_process_is_found_and_brackets_in_names_do_no_harm() {
        let directory = tempfile::tempdir().unwrap();
        let root = ProcRoot(directory.path().to_owned());
        put(&root, 1, 0, "init");
        put(&root, 20, 1, "torchrun (8) x");
        put(&root, 30, 20, "python");
        put(&root, 40, 41, "loop");
        put(&root, 41, 40, "loop");
        let found = ancestry(&root, &[Pid(30), Pid(40), Pid(99)]);
        let mut shown: Vec<_> = found
            .iter()
            .map(|(pid, known)| (pid.0, known.parent.0, known.name.as_str()))
            .collect();
        shown.sort_unstable();
        assert_eq!(
            shown,
            [
                (1, 0, "init"),
                (20, 1, "torchrun (8) x"),
                (30, 20, "python"),
                (40, 41, "loop"),
                (41, 40, "loop")
            ]
        );
    }
}
