//! Rows of GPUs and columns of time, in the order in which every format shows them.

use std::collections::BTreeSet;

use gua_model::legacy::in_order;
use gua_model::report::{Covered, CrossRow, PersonRow, ReportedGpu, SlotRow, cross_rows, unseen};
use gua_model::{Coverage, Gap, GpuUuid, Micros};

use super::{Known, Sums};

/// One row for each GPU that was seen or expected in the window.
pub(super) fn gpu_rows(known: &Known<'_>, sums: &Sums) -> Vec<ReportedGpu> {
    let everyone: BTreeSet<&GpuUuid> = sums.fold.gpus.keys().chain(sums.coverage.keys()).collect();
    let mut everyone: Vec<&GpuUuid> = everyone.into_iter().collect();
    everyone.sort_by(|one, other| in_order(one, other));
    let imported = known.imported.as_ref();
    let row = |gpu: &GpuUuid| {
        let (covered, _) = sums.coverage.get(gpu).cloned().unwrap_or_default();
        let gaps = sums.gaps_of(gpu, known);
        let since = sums.since.get(gpu).copied();
        let (index, name) = match known.gpus.get(gpu) {
            Some(gpu) => (gpu.index, gpu.name.clone()),
            None => imported
                .and_then(|facts| facts.gpus.get(gpu))
                .map_or((None, None), |gpu| (gpu.index, gpu.name.clone())),
        };
        let info = known.gpus.get(gpu);
        ReportedGpu {
            gpu: gpu.clone(),
            index,
            name,
            parent: info.and_then(|info| info.parent.clone()),
            slice: info.and_then(|info| info.slice),
            sums: sums.fold.gpus.get(gpu).cloned().unwrap_or_default(),
            covered,
            unseen: unseen(sums.window, since.unwrap_or(sums.window.from()), &gaps),
        }
    };
    let mut gpus: Vec<ReportedGpu> = everyone.into_iter().map(row).collect();
    gpus.retain(|gpu| {
        gpu.covered.capacity > Micros(0) || gpu.sums.samples() > 0 || gpu.sums.held.samples() > 0
    });
    gpus
}

/// Time crossed with GPUs and people, in the order of their rows.
pub(super) fn cross(
    sums: &Sums,
    slots: &[SlotRow],
    gpus: &[ReportedGpu],
    people: &[PersonRow],
) -> Vec<CrossRow> {
    let names: Vec<String> = people.iter().map(|person| person.name.clone()).collect();
    let uuids: Vec<GpuUuid> = gpus.iter().map(|gpu| gpu.gpu.clone()).collect();
    cross_rows(&sums.fold, slots, &uuids, &names, &|gpu| {
        let known = sums.coverage.get(gpu);
        known.map_or(&[], |(_, gaps)| gaps.as_slice())
    })
}

/// The coverage of one GPU as a report has it, and its gaps.
pub(super) fn covered(coverage: Coverage) -> (Covered, Vec<Gap>) {
    let covered = Covered {
        capacity: coverage.capacity,
        observed: coverage.observed(),
        gap: coverage.gap(),
        buffered: coverage.buffered,
        ..Covered::default()
    };
    (covered, coverage.gaps)
}
