//! One row for each GPU at each tick: its readings, its state, and the time that they cover.

use gua_model::{Gpu, LegacyCardTick, LegacyMoment, Missing, Period, RollUp, Span, State, Tick};

use super::{IMPORTED, OWN, Reading, StateTimes, interval_of, micros, signed};
use crate::column::{about, columns};
use crate::error::ExportError;
use crate::readings::Values;
use crate::run::Edges;

columns! {
    /// One GPU at one tick.
    Sample {
        at: Time = about::TICK_AT,
        host: Text = about::HOST,
        source: Text = about::SOURCE,
        gpu_uuid: Text = about::GPU,
        gpu_index: Int = about::INDEX_THEN,
        gpu_name: Text = about::GPU_NAME,
        mig_parent_uuid: Text = about::MIG_PARENT,
        is_counted: Bool = "Whether it counts as capacity; a GPU whose MIG instances are counted instead does not.",
        state: Text = "The state that took most of the time; see docs/states.md.",
        basis: Text = "Basis of the time: `buffer` (the driver's samples) or `instant` (one reading).",
        interval_us: Int = "Maximum time that the tick may cover.",
        counted_us: Int = "Time that it covers within the window.",
        active_us: Int = "Of that, active.",
        idle_held_us: Int = "Of that, idle-held.",
        held_unknown_us: Int = "Of that, held without a utilisation reading.",
        truly_idle_us: Int = "Of that, truly idle.",
        unobserved_us: Int = "Of that, not observed although the tick was taken.",
        util_percent: Int = "Utilisation at the tick.",
        util_missing: Text = "Why it is missing: `unsupported`, `denied`, `gone` or `failed`.",
        util_mean_percent: Float = "Mean utilisation over the time that the tick covers.",
        readings: Readings = "",
        processes: Int = "Processes in the driver's lists.",
    }
}

/// Writes the rows of a part of the window. `first` is true for its first part.
pub(crate) fn rows(
    reading: &mut Reading<'_>,
    part: Period,
    old: Period,
    first: bool,
) -> Result<u32, ExportError> {
    let Reading {
        history,
        thresholds,
        names,
        own_since,
        sink,
        edges,
        window,
    } = reading;
    history.old_moments(old, &mut |moment: &LegacyMoment<'_>| {
        own_since.rest(moment, |rest| {
            for tick in rest.ticks {
                sink.push(&Sample {
                    host: names.host(),
                    gpu_name: names.gpu_name(tick.gpu),
                    ..of_old(tick, thresholds)
                });
            }
        });
    })?;
    let host = names.host();
    let damaged = history.each_tick(part, *thresholds, |tick: &Tick, spans: &[Span]| {
        let at = tick.sample.at;
        let begins = part.contains(at);
        // For the tick before the window, only the time inside the window counts. No other day contains that time.
        let reaches = first && *edges == Edges::Cut && at < part.from();
        if !begins && !reaches {
            return Ok(());
        }
        // Spans are in the order of the GPUs; a tick whose time was counted before has none.
        for (gpu, span) in tick.sample.gpus.iter().zip(spans) {
            let counted = match edges {
                Edges::Cut => span.period().overlap(*window),
                Edges::Whole => Some(span.period()),
            };
            match counted {
                Some(counted) => sink.push(&Sample {
                    host,
                    ..of_own(tick, gpu, span, counted)
                }),
                None if begins => sink.push(&Sample {
                    host,
                    ..of_own(tick, gpu, span, Period::new(span.from, span.from))
                }),
                None => {}
            }
        }
        sink.go_on()
    });
    sink.settle(damaged)
}

fn of_own<'a>(tick: &Tick, gpu: &'a Gpu, span: &'a Span, counted: Period) -> Sample<'a> {
    let mut row = Sample {
        at: Some(tick.sample.at),
        source: Some(OWN),
        gpu_uuid: Some(gpu.uuid.as_str()),
        gpu_index: Some(gpu.index.into()),
        gpu_name: gpu.name.as_deref().ok(),
        mig_parent_uuid: gpu.place.parent().map(|parent| parent.as_str()),
        is_counted: Some(span.counts),
        basis: Some(span.basis.as_str()),
        interval_us: i64::try_from(tick.interval.as_micros()).ok(),
        util_percent: gpu.util.ok().map(|util| util.get().into()),
        util_missing: gpu.util.as_ref().err().map(|why: &Missing| why.as_str()),
        util_mean_percent: span.util.ok().map(|util| f64::from(util.0) / 100.0),
        readings: Values::of(
            gpu,
            span.energy_within(counted).map(|energy| signed(energy.0)),
        ),
        processes: i64::try_from(gpu.processes.len()).ok(),
        ..Sample::default()
    };
    if !span.counts {
        return row;
    }
    let mut times = StateTimes::default();
    let mut all = 0;
    let mut longest: Option<(i64, State)> = None;
    for share in span.states_within(counted) {
        let state = share.verdict.state;
        let time = micros(share.micros);
        all += time;
        times.add(state, share.micros);
        if longest.is_none_or(|(most, _)| time > most) {
            longest = Some((time, state));
        }
    }
    row.state = longest.map(|(_, state)| state.as_str());
    row.counted_us = Some(all);
    [
        row.active_us,
        row.idle_held_us,
        row.held_unknown_us,
        row.truly_idle_us,
        row.unobserved_us,
    ] = times.columns();
    row
}

fn of_old<'a>(tick: &'a LegacyCardTick<'_>, thresholds: &gua_model::Thresholds) -> Sample<'a> {
    let class = tick.class(thresholds);
    let interval = interval_of(tick.run);
    let of = |other: RollUp| Some(if class == other { interval } else { 0 });
    Sample {
        at: Some(tick.at),
        source: Some(IMPORTED),
        gpu_uuid: Some(tick.gpu.as_str()),
        gpu_index: tick.index,
        is_counted: Some(true),
        state: Some(class.as_str()),
        basis: Some("instant"),
        interval_us: Some(interval),
        counted_us: Some(interval),
        active_us: of(RollUp::Active),
        idle_held_us: of(RollUp::IdleHeld),
        held_unknown_us: Some(0),
        truly_idle_us: of(RollUp::TrulyIdle),
        unobserved_us: Some(0),
        util_percent: Some(tick.util),
        readings: Values::of_imported(
            tick.memory_used_mb
                .and_then(|mb| mb.checked_mul(signed(gua_model::Bytes::PER_MB))),
        ),
        processes: i64::try_from(tick.processes.len()).ok(),
        ..Sample::default()
    }
}
