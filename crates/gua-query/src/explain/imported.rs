//! The imported row of gpu-usage-audit that covers a moment.

use std::collections::BTreeMap;

use gua_model::legacy::old_rule;
use gua_model::{GpuUuid, LegacyGpuTick, LegacyProcess, Period};
use jiff::{SignedDuration, Timestamp};

use super::answer::ImportedRow;
use crate::error::RecordsError;
use crate::records::Records;

/// Maximum time before a moment at which the last row of a GPU is searched.
const REACH: SignedDuration = SignedDuration::from_hours(24);

/// Returns the last imported row of each GPU in the day before a moment; if any row covers the moment, the last of those.
pub(super) fn last_rows(
    records: &dyn Records,
    at: Timestamp,
) -> Result<BTreeMap<GpuUuid, ImportedRow>, RecordsError> {
    let from = at.saturating_sub(REACH).unwrap_or(at);
    let mut found = BTreeMap::new();
    records.imported_moments(Period::new(from, Period::at(at).to()), &mut |moment| {
        for tick in moment.ticks {
            let row = row(tick);
            if covers(&row, at) || !found.get(tick.gpu).is_some_and(|known| covers(known, at)) {
                found.insert(tick.gpu.clone(), row);
            }
        }
    })?;
    Ok(found)
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

/// Whether a row covers a moment: it counts for its recorded interval, also where the next one came sooner.
pub(super) fn covers(row: &ImportedRow, at: Timestamp) -> bool {
    Period::starting(row.at, row.interval).contains(at)
}
