//! Passes quarter totals and imported rows to a reader, limited by a view.

use std::collections::BTreeMap;

use gua_model::legacy::{LegacyGpuTick, LegacyProcess};
use gua_model::{GpuDay, GpuQuarter, LegacyMoment, Period, Quarter, UtcDay};

use super::View;
use crate::records::QuarterVisitor;

/// A visitor that receives totals as the viewer may see them.
pub(super) struct Masked<'a> {
    pub(super) view: &'a View,
    pub(super) visitor: &'a mut dyn QuarterVisitor,
}

impl QuarterVisitor for Masked<'_> {
    fn begin(&mut self, window: Period) {
        self.visitor.begin(window);
    }

    fn quarter(&mut self, quarter: Quarter, gpus: &[GpuQuarter]) {
        let mut gpus = gpus.to_vec();
        for gpu in &mut gpus {
            self.view.total(&mut gpu.total);
        }
        self.visitor.quarter(quarter, &gpus);
    }

    fn day(&mut self, day: UtcDay, gpus: &[GpuDay]) -> bool {
        let mut gpus = gpus.to_vec();
        for gpu in &mut gpus {
            self.view.total(&mut gpu.total);
        }
        self.visitor.day(day, &gpus)
    }
}

/// Names as the viewer may see them, by real name.
type Names<'a> = BTreeMap<&'a str, String>;

/// Passes on one moment of imported rows with other people's names replaced and their processes unnamed.
pub(super) fn moment(
    view: &View,
    moment: &LegacyMoment<'_>,
    each: &mut dyn FnMut(&LegacyMoment<'_>),
) {
    let rows = moment.ticks.iter().flat_map(|tick| tick.processes);
    let rows = rows.chain(moment.strays.iter().map(|(_, row)| row));
    let names = rows.flat_map(|row| [row.identity, row.owner]).flatten();
    let names: Names<'_> = names.map(|name| (name, view.name(name))).collect();
    let processes: Vec<Vec<LegacyProcess<'_>>> = moment
        .ticks
        .iter()
        .map(|tick| {
            let rows = tick.processes.iter();
            rows.map(|row| masked(view, &names, row)).collect()
        })
        .collect();
    let ticks = moment.ticks.iter().zip(&processes);
    let ticks: Vec<LegacyGpuTick<'_>> = ticks
        .map(|(tick, processes)| LegacyGpuTick { processes, ..*tick })
        .collect();
    let strays = moment.strays.iter();
    let strays: Vec<_> = strays
        .map(|(gpu, row)| (*gpu, masked(view, &names, row)))
        .collect();
    each(&LegacyMoment {
        at: moment.at,
        ticks: &ticks,
        strays: &strays,
    });
}

fn masked<'n>(view: &View, names: &'n Names<'_>, row: &LegacyProcess<'n>) -> LegacyProcess<'n> {
    let named = |name: Option<&str>| names.get(name?).map(String::as_str);
    let is_own = row.counted_as().is_some_and(|name| view.is_own_name(name));
    LegacyProcess {
        // No process has the id 0.
        pid: if is_own { row.pid } else { 0 },
        identity: named(row.identity),
        owner: named(row.owner),
        name: row.name.filter(|_| is_own),
        ..*row
    }
}
