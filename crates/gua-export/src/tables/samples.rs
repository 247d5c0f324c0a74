//! One row for each GPU at each tick: its readings, its state, and the time that they cover.

use gua_model::span::SharePart;
use gua_model::{Gpu, LegacyGpuTick, LegacyMoment, Micros, Period, RollUp, Span, Tick};
use gua_query::RecordsError;

use super::{IMPORTED, OWN, Reading, StateTimes};
use crate::batch::Value::Missing;
use crate::column::{about, columns};
use crate::readings;
use crate::run::Edges;

struct OwnSample<'a> {
    tick: &'a Tick,
    gpu: &'a Gpu,
    span: &'a Span,
    /// The part of its span that counts.
    counted: Period,
    /// The state that took most of the time.
    state: Option<&'static str>,
    /// `None` for a GPU whose MIG instances are counted instead.
    times: Option<StateTimes>,
}

struct ImportedSample<'a> {
    tick: &'a LegacyGpuTick<'a>,
    class: RollUp,
    interval: Micros,
}

impl ImportedSample<'_> {
    fn time(&self, class: RollUp) -> Micros {
        if self.class == class {
            self.interval
        } else {
            Micros(0)
        }
    }
}

columns! {
    SAMPLES(names): own: OwnSample<'_>, old: ImportedSample<'_> {
        at: Time = about::TICK_AT; own.tick.sample.at; old.tick.at,
        host: Text = about::HOST; names.host(); names.host(),
        source: Text = about::SOURCE; OWN; IMPORTED,
        gpu_uuid: Text = about::GPU; own.gpu.uuid.as_str(); old.tick.gpu.as_str(),
        gpu_index: Int = about::INDEX_THEN; own.gpu.index; old.tick.index,
        gpu_name: Text = about::GPU_NAME; own.gpu.name.as_deref().ok(); names.gpu_name(old.tick.gpu),
        mig_parent_uuid: Text = about::MIG_PARENT; own.gpu.place.parent().map(|parent| parent.as_str()); Missing,
        is_counted: Bool = "Whether it counts as capacity; a GPU whose MIG instances have all its slices does not.";
            own.span.counts(); true,
        state: Text = "The state that took most of the time; see docs/states.md."; own.state; old.class.as_str(),
        basis: Text = "Basis of the time: `buffer` (the driver's samples) or `instant` (one reading).";
            own.span.basis.as_str(); "instant",
        interval_us: Int = "Maximum time that the tick may cover."; i64::try_from(own.tick.interval.as_micros()).ok(); old.interval,
        counted_us: Int = "GPU time that it covers within the window; of a MIG instance, the part of its slices."; own.times.map(|times| times.total()); old.interval,
        active_us: Int = "Of that, active."; own.times.map(|times| times.active); old.time(RollUp::Active),
        idle_held_us: Int = "Of that, idle-held."; own.times.map(|times| times.idle_held); old.time(RollUp::IdleHeld),
        held_unknown_us: Int = "Of that, held without a utilisation reading."; own.times.map(|times| times.held_unknown); 0_i64,
        truly_idle_us: Int = "Of that, truly idle."; own.times.map(|times| times.truly_idle); old.time(RollUp::TrulyIdle),
        unobserved_us: Int = "Of that, not observed although the tick was taken."; own.times.map(|times| times.unobserved); 0_i64,
        util_percent: Int = "Utilisation at the tick."; own.gpu.util.ok().map(|util| util.get()); old.tick.util,
        util_missing: Text = "Why it is missing: `unsupported`, `denied`, `gone` or `failed`.";
            own.gpu.util.err().map(|why| why.as_str()); Missing,
        util_mean_percent: Float = "Mean utilisation over the time that the tick covers.";
            own.span.util.ok().map(|util| f64::from(util.0) / 100.0); Missing,
        readings: Readings = "";
            readings::of_gpu(own.gpu, own.span.energy_within(own.counted).into()); readings::of_imported(old.tick),
        processes: Int = "Processes in the driver's lists."; own.gpu.processes.len(); old.tick.processes.len(),
    }
}

/// Writes the rows of a part of the window. `first` is true for its first part.
pub(crate) fn rows(
    reading: &mut Reading<'_>,
    part: Period,
    old: Period,
    first: bool,
) -> Result<u32, RecordsError> {
    let Reading {
        records,
        thresholds,
        own_ticks,
        sink,
        edges,
        window,
    } = reading;
    records.imported_moments(old, &mut |moment: &LegacyMoment<'_>| {
        own_ticks.rest(moment, |rest| {
            for tick in rest.ticks {
                sink.push(&ImportedSample {
                    tick,
                    class: tick.class(thresholds),
                    interval: tick.run.interval.into(),
                });
            }
        });
    })?;
    records.ticks_with_spans(part, *thresholds, &mut |tick: &Tick, spans: &[Span]| {
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
            let nothing = begins.then(|| Period::new(span.from, span.from));
            if let Some(counted) = counted.or(nothing) {
                sink.push(&own(tick, (gpu, span), counted));
            }
        }
        sink.check()
    })
}

fn own<'a>(tick: &'a Tick, (gpu, span): (&'a Gpu, &'a Span), counted: Period) -> OwnSample<'a> {
    let mut times = StateTimes::default();
    let mut longest: Option<SharePart<'_>> = None;
    for share in span.states_within(counted).filter(|_| span.counts()) {
        times.add(share.verdict.state, share.micros);
        if longest
            .as_ref()
            .is_none_or(|most| share.micros > most.micros)
        {
            longest = Some(share);
        }
    }
    OwnSample {
        tick,
        gpu,
        span,
        counted,
        state: longest.map(|share| share.verdict.state.as_str()),
        times: span.counts().then_some(times),
    }
}
