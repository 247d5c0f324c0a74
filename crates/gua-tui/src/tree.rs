//! The process tree. An ancestor is shown if it is on a GPU, is the direct parent of a process that is, or has several
//! branches; chains of shells in between are left out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gua_model::{Missing, Pid, ProcessKind};

use crate::rows::ProcessRow;

/// An ancestor of a process, as the program looked it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    pub parent: Pid,
    pub name: String,
}

/// All processes on GPUs and their visible ancestors, by pid.
pub type Lineage = HashMap<Pid, Ancestor>;

/// Root of all processes, which is not shown.
const INIT: Pid = Pid(1);

/// Returns the ancestors of a process, the nearest first. A loop, which reused pids can cause, ends it.
fn ancestors(lineage: &Lineage, pid: Pid) -> Vec<Pid> {
    let mut way = Vec::new();
    let mut at = pid;
    while let Some(ancestor) = lineage.get(&at)
        && ancestor.parent > INIT
        && lineage.contains_key(&ancestor.parent)
        && ancestor.parent != pid
        && !way.contains(&ancestor.parent)
    {
        way.push(ancestor.parent);
        at = ancestor.parent;
    }
    way
}

/// Sorts the rows into a tree, with branches in front of their names. Siblings keep the order of `rows`.
pub(crate) fn arrange(rows: Vec<ProcessRow>, lineage: &Lineage) -> Vec<ProcessRow> {
    let mut order: Vec<Pid> = Vec::new();
    for row in &rows {
        if !order.contains(&row.pid) {
            order.push(row.pid);
        }
    }
    let kept = visible_pids(&order, lineage);
    // Children by parent, roots under init, in the order of their first process.
    let mut children: BTreeMap<Pid, Vec<Pid>> = BTreeMap::new();
    for pid in &order {
        let mut child = *pid;
        let way = ancestors(lineage, *pid)
            .into_iter()
            .filter(|pid| kept.contains(pid));
        for parent in way.chain([INIT]) {
            let siblings = children.entry(parent).or_default();
            if !siblings.contains(&child) {
                siblings.push(child);
            }
            child = parent;
        }
    }
    let mut by_pid: HashMap<Pid, Vec<ProcessRow>> = HashMap::new();
    for row in rows {
        by_pid.entry(row.pid).or_default().push(row);
    }
    let mut builder = TreeBuilder {
        children: &children,
        by_pid,
        lineage,
        arranged: Vec::new(),
        added: BTreeSet::new(),
    };
    builder.add_children(INIT, "");
    builder.arranged
}

fn visible_pids(order: &[Pid], lineage: &Lineage) -> BTreeSet<Pid> {
    let holders: BTreeSet<Pid> = order.iter().copied().collect();
    let mut branches: BTreeMap<Pid, BTreeSet<Pid>> = BTreeMap::new();
    let mut parents = BTreeSet::new();
    for pid in order {
        let mut child = *pid;
        for (step, ancestor) in ancestors(lineage, *pid).into_iter().enumerate() {
            if step == 0 {
                parents.insert(ancestor);
            }
            branches.entry(ancestor).or_default().insert(child);
            child = ancestor;
        }
    }
    let part = branches
        .iter()
        .filter(|(_, children)| children.len() > 1)
        .map(|(pid, _)| *pid);
    part.chain(parents).chain(holders).collect()
}

struct TreeBuilder<'a> {
    children: &'a BTreeMap<Pid, Vec<Pid>>,
    by_pid: HashMap<Pid, Vec<ProcessRow>>,
    lineage: &'a Lineage,
    arranged: Vec<ProcessRow>,
    /// Guards against loops, which reused pids can cause.
    added: BTreeSet<Pid>,
}

impl TreeBuilder<'_> {
    fn add_children(&mut self, parent: Pid, indent: &str) {
        let none = Vec::new();
        let children = self.children.get(&parent).unwrap_or(&none);
        for (place, child) in children.iter().enumerate() {
            if !self.added.insert(*child) {
                continue;
            }
            let is_last = place + 1 == children.len();
            let is_root = parent == INIT;
            let (branch, below) = match (is_root, is_last) {
                (true, _) => (String::new(), String::new()),
                (false, true) => (format!("{indent}└─ "), format!("{indent}   ")),
                (false, false) => (format!("{indent}├─ "), format!("{indent}│  ")),
            };
            // A process on two GPUs has two rows.
            match self.by_pid.remove(child) {
                Some(rows) => self.arranged.extend(rows.into_iter().map(|row| ProcessRow {
                    branch: branch.clone(),
                    ..row
                })),
                None => self.arranged.push(self.ancestor(*child, branch)),
            }
            self.add_children(*child, &below);
        }
    }

    fn ancestor(&self, pid: Pid, branch: String) -> ProcessRow {
        let name = self.lineage.get(&pid).map(|ancestor| ancestor.name.clone());
        ProcessRow {
            gpu: String::new(),
            place: usize::MAX,
            pid,
            key: None,
            own: None,
            owner: None,
            kind: ProcessKind::Compute,
            memory: Err(Missing::Unsupported),
            sm: Err(Missing::Unsupported),
            age: None,
            name: name.unwrap_or_else(|| "?".to_owned()),
            cpu: None,
            host_memory: None,
            command: String::new(),
            parent: None,
            members: 1,
            workload: String::new(),
            branch,
            is_ancestor: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::fixture::{gpu, sample_of};
    use crate::rows::processes;
    use crate::surroundings::Surroundings;

    /// Takes `child:parent` pairs and the pids on a GPU; expects one line per row: branch and pid.
    fn check(pairs: &[(u32, u32)], holders: &[u32], expected: &[&str]) {
        let lineage: Lineage = pairs
            .iter()
            .map(|(pid, parent)| {
                (
                    Pid(*pid),
                    Ancestor {
                        parent: Pid(*parent),
                        name: format!("p{pid}"),
                    },
                )
            })
            .collect();
        let list: Vec<(u32, &str, u64)> = holders.iter().map(|pid| (*pid, "ada", 100)).collect();
        let sample = sample_of(1000, vec![gpu(0, "GPU-a", Ok(50), &list)]);
        let rows = arrange(processes(&sample, 100, &Surroundings::default()), &lineage);
        let shown: Vec<String> = rows
            .iter()
            .map(|row| format!("{}{}", row.branch, row.pid))
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn workers_are_listed_under_their_launcher_without_the_shells_between() {
        check(
            &[(100, 1), (200, 100), (300, 200), (400, 300), (401, 300)],
            &[400, 401],
            &["300", "├─ 400", "└─ 401"],
        );
    }

    #[test]
    fn a_holder_is_listed_above_a_holder_that_it_started() {
        check(
            &[(10, 1), (20, 10), (30, 20)],
            &[30, 10],
            &["10", "└─ 20", "   └─ 30"],
        );
    }

    #[test]
    fn a_process_with_an_unknown_parent_is_a_root() {
        check(&[], &[5, 6], &["5", "6"]);
        check(&[(5, 6), (6, 5)], &[5], &["6", "└─ 5"]);
        check(&[(5, 6), (6, 5)], &[5, 6], &["6", "└─ 5"]);
    }
}
