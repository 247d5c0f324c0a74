//! The tables: their rows, and the conversion of a day of a history to rows.

pub(crate) mod groups;
pub(crate) mod processes;
pub(crate) mod samples;
pub(crate) mod sessions;
pub(crate) mod totals;

use gua_model::legacy::OwnCoverage;
use gua_model::{Micros, Period, RollUp, State, Thresholds};
use gua_query::Records;
use serde::{Deserialize, Serialize};

use crate::column::Column;
use crate::rows::Sink;
use crate::run::Edges;

gua_model::words! {
    /// Tables that can be exported.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum What {
        /// One row for each GPU at each tick.
        Samples = "samples",
        /// One row for each process on each GPU at each tick.
        Processes = "processes",
        /// One row for each process that held a GPU, with its start and end.
        Sessions = "sessions",
        /// One row for each GPU in each quarter hour.
        Totals = "totals",
        /// One row for each user on each GPU in each quarter hour.
        UserTotals = "user-totals",
    }
}

impl What {
    pub fn columns(self) -> &'static [Column] {
        match self {
            What::Samples => &samples::SAMPLES,
            What::Processes => &processes::PROCESSES,
            What::Sessions => &sessions::SESSIONS,
            What::Totals => &totals::TOTALS,
            What::UserTotals => &totals::USER_TOTALS,
        }
    }

    /// Reports whether its rows are read from raw ticks, which are kept for a limited time.
    pub fn needs_ticks(self) -> bool {
        matches!(self, What::Samples | What::Processes)
    }
}

/// Inputs of all tables.
pub(crate) struct Reading<'a> {
    pub(crate) records: &'a dyn Records,
    pub(crate) thresholds: Thresholds,
    pub(crate) own_ticks: OwnCoverage,
    pub(crate) edges: Edges,
    /// The whole window of the export.
    pub(crate) window: Period,
    pub(crate) sink: Sink,
}

/// Values of the column `source`.
pub(crate) const OWN: &str = "gua";
pub(crate) const IMPORTED: &str = "imported";

/// Time by state, as the tables divide it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StateTimes {
    pub(crate) active: Micros,
    pub(crate) idle_held: Micros,
    pub(crate) held_unknown: Micros,
    pub(crate) truly_idle: Micros,
    pub(crate) unobserved: Micros,
}

impl StateTimes {
    pub(crate) fn add(&mut self, state: State, time: Micros) {
        *match (state, state.roll_up()) {
            (_, Some(RollUp::Active)) => &mut self.active,
            (_, Some(RollUp::IdleHeld)) => &mut self.idle_held,
            (State::HeldUnknown, None) => &mut self.held_unknown,
            (_, Some(RollUp::TrulyIdle)) => &mut self.truly_idle,
            (_, None) => &mut self.unobserved,
        } += time;
    }

    pub(crate) fn total(self) -> Micros {
        self.active + self.idle_held + self.held_unknown + self.truly_idle + self.unobserved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every table with its columns.
    fn tables() -> Vec<(&'static str, &'static [Column])> {
        let tables = What::ALL.map(|what| (what.as_str(), what.columns()));
        let groups: &'static [Column] = &groups::GROUP_DAYS;
        tables.into_iter().chain([(groups::NAME, groups)]).collect()
    }

    #[test]
    fn the_documentation_lists_every_column_with_its_type() {
        let text = include_str!("../../../docs/export.md");
        for (name, columns) in tables() {
            let section = text.split(&format!("## {name}\n")).nth(1);
            let section = section.unwrap_or_else(|| panic!("no section {name}"));
            let section = section.split("\n## ").next().unwrap_or_default();
            let listed: Vec<&str> = section
                .lines()
                .filter(|line| line.starts_with("| `"))
                .collect();
            let expected: Vec<String> = columns
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
            let rows = expected.join("\n");
            assert_eq!(
                listed, expected,
                "docs/export.md needs these rows in section {name}:\n{rows}"
            );
        }
    }

    #[test]
    fn names_of_columns_are_unique_and_carry_units() {
        for (_, columns) in tables() {
            let mut names: Vec<&str> = columns.iter().map(|column| column.name).collect();
            assert!(names.iter().all(|name| {
                name.chars()
                    .all(|letter| letter.is_ascii_lowercase() || letter == '_')
            }));
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), columns.len());
        }
    }
}
