//! Quarter hours: one row for each GPU, or for each user on each GPU. They are never deleted, and add up to any report.

use gua_model::{
    Basis, GpuQuarter, GpuUuid, Micros, OwnerKey, OwnerTotal, Period, Quarter, State, StateTotal,
};
use gua_query::RecordsError;
use gua_query::records::{Origin, QuarterVisitor};

use super::{IMPORTED, OWN, Reading, StateTimes, What};
use crate::column::{about, columns};
use crate::rows::Sink;

/// One GPU in one quarter hour.
struct GpuTotal<'a> {
    quarter: Quarter,
    gpu: &'a GpuQuarter,
    times: StateTimes,
    is_own: bool,
    energy: StateTotal,
}

columns! {
    TOTALS(names): row: GpuTotal<'_> {
        quarter_at: Time = about::QUARTER_AT; row.quarter.period().from(),
        host: Text = about::HOST; names.host(),
        source: Text = about::SOURCE; source(row.is_own),
        gpu_uuid: Text = about::GPU; row.gpu.gpu.as_str(),
        gpu_index: Int = about::INDEX_LAST; names.gpu_index(&row.gpu.gpu),
        gpu_name: Text = about::GPU_NAME; names.gpu_name(&row.gpu.gpu),
        mig_parent_uuid: Text = about::MIG_PARENT; row.own(names.gpu_parent(&row.gpu.gpu)).flatten(),
        ticks: Int = "Ticks that began in it."; row.gpu.total.counted_ticks(),
        active_us: Int = "Time active; also stalled and ghost."; row.times.active,
        idle_held_us: Int = "Time idle-held; also orphan-held."; row.times.idle_held,
        held_unknown_us: Int = "Time held without a utilisation reading."; row.times.held_unknown,
        truly_idle_us: Int = "Time truly idle."; row.times.truly_idle,
        unobserved_us: Int = "Time not observed although ticks were taken. Time that no tick covers is in no row."; row.times.unobserved,
        stalled_us: Int = "Of the active time, stalled."; row.own(row.time(|state, _| state == State::Stalled)),
        ghost_us: Int = "Of the active time, without any process."; row.own(row.time(|state, _| state == State::Ghost)),
        orphan_held_us: Int = "Of the idle-held time, held by processes that have exited.";
            row.own(row.time(|state, _| state == State::OrphanHeld)),
        buffered_us: Int = "Part of the observed time that is based on the driver's samples.";
            row.own(row.time(|state, basis| basis == Basis::Buffer && state != State::Unobserved)),
        set_aside_us: Int = "Time of its ticks that belongs to other MIG slices of the same GPU; it is in no state."; row.own(row.gpu.total.gpu.set_aside),
        util_mean_percent: Float = "Mean utilisation."; row.own(row.gpu.total.gpu.util()).flatten(),
        util_known_us: Int = "Time that the mean covers."; row.own(row.gpu.total.gpu.util_known),
        energy_millijoules: Int = "Energy by the driver's counter; of a MIG instance, the part of its slices."; row.own(row.energy.counted_energy()).flatten(),
        energy_known_us: Int = "Time for which it is known."; row.own(row.energy.energy_known),
    }
}

impl GpuTotal<'_> {
    /// Returns a value that imported rows do not have.
    fn own<T>(&self, value: T) -> Option<T> {
        self.is_own.then_some(value)
    }

    fn time(&self, is_it: impl Fn(State, Basis) -> bool) -> Micros {
        let states = self.gpu.total.states.iter();
        let wanted = states.filter(|((state, basis), _)| is_it(*state, *basis));
        wanted.map(|(_, total)| total.micros).sum()
    }
}

/// One user on one GPU in one quarter hour.
struct UserTotal<'a> {
    quarter: Quarter,
    gpu: &'a GpuUuid,
    owner: &'a OwnerKey,
    total: &'a OwnerTotal,
    is_own: bool,
}

columns! {
    USER_TOTALS(names): row: UserTotal<'_> {
        quarter_at: Time = about::QUARTER_AT; row.quarter.period().from(),
        host: Text = about::HOST; names.host(),
        source: Text = about::SOURCE; source(row.is_own),
        gpu_uuid: Text = about::GPU; row.gpu.as_str(),
        gpu_index: Int = about::INDEX_LAST; names.gpu_index(row.gpu),
        user: Text = "Owner; absent if unknown."; (*row.owner != OwnerKey::Unknown).then(|| row.owner.shown()),
        uid: Int = about::UID; row.owner.uid().map(|uid| uid.0),
        ticks: Int = "Ticks that began in it and saw the person on the GPU."; row.total.ticks,
        held_us: Int = "Time in full, however many others were on the GPU."; row.total.held,
        charged_us: Int = "The part of that time in which the GPU was not truly idle, shared equally among the people on the GPU; absent for imported rows.";
            row.is_own.then_some(row.total.charged),
        idle_held_us: Int = "Of the held time, with the GPU idle-held."; row.total.idle_held,
        free_us: Int = "Of the held time, with the GPU free: the person's processes have little memory. It is not charged."; row.total.free,
        energy_millijoules: Int = "Energy, shared equally."; row.total.counted_energy().filter(|_| row.is_own),
        energy_known_us: Int = "Held time for which it is known."; row.is_own.then_some(row.total.energy_known),
    }
}

fn source(is_own: bool) -> &'static str {
    if is_own { OWN } else { IMPORTED }
}

/// Writes the rows of a part of the window. Returns the number of damaged ticks and imported rows, and the window of own totals.
pub(crate) fn rows(
    reading: &mut Reading<'_>,
    what: What,
    (part, old): (Period, Period),
) -> Result<(u64, Period), RecordsError> {
    let (records, thresholds) = (reading.records, reading.thresholds);
    let mut writer = Writer {
        sink: &mut reading.sink,
        what,
        window: part,
    };
    let mut left_out = records.totals(Origin::Imported, old, thresholds, &mut writer)?;
    left_out += records.totals(Origin::Own, part, thresholds, &mut writer)?;
    let window = writer.window;
    reading.sink.check()?;
    Ok((left_out.damaged, window))
}

/// Writes the rows of each quarter.
struct Writer<'a> {
    sink: &'a mut Sink,
    what: What,
    /// The window of own totals.
    window: Period,
}

impl QuarterVisitor for Writer<'_> {
    fn begin(&mut self, window: Period) {
        self.window = window;
    }

    fn quarter(&mut self, quarter: Quarter, gpus: &[GpuQuarter]) {
        for gpu in gpus {
            let total = &gpu.total;
            if self.what == What::UserTotals {
                for (owner, total) in &total.owners {
                    self.sink.push(&UserTotal {
                        quarter,
                        gpu: &gpu.gpu,
                        owner,
                        total,
                        is_own: total.imported.ticks == 0,
                    });
                }
                continue;
            }
            let is_own = total.imported.is_none();
            // Process rows without a row of their GPU count for sessions only.
            if !is_own && total.gpu.ticks == 0 {
                continue;
            }
            let (mut times, mut energy) = (StateTimes::default(), StateTotal::default());
            for ((state, _), total) in &total.states {
                times.add(*state, total.micros);
                energy.merge(total);
            }
            self.sink.push(&GpuTotal {
                quarter,
                gpu,
                times,
                is_own,
                energy,
            });
        }
    }
}
