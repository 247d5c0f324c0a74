//! The tables of a report: by person, group, project, job, pod, container, GPU, day, hour of the day, week, month or state,
//! and the holders of idle GPUs.

use gua_model::idle::Idle;
use gua_model::report::groups::{GroupKind, WorkloadKind};
use gua_model::report::{CrossRow, PersonRow, Report, ReportedGpu, Sums};
use gua_model::table::{Cell, Table};
use gua_model::{CalendarUnit, Micros, OwnerTotal, RollUp, State};
use jiff::Timestamp;

use super::labels;
use crate::document::{Hours, Kilowatthours, Percent, Share, documents, rows};
use crate::table::table;

gua_model::words! {
    /// Rows of the table, with the value of `--by`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum By {
        User = "user",
        Gpu = "gpu",
        Day = "day",
        Hour = "hour",
        Week = "week",
        Month = "month",
        State = "state",
        Group = "group",
        Project = "project",
        Job = "job",
        Pod = "pod",
        Container = "container",
        Idle = "idle",
    }
}

impl By {
    /// Rows that combine people or processes.
    pub const GROUPS: [Self; 5] = [By::Group, By::Project, By::Job, By::Pod, By::Container];

    /// The calendar unit into which the window is divided for this table.
    pub fn unit(self) -> Option<CalendarUnit> {
        match self {
            By::Day => Some(CalendarUnit::Day),
            By::Week => Some(CalendarUnit::Week),
            By::Month => Some(CalendarUnit::Month),
            _ => None,
        }
    }

    /// The kind of workload that the rows are, if they are workloads.
    pub fn workload(self) -> Option<WorkloadKind> {
        match self {
            By::Job => Some(WorkloadKind::Job),
            By::Pod => Some(WorkloadKind::Pod),
            By::Container => Some(WorkloadKind::Container),
            _ => None,
        }
    }

    /// The kind of group that the rows are, if they are groups of people.
    pub fn group(self) -> Option<GroupKind> {
        match self {
            By::Group => Some(GroupKind::Group),
            By::Project => Some(GroupKind::Project),
            _ => None,
        }
    }

    /// Whether the rows are in order of their size, so that the first ones matter most.
    pub(super) fn is_ranked(self) -> bool {
        let is_sum = self.workload().is_some() || self.group().is_some();
        is_sum || matches!(self, By::User | By::Gpu | By::Idle)
    }
}

rows! {
    /// Hours and energy of one person.
    pub struct PersonSums from (sums: &OwnerTotal) {
        /// GPU-ticks on which the person held a GPU.
        samples: u64 = sums.samples(),
        /// Hours on GPUs in full, however many others were on them.
        held_hours: Hours as "held h" = Hours(sums.hours()),
        /// Held hours in which the GPU was idle-held.
        idle_held_hours: Hours as "idle-held h" = Hours(sums.idle_hours()),
        idle_held_share: Option<Share> as "idle-held" = sums.idle_share().map(Share),
        /// Hours divided equally among the people on each GPU; null where that is not recorded.
        charged_hours: Option<Hours> as "charged h" = sums.charged_time().map(Hours::from),
        energy_kwh: Option<Kilowatthours> as "kWh" = sums.counted_energy().map(Kilowatthours::from),
    }

    /// Hours and energy of GPUs.
    pub struct GpuSums from (sums: &Sums, gap: Option<Micros>) {
        /// GPU-ticks.
        samples: u64 = sums.samples(),
        active_hours: Hours as "active h" = Hours(sums.hours(RollUp::Active)),
        idle_held_hours: Hours as "idle-held h" = Hours(sums.hours(RollUp::IdleHeld)),
        truly_idle_hours: Hours as "truly-idle h" = Hours(sums.hours(RollUp::TrulyIdle)),
        /// Hours held without a utilisation reading.
        held_unknown_hours: Hours as "unknown h" = Hours(sums.unknown_hours()),
        /// Unobserved hours.
        gap_hours: Option<Hours> as "gap h" = gap.map(Hours::from),
        active_share: Option<Share> as "active" = sums.share(RollUp::Active).map(Share),
        idle_held_share: Option<Share> as "idle-held" = sums.share(RollUp::IdleHeld).map(Share),
        truly_idle_share: Option<Share> as "truly-idle" = sums.share(RollUp::TrulyIdle).map(Share),
        util_mean_percent: Option<Percent> as "mean util" = sums.util().map(Percent),
        energy_kwh: Option<Kilowatthours> as "kWh" = sums.counted_energy().map(Kilowatthours::from),
    }

    /// Time and energy in one state.
    pub struct StateRow {
        /// One of the states in docs/states.md, or `gap`.
        state: String,
        hours: Hours,
        share: Option<Share>,
        energy_kwh: Option<Kilowatthours> as "kWh",
    }

    /// For how long a GPU or a holder has been idle; null unless it is idle at the last tick.
    pub struct IdleTime from (idle: Option<Idle>, now: Timestamp) {
        /// Time of its last activity, or else the time at which it was taken.
        idle_since: Option<Timestamp> = idle.map(|idle| idle.since.at),
        /// Whether it may have been idle for longer.
        idle_since_is_bound: Option<bool> = idle.map(|idle| idle.is_bound()),
        idle_seconds: Option<i64> = idle.map(|idle| idle.length(now).as_secs()),
        /// Part of these seconds in which the GPU was not observed.
        idle_unobserved_seconds: Option<u64> =
            idle.map(|idle| idle.unobserved.0 / Micros::PER_SECOND),
    }
}

/// The sums of a row: of the GPUs or, in a report about one person, of that person.
#[derive(Clone, Debug, serde::Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum RowSums {
    Gpu(GpuSums),
    Person(PersonSums),
}

impl RowSums {
    fn new(report: &Report, sums: &Sums, gap: Option<Micros>) -> Self {
        match report.person {
            Some(_) => RowSums::Person(PersonSums::new(&sums.held)),
            None => RowSums::Gpu(GpuSums::new(sums, gap)),
        }
    }
}

documents! {
    /// One person of a report.
    pub struct UserRow from (person: &PersonRow) {
        pub user: String = person.name.clone(),
        #[serde(flatten)]
        pub sums: PersonSums = PersonSums::new(&person.sums),
    }

    /// One GPU of a report.
    pub struct GpuRow from (report: &Report, gpu: &ReportedGpu) {
        pub gpu_uuid: String = gpu.gpu.to_string(),
        pub gpu_index: Option<u32> = gpu.index,
        pub gpu_name: Option<String> = gpu.name.clone(),
        /// Of a MIG instance: its part of the physical GPU, such as `3/7 of GPU 0`. All hours are those of that part.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub gpu_part: Option<String> = gpu.share(),
        #[serde(flatten)]
        pub sums: RowSums = RowSums::new(report, &gpu.sums, gap_of(gpu)),
    }
}

fn gap_of(gpu: &ReportedGpu) -> Option<Micros> {
    (gpu.covered.capacity > Micros(0)).then_some(gpu.covered.gap)
}

/// The people of a report.
pub fn user_rows(report: &Report) -> Vec<UserRow> {
    report.people.iter().map(UserRow::new).collect()
}

/// The GPUs of a report.
pub fn gpu_rows(report: &Report) -> Vec<GpuRow> {
    let gpus = report.gpus.iter();
    gpus.map(|gpu| GpuRow::new(report, gpu)).collect()
}

/// Columns of jobs, pods and containers. Sessions do not say how a shared GPU is charged, or what it drew.
const WORKLOAD_COLUMNS: [&str; 4] = [
    "samples",
    "held_hours",
    "idle_held_hours",
    "idle_held_share",
];

/// The table with all of its rows; the page decides how many it shows.
pub fn table(report: &Report, by: By) -> Table {
    let key = by.as_str();
    match by {
        By::User => people(key, &report.people),
        By::Group | By::Project => people(key, &report.groups),
        By::Job | By::Pod | By::Container => {
            let is_shown = |column: &str| column == key || WORKLOAD_COLUMNS.contains(&column);
            people(key, &report.groups).only_keys(is_shown)
        }
        By::Gpu => gpus(report),
        // A week is named by the date of its Monday.
        By::Day | By::Week => slots(report, key, "%Y-%m-%d"),
        By::Month => slots(report, key, "%Y-%m"),
        By::Hour => hours(report),
        By::State => Table::of(StateRow::COLUMNS, state_rows(report)),
        By::Idle => idle(report),
    }
}

/// Builds a table of people, groups or workloads with their sums.
fn people(key: &'static str, people: &[PersonRow]) -> Table {
    let names = table!(person in people => key => person.name.clone(),);
    let sums = people.iter().map(|person| PersonSums::new(&person.sums));
    names.beside(Table::of(PersonSums::COLUMNS, sums))
}

/// Builds a table of the sums and gaps of GPUs or, in a report about one person, of that person's sums.
fn sums<'a>(report: &Report, rows: impl Iterator<Item = (&'a Sums, Option<Micros>)>) -> Table {
    match report.person {
        Some(_) => {
            let sums = rows.map(|(sums, _)| PersonSums::new(&sums.held));
            Table::of(PersonSums::COLUMNS, sums)
        }
        None => Table::of(
            GpuSums::COLUMNS,
            rows.map(|(sums, gap)| GpuSums::new(sums, gap)),
        ),
    }
}

/// Builds a table of the sums of parts of the window. Without capacity, there are no gaps.
fn sums_over_time<'a>(report: &Report, rows: impl Iterator<Item = (&'a Sums, Micros)>) -> Table {
    let has_capacity = report.coverage.capacity > Micros(0);
    sums(
        report,
        rows.map(|(sums, gap)| (sums, has_capacity.then_some(gap))),
    )
}

fn gpus(report: &Report) -> Table {
    let mut names = table!(gpu in &report.gpus =>
        "gpu_uuid" as "gpu" => gpu.gpu.to_string(),
        "gpu_index" as "#" => gpu.index,
        "gpu_name" as "model" => gpu.name.clone(),
    );
    if report.gpus.iter().any(|gpu| gpu.slice.is_some()) {
        names = names.beside(table!(gpu in &report.gpus => "gpu_part" as "part" => gpu.share(),));
    }
    let gpus = report.gpus.iter();
    names.beside(sums(report, gpus.map(|gpu| (&gpu.sums, gap_of(gpu)))))
}

/// Holders of GPUs that are idle at the last tick, the longest idle first, for CSV and JSON. People see
/// [`super::lists::idle_now`].
fn idle(report: &Report) -> Table {
    let now = report.now.as_ref();
    let now = now.map_or(report.made, |now| now.at);
    let holds = report.idle_now();
    let times = holds.iter().map(|hold| IdleTime::new(hold.idle, now));
    let gpus = table!(hold in &holds =>
        "gpu_uuid" => hold.gpu.to_string(),
        "gpu_index" => hold.index,
    );
    let holders = table!(hold in &holds =>
        "user" => hold.owner.clone(),
        "process" => hold.process.clone(),
        "pid" => hold.pid.map(|pid| pid.0),
        "held_since" => hold.held_since(),
        "peak_memory_bytes" => hold.peak_memory.map(|memory| memory.0),
    );
    gpus.beside(Table::of(IdleTime::COLUMNS, times))
        .beside(holders)
}

fn slots(report: &Report, key: &'static str, form: &str) -> Table {
    let slots = report.slots.iter();
    table!(slot in slots.clone() => key => slot.label.strftime(form).to_string(),).beside(
        sums_over_time(report, slots.map(|slot| (&slot.sums, slot.gap))),
    )
}

/// Hours of the day: all GPUs, the active share of each GPU, and the held hours of each person.
fn hours(report: &Report) -> Table {
    let hours = report.cross.iter();
    let mut table = table!(place in 0..hours.len() => "hour" => format!("{place:02}"),).beside(
        sums_over_time(report, hours.map(|hour| (&hour.sums, hour.gap))),
    );
    if report.person.is_some() {
        return table;
    }
    for (place, gpu) in report.gpus.iter().enumerate() {
        let key = format!("active_share {}", gpu.gpu);
        let title = labels::gpu_name(gpu.index, &gpu.gpu, "#");
        let share = |hour: &CrossRow| hour.gpus.get(place)?.sums.share(RollUp::Active);
        table = table
            .beside(table!(hour in &report.cross => key as title => Cell::share(share(hour)),));
    }
    for (place, PersonRow { name, .. }) in report.people.iter().enumerate() {
        let (key, title) = (format!("held_hours {name}"), format!("{name} h"));
        let hours = |hour: &CrossRow| Some(Cell::Hours(hour.people.get(place)?.hours()));
        table = table.beside(table!(hour in &report.cross => key as title => hours(hour),));
    }
    table
}

/// Returns the positions of the columns of [`hours`] in three lists: the hour and the columns of all GPUs together, the columns
/// of each GPU, and the columns of each person.
pub(super) fn hour_columns(table: &Table) -> [Vec<usize>; 3] {
    let kind = |place: &usize| match table.columns[*place].key.split_once(' ') {
        None => 0,
        Some(("active_share", _)) => 1,
        Some(_) => 2,
    };
    let places = 0..table.columns.len();
    [0, 1, 2].map(|wanted| places.clone().filter(|it| kind(it) == wanted).collect())
}

/// The table of states without those that did not occur, usually most of the eight.
pub(super) fn occurring_states(report: &Report) -> Table {
    let rows = state_rows(report);
    let rows = rows.into_iter().filter(|row| row.hours != Hours(0.0));
    Table::of(StateRow::COLUMNS, rows)
}

/// Each state with its hours and energy, then the gap: together the capacity.
pub fn state_rows(report: &Report) -> Vec<StateRow> {
    let all: f64 = RollUp::ALL
        .map(|class| report.all.hours(class))
        .iter()
        .sum();
    let all = all + report.all.unknown_hours();
    let mut rows = Vec::new();
    let states = State::ALL.into_iter();
    for state in states.filter(|state| *state != State::Unobserved) {
        let sums = report.all.state(state);
        let hours = sums.micros.hours();
        rows.push(StateRow {
            state: state.as_str().to_owned(),
            hours: Hours(hours),
            share: (all > 0.0).then(|| Share(hours / all)),
            energy_kwh: sums.counted_energy().map(Kilowatthours::from),
        });
    }
    if report.coverage.capacity > Micros(0) {
        rows.push(StateRow {
            state: "gap".to_owned(),
            hours: report.coverage.gap.into(),
            share: None,
            energy_kwh: None,
        });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_workloads_are_sums_of_a_person() {
        for key in WORKLOAD_COLUMNS {
            let mut columns = PersonSums::COLUMNS.iter();
            assert!(columns.any(|column| column.key == key), "{key}");
        }
    }

    #[test]
    fn columns_of_the_previous_period_are_not_those_of_a_gpu_or_a_person() {
        let keys = [
            "hour",
            "active_share",
            "active_share GPU-a",
            "held_hours ada l",
            "previous_active_share",
        ];
        let table = Table::new(keys.map(|key| (key, key)));
        assert_eq!(hour_columns(&table), [vec![0, 1, 4], vec![2], vec![3]]);
    }
}
