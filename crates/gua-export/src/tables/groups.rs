//! One row for each group, project, job, pod or container on each day: the sums of `gua report --by` for that day.

use gua_model::{OwnerTotal, Period};
use jiff::civil::Date;

use crate::column::{about, columns};

/// Sums of one group on one day.
#[derive(Clone, Debug)]
pub struct GroupDay {
    pub date: Date,
    pub period: Period,
    pub host: Option<String>,
    /// `group`, `project`, `job`, `pod` or `container`.
    pub kind: &'static str,
    pub name: String,
    pub sums: OwnerTotal,
    /// Whether charged hours and energy are known: sessions, which jobs, pods and containers are summed from, have none.
    pub is_charged: bool,
}

/// Name of the table, also in file names.
pub(crate) const NAME: &str = "group-days";

columns! {
    GROUP_DAYS(_names): row: GroupDay {
        day_at: Time = "Start of the day, or of its part in the window."; row.period.from(),
        host: Text = about::HOST; row.host.as_deref(),
        kind: Text = "`group`, `project`, `job`, `pod` or `container`."; row.kind,
        name: Text = "Its name; `none` for people without a group, and for processes without a job, pod or container."; row.name.as_str(),
        ticks: Int = "Number of GPU-ticks on which it held a GPU."; row.sums.samples(),
        held_us: Int = "Time in full, however many others were on the GPU."; row.sums.held,
        idle_held_us: Int = "Of the held time, with the GPU idle-held."; row.sums.idle_held,
        charged_us: Int = "Time shared equally among the people on a GPU; absent for jobs, pods, containers and imported rows.";
            row.sums.charged_time().filter(|_| row.is_charged),
        energy_millijoules: Int = "Energy, shared likewise."; row.sums.counted_energy().filter(|_| row.is_charged),
    }
}
