//! Quarter hours: one row for each GPU, or for each user on each GPU. They are never deleted, and add up to any report.

use gua_model::legacy::{LegacyCount, LegacyKey};
use gua_model::{
    Basis, CardQuarter, GpuUuid, LegacyMoment, LegacyQuarters, Micros, OwnerTotal, Period, Quarter,
    QuarterTotal, State, StateTotal, Uid,
};
use gua_store::ReadError;

use super::{IMPORTED, OWN, Reading, StateTimes, What, interval_of, micros, signed};
use crate::column::{about, columns};
use crate::error::ExportError;
use crate::names::Names;

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
        held_unknown_us: Int = "Time held while no utilisation was to be had.",
        truly_idle_us: Int = "Time truly idle.",
        unobserved_us: Int = "Time not observed although ticks were taken. What no tick stands for is in no row.",
        stalled_us: Int = "Of the active time, stalled.",
        ghost_us: Int = "Of the active time, without any process.",
        orphan_held_us: Int = "Of the idle-held time, held by processes that are gone.",
        buffered_us: Int = "Of the observed time, what rests on the driver's samples.",
        set_aside_us: Int = "Time in which MIG instances stood in its place; it is in no state.",
        util_mean_percent: Float = "Mean utilisation.",
        util_known_us: Int = "The time that it is the mean of.",
        energy_millijoules: Int = "Energy by the driver's counter.",
        energy_known_us: Int = "The time that it is known for.",
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
        user: Text = "Who is answerable; absent where nobody can tell.",
        uid: Int = about::UID,
        ticks: Int = "Ticks that began in it and saw the person on the GPU.",
        held_us: Int = "Time in full, however many others were there.",
        charged_us: Int = "The same shared equally among the people on the GPU; absent for imported rows.",
        idle_held_us: Int = "Of the held time, with the GPU idle-held.",
        energy_millijoules: Int = "Energy, shared equally.",
        energy_known_us: Int = "The held time that it is known for.",
    }
}

pub(crate) fn rows(
    reading: &mut Reading<'_>,
    what: What,
    (part, old): (Period, Period),
) -> Result<(u32, Period), ExportError> {
    let Reading {
        history,
        thresholds,
        names,
        own_since,
        sink,
        ..
    } = reading;
    let mut quarters = LegacyQuarters::new(*thresholds);
    let mut give = |key: &LegacyKey, count: &LegacyCount| match what {
        What::UserTotals => {
            for row in people_of_old(key, count, names) {
                sink.push(&row);
            }
        }
        _ => sink.push(&of_old(key, count, names)),
    };
    history.old_moments(old, &mut |moment: &LegacyMoment<'_>| {
        own_since.rest(moment, |rest| quarters.push(rest, &mut give));
    })?;
    quarters.finish(&mut give);

    let step = |_: &mut (), quarter: Quarter, cards: &[CardQuarter]| {
        for card in cards {
            if what != What::UserTotals {
                sink.push(&of_own(quarter, card, names));
                continue;
            }
            for (owner, total) in &card.total.owners {
                names.learn(*owner);
                sink.push(&of_person(quarter, card, (*owner, total), names));
            }
        }
    };
    let folded = history.fold_totals(part, None, |_| (), step);
    let window = folded.as_ref().map_or(part, |folded| folded.window);
    let damaged = folded.map(|folded| folded.ticks_damaged);
    Ok((sink.settle(damaged.map_err(ReadError::into))?, window))
}

fn of_own<'a>(quarter: Quarter, card: &'a CardQuarter, names: &'a Names) -> TotalRow<'a> {
    let QuarterTotal {
        card: sums, states, ..
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
    let state = |wanted: State| {
        let of_state = states.iter().filter(|((state, _), _)| *state == wanted);
        Some(micros(of_state.map(|(_, total)| total.micros).sum()))
    };
    let [active, idle_held, held_unknown, truly_idle, unobserved] = times.columns();
    TotalRow {
        source: Some(OWN),
        mig_parent_uuid: names.card_parent(&card.gpu),
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
        stalled_us: state(State::Stalled),
        ghost_us: state(State::Ghost),
        orphan_held_us: state(State::OrphanHeld),
        buffered_us: Some(micros(buffered)),
        set_aside_us: Some(micros(sums.set_aside)),
        util_mean_percent: mean(sums.util_sum, sums.util_known),
        util_known_us: Some(micros(sums.util_known)),
        energy_millijoules: energy.counted_energy().map(|energy| signed(energy.0)),
        energy_known_us: Some(micros(energy.energy_known)),
        ..of_card(quarter, &card.gpu, names)
    }
}

/// GPU and time of a row, for own and imported ones.
fn of_card<'a>(quarter: Quarter, gpu: &'a GpuUuid, names: &'a Names) -> TotalRow<'a> {
    TotalRow {
        quarter_at: Some(quarter.period().from()),
        host: names.host(),
        gpu_uuid: Some(gpu.as_str()),
        gpu_index: names.card_index(gpu),
        gpu_name: names.card_name(gpu),
        ..TotalRow::default()
    }
}

/// GPU, time and user of a row, for own and imported ones.
fn on_card<'a>(quarter: Quarter, gpu: &'a GpuUuid, names: &'a Names) -> UserTotalRow<'a> {
    UserTotalRow {
        quarter_at: Some(quarter.period().from()),
        host: names.host(),
        gpu_uuid: Some(gpu.as_str()),
        gpu_index: names.card_index(gpu),
        ..UserTotalRow::default()
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
    card: &'a CardQuarter,
    (owner, total): (Option<Uid>, &OwnerTotal),
    names: &'a Names,
) -> UserTotalRow<'a> {
    UserTotalRow {
        source: Some(OWN),
        user: names.person(owner),
        uid: owner.map(|uid| uid.0.into()),
        ticks: Some(signed(total.ticks)),
        held_us: Some(micros(total.held)),
        charged_us: Some(micros(total.charged)),
        idle_held_us: Some(micros(total.idle_held)),
        energy_millijoules: total.counted_energy().map(|energy| signed(energy.0)),
        energy_known_us: Some(micros(total.energy_known)),
        ..on_card(quarter, &card.gpu, names)
    }
}

fn times(ticks: u64, interval: i64) -> Option<i64> {
    Some(signed(ticks).saturating_mul(interval))
}

fn of_old<'a>(key: &'a LegacyKey, count: &LegacyCount, names: &'a Names) -> TotalRow<'a> {
    let interval = interval_of(key.run);
    TotalRow {
        source: Some(IMPORTED),
        ticks: Some(signed(count.ticks())),
        active_us: times(count.active, interval),
        idle_held_us: times(count.idle_held, interval),
        held_unknown_us: Some(0),
        truly_idle_us: times(count.truly_idle, interval),
        unobserved_us: Some(0),
        ..of_card(key.quarter, &key.gpu, names)
    }
}

fn people_of_old<'a>(
    key: &'a LegacyKey,
    count: &'a LegacyCount,
    names: &'a Names,
) -> impl Iterator<Item = UserTotalRow<'a>> {
    let interval = interval_of(key.run);
    count
        .identities
        .iter()
        .map(move |(name, identity)| UserTotalRow {
            source: Some(IMPORTED),
            user: name.as_deref(),
            ticks: Some(signed(identity.ticks)),
            held_us: times(identity.ticks, interval),
            idle_held_us: times(identity.idle_held, interval),
            ..on_card(key.quarter, &key.gpu, names)
        })
}
