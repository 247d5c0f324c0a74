//! The lines of the lower table: processes or users, sorted and filtered.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use gua_model::text::sanitize;
use gua_model::{
    Bytes, Gpu, Identity, Missing, OwnerKey, Percent, Pid, Process, ProcessKey, ProcessKind,
    Reading, RollUp, Sample, Thresholds, User, classify,
};

use crate::surroundings::Surroundings;

/// One process on one GPU, or one job on several.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProcessRow {
    pub(crate) gpu: String,
    /// Position of the GPU in the sample.
    pub(crate) place: usize,
    pub(crate) pid: Pid,
    pub(crate) key: Option<ProcessKey>,
    /// User that it runs as, and its owner.
    pub(crate) own: Option<User>,
    pub(crate) owner: Option<OwnerKey>,
    pub(crate) kind: ProcessKind,
    pub(crate) memory: Reading<Bytes>,
    pub(crate) sm: Reading<Option<Percent>>,
    pub(crate) age: Option<Duration>,
    pub(crate) name: String,
    /// Use of the CPUs, in percent of one, and memory of the host; `None` if they were not looked up.
    pub(crate) cpu: Option<u32>,
    pub(crate) host_memory: Option<Bytes>,
    /// Empty if it is not visible.
    pub(crate) command: String,
    pub(crate) parent: Option<Pid>,
    /// Number of processes in this line: those of a job on several GPUs are one line.
    pub(crate) members: usize,
    /// Job, pod or container.
    pub(crate) workload: String,
    /// Branches in front of the name in a tree.
    pub(crate) branch: String,
    /// Whether it is an ancestor that is on no GPU itself.
    pub(crate) is_ancestor: bool,
}

/// One user with all their processes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UserRow {
    pub(crate) user: String,
    pub(crate) gpus: Vec<String>,
    pub(crate) processes: usize,
    /// Sum over processes; `None` if it is known of none.
    pub(crate) memory: Option<Bytes>,
    /// Number of processes with hidden memory, which the sum lacks.
    pub(crate) hidden: usize,
    /// Sum over processes; `None` if it is known of none.
    pub(crate) sm: Option<u32>,
    /// GPUs of the user that are idle-held now.
    pub(crate) idle_held: Vec<String>,
}

/// Names of the columns that lines can be sorted by.
pub(crate) const SORTED: [&str; 9] = [
    "gpu", "pid", "user", "memory", "sm", "cpu", "ram", "age", "name",
];

pub(crate) fn processes(sample: &Sample, ticks: u64, host: &Surroundings) -> Vec<ProcessRow> {
    let gpus = sample.gpus.iter().enumerate();
    let all = gpus.flat_map(|(place, gpu)| {
        let processes = gpu.processes.iter();
        processes.map(move |process| (place, gpu, process))
    });
    let row = |(place, gpu, process): (usize, &Gpu, &Process)| {
        let name = match &process.identity {
            Ok(Identity { comm: Ok(comm), .. }) => comm.clone(),
            Ok(_) => "?".to_owned(),
            Err(Missing::Gone) => "(exited)".to_owned(),
            Err(_) => "(not visible)".to_owned(),
        };
        let identity = process.identity.as_ref().ok();
        let workload = identity.and_then(|identity| identity.workload.in_short());
        let found = identity.and_then(|identity| host.processes.get(&identity.key));
        ProcessRow {
            gpu: gpu.place.label(gpu.index),
            place,
            pid: process.pid,
            key: identity.map(|identity| identity.key),
            own: identity.and_then(|identity| identity.own.clone().ok()),
            owner: identity.and_then(|identity| Some(identity.owner()?.who)),
            kind: process.kind,
            memory: process.memory,
            sm: process.sm_util,
            age: identity.and_then(|identity| identity.age(sample.since_boot, ticks)),
            name,
            cpu: found.and_then(|found| found.cpu_percent),
            host_memory: found.map(|found| found.memory),
            command: found.map_or_else(String::new, |found| sanitize(&found.command)),
            parent: found.map(|found| found.parent),
            members: 1,
            workload: workload.unwrap_or_default(),
            branch: String::new(),
            is_ancestor: false,
        }
    };
    all.map(row).collect()
}

/// Returns the sum of the values that are known; `None` if none is.
pub(crate) fn known_sum<T: std::iter::Sum>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values = values.peekable();
    values.peek().is_some().then(|| values.sum())
}

pub(crate) fn user_name(owner: Option<&OwnerKey>) -> String {
    owner.map_or_else(|| "?".to_owned(), |owner| sanitize(&owner.shown()))
}

/// Reports whether a line contains the text, ignoring case.
pub(crate) fn matches(row: &ProcessRow, filter: &str) -> bool {
    let wanted = filter.to_lowercase();
    let has = |text: &str| text.to_lowercase().contains(&wanted);
    has(&row.name)
        || has(&row.command)
        || has(&user_name(row.owner.as_ref()))
        || has(&row.workload)
        || row.pid.to_string().contains(&wanted)
        || wanted.strip_prefix("gpu").is_some_and(|gpu| gpu == row.gpu)
}

/// Sorts by one of [`SORTED`].
pub(crate) fn sort(rows: &mut [ProcessRow], column: &str, descending: bool) {
    // A missing value comes last in either direction.
    fn known<T: Ord>(one: Option<T>, other: Option<T>, descending: bool) -> Ordering {
        match (one, other) {
            (Some(one), Some(other)) if descending => other.cmp(&one),
            (Some(one), Some(other)) => one.cmp(&other),
            (one, other) => one.is_none().cmp(&other.is_none()),
        }
    }
    let name = |row: &ProcessRow| row.owner.as_ref().map(|owner| owner.shown().into_owned());
    let sm = |row: &ProcessRow| row.sm.ok().flatten();
    rows.sort_by(|one, other| {
        let wished = match column {
            "pid" => known(Some(one.pid), Some(other.pid), descending),
            "user" => known(name(one), name(other), descending),
            "memory" => known(one.memory.ok(), other.memory.ok(), descending),
            "sm" => known(sm(one), sm(other), descending),
            "cpu" => known(one.cpu, other.cpu, descending),
            "ram" => known(one.host_memory, other.host_memory, descending),
            "age" => known(one.age, other.age, descending),
            "name" => known(Some(&one.name), Some(&other.name), descending),
            _ => known(Some(one.place), Some(other.place), descending),
        };
        wished
            .then_with(|| one.place.cmp(&other.place))
            .then_with(|| known(one.memory.ok(), other.memory.ok(), true))
            .then_with(|| one.pid.cmp(&other.pid))
    });
}

pub(crate) fn users(sample: &Sample, rows: &[ProcessRow], thresholds: &Thresholds) -> Vec<UserRow> {
    let is_idle_held = |place: usize| {
        let gpu = sample.gpus.get(place);
        let state = gpu.map(|gpu| classify(gpu, thresholds, None).state);
        state.is_some_and(|state| state.roll_up() == Some(RollUp::IdleHeld))
    };
    let name = |row: &ProcessRow| user_name(row.owner.as_ref());
    let names: BTreeSet<String> = rows.iter().map(name).collect();
    let mut users: Vec<UserRow> = names
        .into_iter()
        .map(|user| {
            let own = || rows.iter().filter(|row| name(row) == user);
            let gpus: BTreeSet<(usize, &str)> =
                own().map(|row| (row.place, row.gpu.as_str())).collect();
            let idle_held = gpus.iter().filter(|(place, _)| is_idle_held(*place));
            let sm = own().filter_map(|row| row.sm.ok().flatten());
            UserRow {
                processes: own().map(|row| row.pid).collect::<BTreeSet<_>>().len(),
                memory: known_sum(own().filter_map(|row| row.memory.ok())),
                hidden: own().filter(|row| row.memory.is_err()).count(),
                sm: known_sum(sm.map(|sm| u32::from(sm.get()))),
                idle_held: idle_held.map(|(_, gpu)| (*gpu).to_owned()).collect(),
                gpus: gpus.iter().map(|(_, gpu)| (*gpu).to_owned()).collect(),
                user,
            }
        })
        .collect();
    users.sort_by(|one, other| {
        (other.gpus.len(), other.memory)
            .cmp(&(one.gpus.len(), one.memory))
            .then_with(|| one.user.cmp(&other.user))
    });
    users
}
