//! The tables: their rows, and the conversion of a day of a history to rows.

pub(crate) mod processes;
pub(crate) mod samples;
pub(crate) mod sessions;
pub(crate) mod totals;

use gua_model::legacy::{LegacyRun, OwnSince};
use gua_model::{Micros, Period, RollUp, State, Thresholds, Workload};
use gua_store::History;

use crate::column::Column;
use crate::names::Names;
use crate::run::{Edges, Sink};

/// Tables that can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// One row for each GPU at each tick.
    Samples,
    /// One row for each process on each GPU at each tick.
    Processes,
    /// One row for each process that held a GPU, with its start and end.
    Sessions,
    /// One row for each GPU in each quarter hour.
    Totals,
    /// One row for each user on each GPU in each quarter hour.
    UserTotals,
}

impl What {
    pub const ALL: [What; 5] = [
        What::Samples,
        What::Processes,
        What::Sessions,
        What::Totals,
        What::UserTotals,
    ];

    /// Returns the name of the table, also in file names.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            What::Samples => "samples",
            What::Processes => "processes",
            What::Sessions => "sessions",
            What::Totals => "totals",
            What::UserTotals => "user-totals",
        }
    }

    #[must_use]
    pub fn columns(self) -> &'static [Column] {
        match self {
            What::Samples => samples::Sample::COLUMNS,
            What::Processes => processes::ProcessRow::COLUMNS,
            What::Sessions => sessions::SessionRow::COLUMNS,
            What::Totals => totals::TotalRow::COLUMNS,
            What::UserTotals => totals::UserTotalRow::COLUMNS,
        }
    }

    /// Reports whether its rows are read from raw ticks, which are kept for a limited time.
    #[must_use]
    pub fn needs_ticks(self) -> bool {
        matches!(self, What::Samples | What::Processes)
    }
}

/// Inputs of all tables.
pub(crate) struct Reading<'a> {
    pub(crate) history: &'a History,
    pub(crate) thresholds: Thresholds,
    pub(crate) names: Names,
    pub(crate) own_since: OwnSince,
    pub(crate) edges: Edges,
    /// The whole window of the export.
    pub(crate) window: Period,
    pub(crate) sink: Sink,
}

/// Values of the column `source`.
pub(crate) const OWN: &str = "gua";
pub(crate) const IMPORTED: &str = "imported";

/// Returns the time that an imported row covers.
pub(crate) fn interval_of(run: LegacyRun) -> i64 {
    i64::try_from(run.interval.as_micros()).unwrap_or(i64::MAX)
}

pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn micros(time: Micros) -> i64 {
    signed(time.0)
}

/// The five columns of time by state, in their order: active, idle-held, held-unknown, truly idle and unobserved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StateTimes([Micros; 5]);

impl StateTimes {
    pub(crate) fn add(&mut self, state: State, time: Micros) {
        let column = match (state, state.roll_up()) {
            (_, Some(RollUp::Active)) => 0,
            (_, Some(RollUp::IdleHeld)) => 1,
            (State::HeldUnknown, None) => 2,
            (_, Some(RollUp::TrulyIdle)) => 3,
            (_, None) => 4,
        };
        self.0[column] += time;
    }

    pub(crate) fn columns(self) -> [Option<i64>; 5] {
        self.0.map(|time| Some(micros(time)))
    }
}

/// Returns the job, pod and container of a process, in the order of their columns.
pub(crate) fn workload_columns(workload: Option<&Workload>) -> [Option<&str>; 3] {
    let Some(workload) = workload else {
        return [None; 3];
    };
    [
        workload.job.as_ref().map(|job| job.as_str()),
        workload.pod.as_ref().map(|pod| pod.as_str()),
        workload.container.as_ref().map(|it| it.as_str()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_every_column_with_its_type() {
        let text = include_str!("../../../docs/export.md");
        for what in What::ALL {
            let section = text.split(&format!("## {}\n", what.as_str())).nth(1);
            let section = section.unwrap_or_else(|| panic!("no section {}", what.as_str()));
            let section = section.split("\n## ").next().unwrap_or_default();
            let listed: Vec<&str> = section
                .lines()
                .filter(|line| line.starts_with("| `"))
                .collect();
            let expected: Vec<String> = what
                .columns()
                .iter()
                .map(|column| {
                    format!(
                        "| `{}` | {} | {} |",
                        column.name,
                        column.kind.as_str(),
                        column.about
                    )
                })
                .collect();
            assert_eq!(listed, expected, "{}", what.as_str());
        }
    }

    #[test]
    fn names_of_columns_are_unique_and_carry_units() {
        for what in What::ALL {
            let mut names: Vec<&str> = what.columns().iter().map(|column| column.name).collect();
            assert!(names.iter().all(|name| {
                name.chars()
                    .all(|letter| letter.is_ascii_lowercase() || letter == '_')
            }));
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), what.columns().len());
        }
    }
}
