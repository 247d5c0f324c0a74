//! One line for a job on several GPUs. The processes of a job are those of one Slurm job, pod or container, or those that
//! one parent started with the same command line, as `torchrun` does. The tree shows them one by one.

use gua_model::{Missing, OwnerKey, Percent, Pid, ProcessKey};

use crate::rows::{ProcessRow, known_sum};

/// Property that the processes of one job share.
#[derive(PartialEq)]
enum Same<'a> {
    Workload(Option<&'a OwnerKey>, &'a str),
    Siblings(Option<&'a OwnerKey>, Pid, &'a str),
    Process(Option<ProcessKey>, Pid),
}

fn same(row: &ProcessRow) -> Same<'_> {
    let owner = row.owner.as_ref();
    match row.parent {
        _ if !row.workload.is_empty() => Same::Workload(owner, &row.workload),
        // Processes whose parent has exited are children of init, which started none of them.
        Some(parent) if parent > Pid(1) && !row.command.is_empty() => {
            Same::Siblings(owner, parent, &row.command)
        }
        _ => Same::Process(row.key, row.pid),
    }
}

/// Merges the rows of each job that is on several GPUs. The order stays that of the first rows.
pub(crate) fn merged(rows: Vec<ProcessRow>) -> Vec<ProcessRow> {
    let mut groups: Vec<Vec<ProcessRow>> = Vec::new();
    for row in rows {
        match groups
            .iter_mut()
            .find(|group| same(&group[0]) == same(&row))
        {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups.into_iter().flat_map(of_group).collect()
}

fn of_group(group: Vec<ProcessRow>) -> Vec<ProcessRow> {
    if group.iter().all(|row| row.place == group[0].place) {
        return group;
    }
    let mut gpus: Vec<(usize, &str)> = group
        .iter()
        .map(|row| (row.place, row.gpu.as_str()))
        .collect();
    gpus.sort_unstable();
    gpus.dedup();
    let labels: Vec<&str> = gpus.iter().map(|(_, label)| *label).collect();
    // A process on several GPUs has one share of the host, however many rows it has.
    let mut processes: Vec<&ProcessRow> = Vec::new();
    for row in &group {
        if processes.iter().all(|known| known.pid != row.pid) {
            processes.push(row);
        }
    }
    let sm = || group.iter().filter_map(|row| row.sm.ok()?);
    let sum: u32 = sm().map(|sm| u32::from(sm.get())).sum();
    let count = u32::try_from(sm().count()).unwrap_or(u32::MAX);
    let memory = known_sum(group.iter().filter_map(|row| row.memory.ok()));
    let merged = ProcessRow {
        gpu: ranges(&labels),
        members: processes.len(),
        memory: memory.ok_or(Missing::Failed),
        sm: Ok(sum.checked_div(count).and_then(Percent::new)),
        cpu: known_sum(processes.iter().filter_map(|row| row.cpu)),
        host_memory: known_sum(processes.iter().filter_map(|row| row.host_memory)),
        age: group.iter().filter_map(|row| row.age).max(),
        ..group[0].clone()
    };
    vec![merged]
}

/// Writes labels with ranges of consecutive numbers: `0-3,6`.
fn ranges(labels: &[&str]) -> String {
    let mut parts: Vec<(String, Option<(u32, u32)>)> = Vec::new();
    for label in labels {
        match (label.parse::<u32>().ok(), parts.last_mut()) {
            (Some(number), Some((_, Some((_, last))))) if *last + 1 == number => *last = number,
            (Some(number), _) => parts.push((String::new(), Some((number, number)))),
            (None, _) => parts.push(((*label).to_owned(), None)),
        }
    }
    let part = |(label, range): (String, Option<(u32, u32)>)| match range {
        None => label,
        Some((first, last)) if first == last => first.to_string(),
        Some((first, last)) => format!("{first}-{last}"),
    };
    parts.into_iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use gua_model::Bytes;

    use super::*;
    use crate::app::fixture::{app, gpu, sample_of};
    use crate::surroundings::{ProcessUse, Surroundings};

    #[test]
    fn labels_are_written_as_ranges() {
        let check = |labels: &[&str], expected: &str| assert_eq!(ranges(labels), expected);
        check(&["0"], "0");
        check(&["0", "1", "2", "6"], "0-2,6");
        check(&["0:1", "0:2", "3"], "0:1,0:2,3");
    }

    /// Checks the lines of four GPUs on which ada runs four workers, and bob and ada one process of their own.
    #[test]
    fn workers_of_one_parent_are_one_line_and_other_processes_are_not() {
        let mut app = app();
        let worker = |index: u32, uuid: &str| {
            let mut list = vec![(100 + index, "ada", 1000)];
            if index == 3 {
                list.extend([(200, "bob", 500), (201, "ada", 300)]);
            }
            gpu(index, uuid, Ok(90), &list)
        };
        let gpus = (0..).zip(["GPU-a", "GPU-b", "GPU-c", "GPU-d"]);
        let sample = sample_of(
            1100,
            gpus.map(|(index, uuid)| worker(index, uuid)).collect(),
        );
        let mut processes = HashMap::new();
        for process in sample.gpus.iter().flat_map(|gpu| &gpu.processes) {
            let is_worker = process.pid < Pid(200);
            let use_of = ProcessUse {
                parent: Pid(if is_worker { 50 } else { 60 }),
                cpu_percent: Some(80),
                memory: Bytes::from_mb(2048),
                command: format!("python train.py {}", u32::from(!is_worker) * process.pid.0),
            };
            processes.insert(process.identity.as_ref().unwrap().key, use_of);
        }
        app.take_sample(sample);
        app.take_surroundings(Surroundings {
            processes,
            ..Surroundings::default()
        });
        let lines: Vec<String> = app
            .process_rows()
            .iter()
            .map(|row| format!("{} {} {} {:?}", row.gpu, row.pid, row.members, row.cpu))
            .collect();
        assert_eq!(
            lines,
            [
                "0-3 100 4 Some(320)",
                "3 200 1 Some(80)",
                "3 201 1 Some(80)"
            ]
        );
        let job = &app.process_rows()[0];
        assert_eq!(job.memory, Ok(Bytes::from_mb(4000)));
        assert_eq!(job.host_memory, Some(Bytes::from_mb(8192)));
    }

    #[test]
    fn one_process_on_two_gpus_is_one_line_with_its_memory_on_both() {
        let mut app = app();
        let gpus = vec![
            gpu(0, "GPU-a", Ok(50), &[(10, "ada", 900)]),
            gpu(1, "GPU-b", Ok(0), &[(10, "ada", 500), (12, "cyd", 100)]),
        ];
        app.take_sample(sample_of(1100, gpus));
        let lines: Vec<String> = app
            .process_rows()
            .iter()
            .map(|row| format!("{} {} {:?}", row.gpu, row.pid, row.memory))
            .collect();
        let memory = |mb| format!("{:?}", Ok::<_, Missing>(Bytes::from_mb(mb)));
        assert_eq!(
            lines,
            [
                format!("0-1 10 {}", memory(1400)),
                format!("1 12 {}", memory(100))
            ]
        );
    }
}
