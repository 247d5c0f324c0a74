//! Quarter hours: one row for each GPU, or for each user on each GPU. They are never deleted, and add up to any report.

use gua_model::{
    Basis, CardQuarter, GpuUuid, Micros, OwnerKey, OwnerTotal, Period, Quarter, QuarterTotal,
    State, StateTotal,
};
use gua_query::records::QuarterVisitor;
use gua_store::ReadError;

use super::{IMPORTED, OWN, Reading, StateTimes, What, micros, signed};
use crate::column::{about, columns};
use crate::error::ExportError;
use crate::names::Names;
use crate::run::Sink;

columns! {
    /// One GPU in one quarter hour.
    TotalRow {
        quarter_at: Time = about::QUARTER_AT,
        host: Text = about::HOST,
        source: Text = about::SOURCE,
        gpu_uuid: Text = about::GPU,
        gpu_index: Int = about::INDEX_LAST,
        gpu_name: Text = about::GPU_NAME,
        mig_parent_uuid: Text = about::MIG_PARENT,
        ticks: Int = "Ticks that began in it.",
        active_us: Int = "Time active; also stalled and ghost.",
        idle_held_us: Int = "Time idle-held; also orphan-held.",
        held_unknown_us: Int = "Time held without a utilisation reading.",
        truly_idle_us: Int = "Time truly idle.",
        unobserved_us: Int = "Time not observed although ticks were taken. Time that no tick covers is in no row.",
        stalled_us: Int = "Of the active time, stalled.",
        ghost_us: Int = "Of the active time, without any process.",
        orphan_held_us: Int = "Of the idle-held time, held by processes that have exited.",
        buffered_us: Int = "Part of the observed time that is based on the driver's samples.",
        set_aside_us: Int = "Time in which its MIG instances were counted instead; it is in no state.",
        util_mean_percent: Float = "Mean utilisation.",
        util_known_us: Int = "Time that the mean covers.",
        energy_millijoules: Int = "Energy by the driver's counter.",
        energy_known_us: Int = "Time for which it is known.",
    }
}

columns! {
    /// One user on one GPU in one quarter hour.
    UserTotalRow {
        quarter_at: Time = about::QUARTER_AT,
        host: Text = about::HOST,
        source: Text = about::SOURCE,
        gpu_uuid: Text = about::GPU,
        gpu_index: Int = about::INDEX_LAST,
        user: Text = "Owner; absent if unknown.",
        uid: Int = about::UID,
        ticks: Int = "Ticks that began in it and saw the person on the GPU.",
        held_us: Int = "Time in full, however many others were on the GPU.",
        charged_us: Int = "The same time shared equally among the people on the GPU; absent for imported rows.",
        idle_held_us: Int = "Of the held time, with the GPU idle-held.",
        energy_millijoules: Int = "Energy, shared equally.",
        energy_known_us: Int = "Held time for which it is known.",
    }
}

pub(crate) fn rows(
    reading: &mut Reading<'_>,
    what: What,
    (part, old): (Period, Period),
) -> Result<(u32, Period), ExportError> {
    let (history, thresholds) = (reading.history, reading.thresholds);
    let mut writer = Writer {
        names: &mut reading.names,
        sink: &mut reading.sink,
        what,
        window: part,
    };
    history.imported(old, thresholds, None, &mut writer)?;
    let damaged = history.visit_totals(part, None, &mut writer);
    let window = writer.window;
    let damaged = damaged.map_err(ReadError::into);
    Ok((reading.sink.settle(damaged)?, window))
}

/// Writes the rows of each quarter.
struct Writer<'a> {
    names: &'a mut Names,
    sink: &'a mut Sink,
    what: What,
    /// The window of own totals.
    window: Period,
}

impl QuarterVisitor for Writer<'_> {
    fn begin(&mut self, window: Period) {
        self.window = window;
    }

    fn quarter(&mut self, quarter: Quarter, cards: &[CardQuarter]) {
        for card in cards {
            if self.what != What::UserTotals {
                // Process rows without a row of their GPU count for sessions only.
                if card.total.card.ticks > 0 || card.total.imported.is_none() {
                    self.sink.push(&of_gpu(quarter, card, self.names));
                }
                continue;
            }
            for (owner, total) in &card.total.owners {
                self.names.look_up(owner.uid());
                self.sink
                    .push(&of_person(quarter, &card.gpu, (owner, total), self.names));
            }
        }
    }
}

fn source(is_imported: bool) -> Option<&'static str> {
    Some(if is_imported { IMPORTED } else { OWN })
}

fn of_gpu<'a>(quarter: Quarter, card: &'a CardQuarter, names: &'a Names) -> TotalRow<'a> {
    let QuarterTotal {
        card: sums,
        states,
        imported,
        ..
    } = &card.total;
    let mut times = StateTimes::default();
    let mut buffered = Micros(0);
    let mut energy = StateTotal::default();
    for ((state, basis), total) in states {
        times.add(*state, total.micros);
        energy.merge(total);
        if *basis == Basis::Buffer && *state != State::Unobserved {
            buffered += total.micros;
        }
    }
    let [active, idle_held, held_unknown, truly_idle, unobserved] = times.columns();
    let row = TotalRow {
        quarter_at: Some(quarter.period().from()),
        host: names.host(),
        source: source(imported.is_some()),
        gpu_uuid: Some(card.gpu.as_str()),
        gpu_index: names.gpu_index(&card.gpu),
        gpu_name: names.gpu_name(&card.gpu),
        // A GPU whose MIG instances were counted in its place for the whole quarter has no row.
        ticks: Some(if states.is_empty() {
            0
        } else {
            signed(sums.ticks)
        }),
        active_us: active,
        idle_held_us: idle_held,
        held_unknown_us: held_unknown,
        truly_idle_us: truly_idle,
        unobserved_us: unobserved,
        ..TotalRow::default()
    };
    if imported.is_some() {
        return row;
    }
    let state = |wanted: State| {
        let of_state = states.iter().filter(|((state, _), _)| *state == wanted);
        Some(micros(of_state.map(|(_, total)| total.micros).sum()))
    };
    TotalRow {
        mig_parent_uuid: names.gpu_parent(&card.gpu),
        stalled_us: state(State::Stalled),
        ghost_us: state(State::Ghost),
        orphan_held_us: state(State::OrphanHeld),
        buffered_us: Some(micros(buffered)),
        set_aside_us: Some(micros(sums.set_aside)),
        util_mean_percent: mean(sums.util_sum, sums.util_known),
        util_known_us: Some(micros(sums.util_known)),
        energy_millijoules: energy.counted_energy().map(|energy| signed(energy.0)),
        energy_known_us: Some(micros(energy.energy_known)),
        ..row
    }
}

/// Returns hundredths of a percent times microseconds, over microseconds, as percent.
#[expect(
    clippy::cast_precision_loss,
    reason = "the last step before a number is written"
)]
fn mean(sum: u128, known: Micros) -> Option<f64> {
    (known > Micros(0)).then(|| sum as f64 / (known.0 as f64 * 100.0))
}

fn of_person<'a>(
    quarter: Quarter,
    gpu: &'a GpuUuid,
    (owner, total): (&'a OwnerKey, &OwnerTotal),
    names: &'a Names,
) -> UserTotalRow<'a> {
    let is_own = total.imported.ticks == 0;
    UserTotalRow {
        quarter_at: Some(quarter.period().from()),
        host: names.host(),
        source: source(!is_own),
        gpu_uuid: Some(gpu.as_str()),
        gpu_index: names.gpu_index(gpu),
        user: owner.name().or_else(|| names.person(owner.uid())),
        uid: owner.uid().map(|uid| uid.0.into()),
        ticks: Some(signed(total.ticks)),
        held_us: Some(micros(total.held)),
        charged_us: is_own.then(|| micros(total.charged)),
        idle_held_us: Some(micros(total.idle_held)),
        energy_millijoules: total
            .counted_energy()
            .filter(|_| is_own)
            .map(|energy| signed(energy.0)),
        energy_known_us: is_own.then(|| micros(total.energy_known)),
        ..UserTotalRow::default()
    }
}
