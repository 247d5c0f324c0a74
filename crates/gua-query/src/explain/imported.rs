//! The imported row of gpu-usage-audit that covers a moment.

use gua_model::legacy::old_rule;
use gua_model::{GpuUuid, LegacyGpuTick, LegacyProcess, Period};
use jiff::{SignedDuration, Timestamp};

use super::answer::ImportedRow;
use crate::error::RecordsError;
use crate::records::Records;

/// Maximum time before a moment at which a row that covers it is searched.
const REACH: SignedDuration = SignedDuration::from_hours(1);

/// Maximum time before a moment at which the last row of a GPU is searched.
const LAST_ROW_REACH: SignedDuration = SignedDuration::from_hours(24);

/// The imported rows of all GPUs that cover a moment.
pub(super) fn covering(
    records: &dyn Records,
    at: Timestamp,
) -> Result<Vec<ImportedRow>, RecordsError> {
    let mut found = Vec::new();
    records.imported_moments(window(at, REACH), &mut |moment| {
        let rows = moment.ticks.iter().map(row);
        found.extend(rows.filter(|row| covers(row, at)));
    })?;
    Ok(found)
}

/// The last imported row of a GPU in the day before a moment.
pub(super) fn last_of(
    records: &dyn Records,
    gpu: &GpuUuid,
    at: Timestamp,
) -> Result<Option<ImportedRow>, RecordsError> {
    let mut last = None;
    records.imported_moments(window(at, LAST_ROW_REACH), &mut |moment| {
        let tick = moment.ticks.iter().rfind(|tick| tick.gpu == gpu);
        last = tick.map(row).or(last.take());
    })?;
    Ok(last)
}

fn row(tick: &LegacyGpuTick<'_>) -> ImportedRow {
    let process =
        |process: &LegacyProcess<'_>| (process.identity.map(str::to_owned), process.memory_mb);
    ImportedRow {
        at: tick.at,
        gpu: tick.gpu.clone(),
        index: tick.index.and_then(|index| u32::try_from(index).ok()),
        interval: tick.run.interval,
        util: tick.util,
        class: tick.class(&old_rule()),
        processes: tick.processes.iter().map(process).collect(),
    }
}

fn window(at: Timestamp, reach: SignedDuration) -> Period {
    let from = at.saturating_sub(reach).unwrap_or(at);
    Period::new(from, Period::at(at).to())
}

/// Whether a row covers a moment: it counts for its recorded interval, also where the next one came sooner.
pub(super) fn covers(row: &ImportedRow, at: Timestamp) -> bool {
    Period::starting(row.at, row.interval).contains(at)
}
