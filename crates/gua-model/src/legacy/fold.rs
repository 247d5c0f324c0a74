//! Folds imported rows into quarter totals, as a stream with one quarter hour in memory at a time.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::coverage::ImportedCoverage;
use super::sessions::{GpuRows, ImportedSession};
use super::{LegacyGpuTick, LegacyMoment, LegacyProcess, OwnCoverage, is_active};
use crate::classify::Basis;
use crate::lookup::InTurn;
use crate::owner::OwnerKey;
use crate::period::Quarter;
use crate::state::Thresholds;
use crate::total::{GpuQuarter, QuarterTotal};
use crate::unit::Micros;

/// Facts from imported rows about one GPU, besides its states and owners.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedPart {
    /// Number of rows, and of rows at or over the threshold, for the heat map: a tick may have several.
    pub rows: u64,
    pub active_rows: u64,
    /// Time that these rows cover.
    pub row_time: Micros,
    pub active_time: Micros,
    /// Whether any row is of a process that only draws.
    pub has_graphics: bool,
    /// `None` if there are process rows only.
    pub coverage: Option<ImportedCoverage>,
    /// Sessions, as far as their rows are in this total: [`OpenSessions`](super::OpenSessions) joins them.
    pub sessions: Vec<ImportedSession>,
}

impl ImportedPart {
    fn add(&mut self, tick: &LegacyGpuTick<'_>, rule: &Thresholds, interval: Micros) {
        for util in std::iter::once(&tick.util).chain(tick.more_rows) {
            self.rows += 1;
            self.row_time += interval;
            if is_active(*util, rule) {
                self.active_rows += 1;
                self.active_time += interval;
            }
        }
        self.has_graphics |= tick.processes.iter().any(|row| !row.kind.computes());
        self.cover(&ImportedCoverage::of_tick(tick.at, interval));
    }

    fn cover(&mut self, later: &ImportedCoverage) {
        match &mut self.coverage {
            Some(coverage) => coverage.merge(later),
            None => self.coverage = Some(later.clone()),
        }
    }

    /// Adds what later rows say.
    pub fn merge(&mut self, later: &Self) {
        self.rows += later.rows;
        self.active_rows += later.active_rows;
        self.row_time += later.row_time;
        self.active_time += later.active_time;
        self.has_graphics |= later.has_graphics;
        if let Some(coverage) = &later.coverage {
            self.cover(coverage);
        }
        for session in &later.sessions {
            match self
                .sessions
                .iter_mut()
                .rfind(|mine| mine.pid == session.pid)
            {
                Some(mine) if mine.continues_with(session) => mine.merge(session),
                _ => self.sessions.push(session.clone()),
            }
        }
    }
}

impl QuarterTotal {
    fn add_imported(&mut self, tick: &LegacyGpuTick<'_>, rule: &Thresholds) {
        let interval = tick.run.interval.into();
        let state = (tick.class(rule).into(), Basis::Imported);
        let state = self.states.entry(state);
        state.micros += interval;
        state.ticks += 1;
        self.gpu.ticks += 1;
        for (name, in_use) in tick.identities(rule) {
            // Imported rows have no other owners than these, which the name alone orders.
            let order = |owner: &OwnerKey| owner.name().cmp(&name);
            let owner = self.owners.entry_by(order, || OwnerKey::named(name));
            owner.add_imported(1, in_use, interval);
        }
        let part = self.imported.get_or_insert_default();
        part.add(tick, rule, interval);
    }
}

/// Totals of the current quarter hour. Earlier quarters have already been emitted.
#[derive(Clone, Debug)]
pub struct ImportedFold<'a> {
    rule: Thresholds,
    own: &'a OwnCoverage,
    quarter: Option<Quarter>,
    gpus: InTurn<GpuFold>,
    left_out: u64,
}

/// One GPU. Its total has no imported part if the quarter has no row of the GPU.
#[derive(Clone, Debug, Default)]
struct GpuFold {
    total: QuarterTotal,
    rows: GpuRows,
}

impl GpuFold {
    /// Adds a process of a moment whose rows are all noted.
    fn see(&mut self, at: Timestamp, row: &LegacyProcess<'_>) {
        let part = &mut self.total.imported;
        self.rows.see(at, row, |ended| {
            part.get_or_insert_default().sessions.push(ended);
        });
    }

    /// Completes the quarter hour; `None` if it has no row.
    fn take(&mut self) -> Option<QuarterTotal> {
        let pieces = self.rows.take();
        if !pieces.is_empty() {
            let part = self.total.imported.get_or_insert_default();
            part.sessions.extend(pieces);
        }
        let has_rows = self.total.imported.is_some();
        has_rows.then(|| std::mem::take(&mut self.total))
    }
}

impl<'a> ImportedFold<'a> {
    /// Creates a fold that skips the rows of GPUs that this program observed itself at that time.
    pub fn new(rule: Thresholds, own: &'a OwnCoverage) -> Self {
        Self {
            rule,
            own,
            quarter: None,
            gpus: InTurn::default(),
            left_out: 0,
        }
    }

    /// Adds a moment, which must not come before the last one. A completed quarter hour is passed to `give`, with its
    /// GPUs in the order of their names.
    pub fn push(
        &mut self,
        moment: &LegacyMoment<'_>,
        give: &mut impl FnMut(Quarter, &[GpuQuarter]),
    ) {
        let own = self.own;
        let skipped = own.rest(moment, |rest| self.count(rest, give));
        self.left_out += u64::try_from(skipped).unwrap_or(u64::MAX);
    }

    /// Emits the last quarter hour. Returns the number of ticks that were skipped.
    pub fn finish(mut self, give: &mut impl FnMut(Quarter, &[GpuQuarter])) -> u64 {
        self.give(give);
        self.left_out
    }

    fn count(&mut self, moment: &LegacyMoment<'_>, give: &mut impl FnMut(Quarter, &[GpuQuarter])) {
        let quarter = Quarter::of(moment.at);
        if self.quarter != Some(quarter) {
            self.give(give);
            self.quarter = Some(quarter);
        }
        self.gpus.values_mut().for_each(|gpu| gpu.rows.begin());
        for tick in moment.ticks {
            let gpu = self.gpus.entry(tick.gpu);
            gpu.total.add_imported(tick, &self.rule);
            gpu.rows.note_tick(tick);
        }
        for (gpu, row) in moment.strays {
            self.gpus.entry(gpu).rows.note(row);
        }
        for tick in moment.ticks {
            let gpu = self.gpus.entry(tick.gpu);
            for row in tick.processes {
                gpu.see(moment.at, row);
            }
        }
        for (gpu, row) in moment.strays {
            self.gpus.entry(gpu).see(moment.at, row);
        }
    }

    fn give(&mut self, give: &mut impl FnMut(Quarter, &[GpuQuarter])) {
        let Some(quarter) = self.quarter else {
            return;
        };
        let mut gpus = Vec::new();
        self.gpus.for_each(|gpu, rows| {
            if let Some(total) = rows.take() {
                let gpu = gpu.clone();
                gpus.push(GpuQuarter { gpu, total });
            }
        });
        if !gpus.is_empty() {
            give(quarter, &gpus);
        }
    }
}
